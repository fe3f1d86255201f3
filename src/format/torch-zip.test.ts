import { Buffer } from 'node:buffer';
import { beforeAll, describe, expect, test } from 'vitest';
import { type EmitFile, emit, memoryFile, seeded, type Tear, tears } from '../../test/support/scenes/emit.ts';
import { crc32 } from './crc32.ts';
import type { Damage } from './tensors.ts';
import { readTorchZip, type TorchZip, torchLayoutOf } from './torch-zip.ts';
import { checkRecords } from './torch-zip-records.ts';
import { zeroPages } from './values.ts';

const LAYOUTS = ['1.13', '2.1', '2.7'] as const;

function noise(bytes: number, seed: number): Buffer {
  const random = seeded(seed);
  return Buffer.from(Array.from({ length: bytes }, () => 1 + random(255)));
}

/** SpecForge's dict: ids, mask and two states; large enough that whole pages lie inside the states. */
function sampleFile(out: string, rest: Partial<EmitFile> = {}, tokens = 200): EmitFile {
  const tensor = (dtype: string, shape: readonly number[], bytes: number, seed: number) => ({
    tensor: dtype,
    shape,
    data: noise(bytes, seed).toString('base64'),
  });
  const object = {
    dict: [
      ['input_ids', tensor('int64', [tokens], tokens * 8, 1)],
      ['loss_mask', tensor('bool', [tokens], tokens, 2)],
      ['aux_hidden_state', tensor('bfloat16', [1, tokens, 48], tokens * 96, 3)],
      ['hidden_state', tensor('bfloat16', [1, tokens, 16], tokens * 32, 4)],
    ],
  };
  return { out, kind: 'torch', stem: 'data_7', object, ...rest };
}

async function zipOf(bytes: Uint8Array): Promise<TorchZip> {
  const read = await readTorchZip(memoryFile(bytes));
  if (!read.ok) throw new Error(read.damage.detail);
  return read.value;
}

async function damageOf(bytes: Uint8Array): Promise<Damage | null> {
  const read = await readTorchZip(memoryFile(bytes));
  return read.ok ? null : read.damage;
}

let files: Map<string, Buffer>;
function file(name: string): Buffer {
  return files.get(name) ?? Buffer.alloc(0);
}

beforeAll(async () => {
  const int = (value: string) => ({ int: value });
  const t = (share: string, rest: object) => ({ tensor: 'float32', data: noise(96, 9).toString('base64'), share, ...rest });
  files = await emit([
    ...LAYOUTS.map((layout) => sampleFile(layout, { layout })),
    sampleFile('crc-off', { crc: false }),
    sampleFile('aligned', { align: 4096 }),
    sampleFile('large', {}, 3000),
    sampleFile('other', {}, 90),
    {
      out: 'mixed',
      kind: 'torch',
      stem: 'mixed',
      layout: '2.1',
      object: {
        dict: [
          ['id', 'c-17'],
          ['count', int('70000')],
          ['negative', int('-3')],
          ['huge', int('123456789012345678901234567890')],
          ['score', 0.25],
          ['none', null],
          ['flag', true],
          ['numbers', { list: [int('1'), int('2')] }],
          ['nested', { dict: [['inner', { list: [t('a', { shape: [4, 6] }), 'text'] }]] }],
          ['whole', t('a', { shape: [4, 6] })],
          ['turned', t('a', { shape: [6, 4], stride: [1, 6] })],
          ['part', t('a', { shape: [2, 3], stride: [6, 1], offset: 8 })],
          ['none yet', { tensor: 'int64', shape: [0, 5], data: '' }],
          ['scalar', { tensor: 'float64', shape: [], data: noise(8, 3).toString('base64') }],
          ['__proto__', int('5')],
        ],
      },
    },
  ]);
});

describe('readTorchZip', () => {
  test.each(LAYOUTS)('finds every tensor of layout %s', async (layout) => {
    const bytes = file(layout);
    const zip = await zipOf(bytes);
    expect(torchLayoutOf(zip)).toBe(layout);
    expect(zip).toMatchObject({ prefix: 'data_7', crcComputed: true, bytes: bytes.length });
    expect([...zip.tensors.keys()]).toEqual(['input_ids', 'loss_mask', 'aux_hidden_state', 'hidden_state']);
    const states = zip.tensors.get('aux_hidden_state');
    expect(states).toMatchObject({
      dtype: 'BF16',
      shape: [1, 200, 48],
      stride: [9600, 48, 1],
      contiguous: true,
      bytes: 19200,
      record: 'data/2',
    });
    const offset = states?.fileOffset ?? 0;
    expect(bytes.subarray(offset, offset + 19200).equals(noise(19200, 3))).toBe(true);
    const checked = await checkRecords(memoryFile(bytes), zip);
    expect(checked).toEqual({ ok: true, value: { fileCrc32: crc32(bytes), bytes: bytes.length } });
  });

  test('reads a small file once, and of a larger one only its ends', async () => {
    const small = memoryFile(file('2.7'));
    await readTorchZip(small);
    expect(small.seen).toMatchObject({ reads: 1, total: small.size });
    const large = memoryFile(file('large'));
    expect((await readTorchZip(large)).ok).toBe(true);
    expect(large.seen.reads).toBeLessThanOrEqual(3);
    expect(large.seen.largest).toBeLessThanOrEqual(65536);
  });

  test('gives plain values, and nested, shared and strided tensors', async () => {
    const zip = await zipOf(file('mixed'));
    const values = Object.entries({ id: 'c-17', count: 70000, negative: -3, score: 0.25, none: null, flag: true });
    for (const [name, value] of values) expect(zip.values.get(name), name).toEqual(value);
    expect(zip.values.get('huge')).toBe(123456789012345678901234567890n);
    expect(zip.values.get('numbers')).toEqual([1, 2]);
    expect(zip.values.get('nested/inner/1')).toBe('text');
    expect(zip.values.get('__proto__')).toBe(5);
    const whole = zip.tensors.get('whole');
    expect(zip.tensors.get('nested/inner/0')).toEqual({ ...whole, name: 'nested/inner/0' });
    expect(zip.tensors.get('turned')).toMatchObject({ contiguous: false, fileOffset: whole?.fileOffset, bytes: 96 });
    expect(zip.tensors.get('part')).toMatchObject({ contiguous: false, fileOffset: (whole?.fileOffset ?? 0) + 32, bytes: 24 });
    expect(zip.tensors.get('none yet')).toMatchObject({ shape: [0, 5], bytes: 0, contiguous: true });
    expect(zip.tensors.get('scalar')).toMatchObject({ dtype: 'F64', shape: [], bytes: 8, contiguous: true });
  });

  test('a file without CRCs is whole and unprovable', async () => {
    const zip = await zipOf(file('crc-off'));
    expect(zip.crcComputed).toBe(false);
    const holed = Buffer.from(file('crc-off'));
    holed[zip.tensors.get('hidden_state')?.fileOffset ?? 0] = 0;
    expect(await checkRecords(memoryFile(holed), await zipOf(holed))).toMatchObject({ ok: true, value: { fileCrc32: crc32(holed) } });
  });

  test('takes the alignment that the file states', async () => {
    const zip = await zipOf(file('aligned'));
    for (const record of zip.records) expect(record.offset % 4096).toBe(0);
  });

  test('tells other formats by name', async () => {
    const legacy = Buffer.concat([Buffer.from([0x80, 0x02, 0x8a, 0x0a]), noise(500, 1)]);
    expect(await damageOf(legacy)).toMatchObject({ kind: 'refused', reason: 'legacy' });
    expect(await damageOf(Buffer.from([0x1f, 0x8b, 8, 0, 1, 2, 3]))).toEqual({ kind: 'refused', reason: 'legacy', detail: 'gzip-wrapped' });
    expect(await damageOf(Buffer.from('hello'))).toMatchObject({ kind: 'torn', reason: 'truncated' });
    expect(await damageOf(noise(5000, 2))).toMatchObject({ kind: 'torn', reason: 'structure' });
  });
});

const REASONS: Readonly<Record<string, Damage['reason']>> = {
  'zero-length': 'empty',
  'all-zero': 'zero-filled',
  'stale-tail': 'trailing-bytes',
  'zip-cut-local-header': 'truncated',
  'zip-cut-tensor-data': 'truncated',
  'zip-cut-before-directory': 'truncated',
  'zip-cut-in-directory': 'truncated',
  'zip-cut-last-byte': 'truncated',
  'zip-zero-tail': 'zero-filled',
  'zip-header-overwritten': 'structure',
  'zip-header-zeroed': 'structure',
};

/** The cheapest check that notices, and what it says. */
async function level(torn: Tear): Promise<string> {
  const source = memoryFile(torn.bytes);
  const read = await readTorchZip(source);
  if (!read.ok) return `${read.damage.kind} ${read.damage.reason}`;
  const checked = await checkRecords(source, read.value);
  if (!checked.ok) return `${checked.damage.kind} ${checked.damage.reason}`;
  for (const tensor of read.value.tensors.values()) {
    const bytes = torn.bytes.subarray(tensor.fileOffset, tensor.fileOffset + tensor.bytes);
    if (zeroPages(bytes, tensor.fileOffset).length > 0) return 'zero pages';
  }
  return 'sound';
}

describe('every kind of damage of a torch zip', () => {
  test.each([1, 2, 3])('is seen at its level, seed %i', async (seed) => {
    for (const [name, other] of [
      ['2.7', undefined],
      ['1.13', 'other'],
      ['large', '2.7'],
      ['2.1', '2.1'],
    ] as const) {
      const made = await tears('data_7.pt', file(name), seed, other === undefined ? undefined : file(other));
      expect(made.length).toBe(13);
      for (const torn of made) {
        const expected = torn.seen_by === 'crc' ? 'corrupt checksum' : `torn ${REASONS[torn.how]}`;
        expect(await level(torn), `${torn.how} of ${name}, seed ${seed}`).toBe(expected);
      }
    }
  });

  test('without CRCs only the values can tell', async () => {
    for (const torn of await tears('data_7.pt', file('crc-off'), 3)) {
      if (torn.how === 'zip-zero-hole') expect(await level(torn)).toBe('zero pages');
      if (torn.how === 'zip-bit-flip') expect(await level(torn)).toBe('sound');
    }
  });
});
