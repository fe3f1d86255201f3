import type { Random } from '../support/seeded-random.ts';
import { oddNumber, oneOf } from './mutate.ts';

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(Math.min(value, 0xffffffff));
  return bytes;
};
const u64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(Math.min(value, 2 ** 63)));
  return bytes;
};
const ascii = (text: string): Buffer => Buffer.from(text, 'latin1');
const text = (value: string): Buffer => Buffer.concat([ascii('X'), u32(Buffer.byteLength(value)), Buffer.from(value)]);
const begin = Buffer.from([0x80, 2]);

const GLOBALS = [
  'cos\nsystem\n',
  'cposix\nsystem\n',
  'c__builtin__\neval\n',
  'cbuiltins\ngetattr\n',
  'ctorch._utils\n_rebuild_tensor_v2\n',
  'ctorch._utils\n_rebuild_tensor_v3\n',
  'ctorch._utils\n_rebuild_parameter\n',
  'ccollections\nOrderedDict\n',
  'ctorch\nFloatStorage\n',
  'ctorch\nbfloat16\n',
  'ctorch\nSize\n',
  'c_codecs\nencode\n',
  'ctorch\nUntypedStorage\n',
  'ctorch\n__proto__\n',
];

/** One opcode with its argument: mostly those that are understood, so that the machine gets far. */
function opcode(random: Random): Buffer {
  const plain = 'N)]}(tlusaeR.Q\x85\x86\x87\x88\x89\x93\x94';
  switch (random.below(12)) {
    case 0:
      return ascii(oneOf(random, GLOBALS));
    case 1:
      return text(oneOf(random, ['storage', '0', 'cpu', '__proto__', 'constructor', 'latin1', '\u0000', 'x'.repeat(random.below(300))]));
    case 2:
      return Buffer.concat([ascii('J'), u32(oddNumber(random, 8))]);
    case 3:
      return Buffer.from([0x4b, random.below(256)]);
    case 4:
      return Buffer.from([oneOf(random, [0x71, 0x68]), random.below(4)]);
    case 5:
      return Buffer.concat([ascii(oneOf(random, ['r', 'j'])), u32(oddNumber(random, 4))]);
    case 6:
      return Buffer.concat([Buffer.from([0x8a, 8]), u64(oddNumber(random, 64))]);
    case 7:
      return Buffer.concat([Buffer.from([oneOf(random, [0x8d, 0x8e, 0x95])]), u64(oddNumber(random, 8)), random.bytes(8)]);
    case 8:
      return Buffer.concat([ascii(oneOf(random, ['X', 'B', '\x8b'])), u32(oddNumber(random, 8)), random.bytes(8)]);
    case 9:
      return Buffer.concat([ascii('G'), random.bytes(8)]);
    case 10:
      return Buffer.from([random.below(256)]);
    default:
      return ascii(plain.charAt(random.below(plain.length)));
  }
}

/** A tensor's words with numbers that do not fit. */
function tensor(random: Random): Buffer {
  const count = (): Buffer => Buffer.concat([Buffer.from([0x8a, 8]), u64(oddNumber(random, oneOf(random, [6, 8, 24])))]);
  const tuple = (): Buffer =>
    Buffer.concat([ascii('('), ...Array.from({ length: random.below(random.chance(0.1) ? 80 : 4) }, count), ascii('t')]);
  const type = oneOf(random, ['LongStorage', 'FloatStorage', 'BFloat16Storage', 'UntypedStorage', 'ByteStorage']);
  const storage = Buffer.concat([
    ascii('('),
    text('storage'),
    ascii(`ctorch\n${type}\n`),
    text(oneOf(random, ['0', '1', '2', '9', '../0'])),
    text('cpu'),
    count(),
    ascii('tQ'),
  ]);
  const hooks = ascii('\x89ccollections\nOrderedDict\n)R');
  return Buffer.concat([ascii('ctorch._utils\n_rebuild_tensor_v2\n('), storage, count(), tuple(), tuple(), hooks, ascii('tR')]);
}

/** Pickles that nobody writes by accident. */
export function hostilePickle(random: Random): Buffer {
  const repeat = (piece: Buffer | string, times: number): Buffer =>
    Buffer.concat(new Array<Uint8Array>(times).fill(typeof piece === 'string' ? ascii(piece) : piece));
  const depth = oneOf(random, [10, 40, 999, 1001, 100_000]);
  switch (random.below(10)) {
    case 0:
      return Buffer.concat([begin, ...Array.from({ length: random.below(60) }, () => opcode(random)), ascii('.')]);
    case 1:
      return Buffer.concat([begin, repeat('(', depth), repeat('t', depth), ascii('.')]);
    case 2:
      return Buffer.concat([begin, repeat(']', depth), repeat('a', depth - 1), ascii('.')]);
    case 3:
      // Each tuple holds the last one twice: 2^depth values in a few bytes.
      return Buffer.concat([begin, ascii('Nq\x00'), repeat('h\x00\x86q\x00', Math.min(depth, 200)), ascii('.')]);
    case 4:
      return Buffer.concat([begin, ascii(']q\x00h\x00a.')]);
    case 5:
      return Buffer.concat([begin, ascii('}q\x00'), text('self'), ascii('h\x00s.')]);
    case 6:
      return Buffer.concat([begin, ascii('('), repeat('N', oneOf(random, [1000, 999_990, 1_000_010])), ascii('l.')]);
    case 7:
      return Buffer.concat([
        begin,
        ascii('}('),
        ...Array.from({ length: 1 + random.below(5) }, (_, key) => [text(`t${key}`), tensor(random)]).flat(),
        ascii('u.'),
      ]);
    case 8:
      return Buffer.concat([begin, ascii(']('), ...Array.from({ length: 1 + random.below(3) }, () => tensor(random)), ascii('e.')]);
    default:
      return Buffer.concat([begin, ascii(oneOf(random, GLOBALS)), ascii('('), text('touch /tmp/fuzz'), ascii('tR.')]);
  }
}
