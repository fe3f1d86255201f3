import { Buffer } from 'node:buffer';
import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { seeded } from '../../test/support/scenes/emit.ts';
import { parsePickle } from './pickle.ts';
import type { PickleValue } from './pickle-values.ts';
import { pickleOfTensors } from './pickle-writer.ts';
import type { Damage } from './tensors.ts';

function read(bytes: Uint8Array): PickleValue {
  const parsed = parsePickle(bytes);
  if (!parsed.ok) throw new Error(parsed.damage.detail);
  return parsed.value;
}

function damage(text: string): Damage | null {
  const parsed = parsePickle(Buffer.from(text, 'latin1'));
  return parsed.ok ? null : parsed.damage;
}

const hostile = { kind: 'refused', reason: 'hostile' };
const torn = { kind: 'torn', reason: 'structure' };

describe('parsePickle', () => {
  test.each([2, 3, 4, 5])('reads what Python writes in protocol %i', (protocol) => {
    const script = `
import pickle, sys, collections
shared = [1, 2]
value = {"text": "ключ", "empty": "", "small": 7, "two": 40000, "four": -70000, "long": 1 << 40, "wide": -(1 << 70),
         "float": -0.5, "yes": True, "no": False, "none": None, "bytes": b"\\x00\\xff", "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
         "shared": [shared, shared], "many": list(range(3000)), "nested": {"a": {"b": []}}, "ordered": collections.OrderedDict([("k", 1)]),
         "words": ["w%d" % k for k in range(300)]}
sys.stdout.buffer.write(pickle.dumps(value, ${protocol}))`;
    const value = read(execFileSync('python3', ['-c', script]));
    const entries = typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'dict' ? value.entries : [];
    const list = (items: PickleValue[]) => ({ kind: 'list', items });
    const tuple = (items: PickleValue[]) => ({ kind: 'tuple', items });
    expect(new Map(entries)).toEqual(
      new Map<string, unknown>([
        ['text', 'ключ'],
        ['empty', ''],
        ['small', 7],
        ['two', 40000],
        ['four', -70000],
        ['long', 2 ** 40],
        ['wide', -(1n << 70n)],
        ['float', -0.5],
        ['yes', true],
        ['no', false],
        ['none', null],
        ['bytes', new Uint8Array([0, 255])],
        ['tuples', list([tuple([]), tuple([1]), tuple([1, 2]), tuple([1, 2, 3]), tuple([1, 2, 3, 4])] as PickleValue[])],
        ['shared', list([list([1, 2]), list([1, 2])] as PickleValue[])],
        ['many', list(Array.from({ length: 3000 }, (_, k) => k))],
        ['nested', { kind: 'dict', entries: [['a', { kind: 'dict', entries: [['b', list([])]] }]] }],
        ['ordered', { kind: 'dict', entries: [['k', 1]] }],
        ['words', list(Array.from({ length: 300 }, (_, k) => `w${k}`))],
      ]),
    );
  });

  test('knows torch tensors of every kind of storage', () => {
    const storage = (type: string) => `(X\x07\x00\x00\x00storagec${type}\nX\x01\x00\x00\x000X\x06\x00\x00\x00cuda:0K\x08tQ`;
    const rest = 'K\x00K\x02K\x04\x86K\x04K\x01\x86\x89ccollections\nOrderedDict\n)R';
    const v2 = `\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(${storage('torch\nHalfStorage')}${rest}tR.`;
    expect(read(Buffer.from(v2, 'latin1'))).toMatchObject({ kind: 'tensor', dtype: 'F16', shape: [2, 4], stride: [4, 1] });
    const v3 = `\x80\x02ctorch._utils\n_rebuild_tensor_v3\n(${storage('torch.storage\nUntypedStorage')}${rest}ctorch\nfloat8_e4m3fn\ntR.`;
    expect(read(Buffer.from(v3, 'latin1'))).toMatchObject({ kind: 'tensor', dtype: 'F8_E4M3', storage: { dtype: null, elements: 8 } });
    const parameter = `\x80\x02ctorch._utils\n_rebuild_parameter\n(${v2.slice(2, -1)}\x88ccollections\nOrderedDict\n)RtR.`;
    expect(read(Buffer.from(parameter, 'latin1'))).toMatchObject({ kind: 'tensor', dtype: 'F16' });
    expect(damage(v3.replace('float8_e4m3fn', 'quint8'))).toMatchObject(hostile);
    expect(damage(v2.replace('HalfStorage', 'QInt8Storage'))).toMatchObject(hostile);
  });

  test.each([
    ['cos\nsystem\n.', 'os.system'],
    ['cbuiltins\neval\n.', 'builtins.eval'],
    ['c__builtin__\ngetattr\n.', '__builtin__.getattr'],
    ['ctorch\nload\n.', 'torch.load'],
    ['ctorch._utils\n__dict__\n.', '__dict__'],
    ['cconstructor\n__proto__\n.', '__proto__'],
    ['\x8c\x02os\x8c\x06system\x93.', 'os.system'],
    ['}b.', 'BUILD'],
    ['(ios\nsystem\n.', 'INST'],
    ['(o.', 'OBJ'],
    [')\x81.', 'NEWOBJ'],
    [')}\x92.', 'NEWOBJ_EX'],
    ['\x82\x01.', 'EXT1'],
    ['\x97.', 'NEXT_BUFFER'],
    ['Pabc\n.', 'PERSID'],
    ['\xff.', '0xff'],
  ])('refuses %j by name', (pickle, name) => {
    const found = damage(`\x80\x02${pickle}`);
    expect(found).toMatchObject(hostile);
    expect(found?.detail).toContain(name);
  });

  test('refuses to call what only names a type', () => {
    expect(damage('\x80\x02ctorch\nFloatStorage\n)R.')).toMatchObject(hostile);
    expect(damage('\x80\x02ccollections\nOrderedDict\n]\x85R.')).toMatchObject(hostile);
    expect(damage('\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x04\x00\x00\x00zlib\x86R.')).toMatchObject(hostile);
    expect(damage('\x80\x06N.')).toMatchObject({ kind: 'refused', reason: 'version' });
  });

  test('bounds depth, values, memo and integers', () => {
    expect(damage(`\x80\x02${'('.repeat(100_000)}.`)).toMatchObject(hostile);
    expect(damage(`\x80\x02]${'N'.repeat(1_100_000)}.`)).toMatchObject(hostile);
    expect(damage(`\x80\x04N${'\x94'.repeat(1_000_001)}.`)).toMatchObject(hostile);
    expect(damage(`\x80\x02\x8b\xff\xff\xff\x7f.`)).toMatchObject(hostile);
    const deep = `\x80\x02${']'.repeat(100_000)}${'a'.repeat(99_999)}.`;
    expect(damage(deep)).toBeNull();
  });

  test.each([
    '',
    '\x80\x02',
    '\x80\x02.',
    '\x80\x02NN.',
    '\x80\x02N.N',
    '\x80\x02(N.',
    '\x80\x02t.',
    '\x80\x02Na.',
    '\x80\x02NNs.',
    '\x80\x02}(Nu.',
    '\x80\x02h\x00.',
    '\x80\x02q\x00.',
    '\x80\x02X\xff\xff\xff\xffabc.',
    '\x80\x02X\x02\x00\x00\x00\xc3\x28.',
    '\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc.',
    '\x80\x02NQ.',
    '\x80\x02NNR.',
    '\x80\x02cos',
    '\x80\x04\x95\xff\x00\x00\x00\x00\x00\x00\x00N.',
  ])('bytes that are no pickle are damaged structure: %j', (pickle) => {
    expect(damage(pickle)).toMatchObject(torn);
  });

  test('gives an answer for any prefix and any change', () => {
    const random = seeded(31);
    const good = Buffer.from(
      pickleOfTensors([
        { name: 'input_ids', dtype: 'I64', shape: [70_000] },
        { name: 'hidden_state', dtype: 'BF16', shape: [1, 70_000, 4096, 3] },
      ]),
    );
    for (let length = 0; length < good.length; length += 1) expect(parsePickle(good.subarray(0, length)).ok).toBe(false);
    for (let round = 0; round < 10_000; round += 1) {
      const bytes = Buffer.from(good);
      for (let k = random(4); k >= 0; k -= 1) bytes[random(bytes.length)] = random(256);
      parsePickle(bytes);
    }
  });
});
