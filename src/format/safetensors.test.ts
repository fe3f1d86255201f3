import { Buffer } from 'node:buffer';
import { beforeAll, describe, expect, test } from 'vitest';
import { type EmitFile, emit, memoryFile, seeded, tears } from '../../test/support/scenes/emit.ts';
import { crc32 } from './crc32.ts';
import { readSafetensors, type SafetensorsFile } from './safetensors.ts';
import { safetensorsSizeOf, writeSafetensors } from './safetensors-writer.ts';
import { type Damage, DTYPE_BYTES, type Dtype, elementCount, type TensorSource, type WrittenFile } from './tensors.ts';
import { zeroPages } from './values.ts';

const TORCH_NAMES: Readonly<Partial<Record<Dtype, string>>> = {
  BF16: 'bfloat16',
  F16: 'float16',
  F32: 'float32',
  F64: 'float64',
  I64: 'int64',
  I32: 'int32',
  I16: 'int16',
  I8: 'int8',
  U8: 'uint8',
  BOOL: 'bool',
};

function source(name: string, dtype: Dtype, shape: readonly number[], seed: number): TensorSource & { readonly data: Buffer } {
  const random = seeded(seed);
  const data = Buffer.from(Array.from({ length: elementCount(shape) * DTYPE_BYTES[dtype] }, () => 1 + random(255)));
  return {
    name,
    dtype,
    shape,
    data,
    *pieces() {
      for (let at = 0; at < data.length; at += 777) yield data.subarray(at, at + 777);
    },
  };
}

async function write(
  tensors: readonly TensorSource[],
  metadata?: ReadonlyMap<string, string>,
): Promise<{ file: Buffer; written: WrittenFile }> {
  const pieces: Buffer[] = [];
  const stream = writeSafetensors(tensors, metadata);
  for (;;) {
    const step = await stream.next();
    if (step.done) return { file: Buffer.concat(pieces), written: step.value };
    pieces.push(Buffer.from(step.value));
  }
}

async function open(bytes: Uint8Array): Promise<SafetensorsFile> {
  const read = await readSafetensors(memoryFile(bytes));
  if (!read.ok) throw new Error(read.damage.detail);
  return read.value;
}

async function damage(bytes: Uint8Array): Promise<Damage | null> {
  const read = await readSafetensors(memoryFile(bytes));
  return read.ok ? null : read.damage;
}

/** A file of this header and so many bytes of data. */
function withHeader(header: string, dataBytes = 0): Buffer {
  const json = Buffer.from(header);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, Buffer.alloc(dataBytes, 1)]);
}

describe('writeSafetensors', () => {
  test('writes what the library writes', async () => {
    const random = seeded(3);
    const dtypes = Object.keys(TORCH_NAMES) as Dtype[];
    const cases = Array.from({ length: 60 }, (_, k) => {
      const tensors = Array.from({ length: random(8) }, (_, t) => {
        const shape = Array.from({ length: random(4) }, () => random(7));
        return source(`${'zyxab'[random(5)]}${t}`, dtypes[random(dtypes.length)] ?? 'F32', shape, k * 10 + t);
      });
      return { out: `${k}`, tensors, metadata: k % 3 === 0 ? { format: 'pt', note: 'a "b"' } : undefined };
    });
    const expected = await emit(
      cases.map(({ out, tensors, metadata }): EmitFile => {
        const members = tensors.map(({ name, dtype, shape, data }) => [
          name,
          { tensor: TORCH_NAMES[dtype], shape, data: data.toString('base64') },
        ]);
        return { out, kind: 'safetensors', object: { dict: members }, ...(metadata === undefined ? {} : { metadata }) };
      }),
    );
    for (const { out, tensors, metadata } of cases) {
      const map = metadata === undefined ? undefined : new Map(Object.entries(metadata));
      const { file, written } = await write(tensors, map);
      expect(file.equals(expected.get(out) ?? Buffer.alloc(0)), `case ${out}`).toBe(true);
      expect(written).toEqual({ bytes: file.length, crc32: crc32(file), records: [] });
      expect(safetensorsSizeOf(tensors, map)).toBe(file.length);
      const read = await open(file);
      for (const { name, dtype, shape, data } of tensors) {
        const info = read.tensors.get(name);
        expect(info).toMatchObject({ dtype, shape, contiguous: true, record: null, bytes: data.length });
        const offset = info?.fileOffset ?? 0;
        expect(file.subarray(offset, offset + data.length).equals(data)).toBe(true);
      }
      expect(Object.fromEntries(read.metadata)).toEqual(metadata ?? {});
    }
  });

  test('takes every dtype and name that the format has', async () => {
    const dtypes: readonly Dtype[] = ['F8_E4M3', 'F8_E5M2', 'U16', 'U32', 'U64', 'C64'];
    const tensors = [
      ...dtypes.map((dtype, k) => source(`t${k}`, dtype, [3], k)),
      source('__proto__', 'F32', [2], 9),
      source('ключ', 'I8', [1], 8),
    ];
    const { file } = await write(tensors);
    expect(new Set((await open(file)).tensors.keys())).toEqual(new Set(tensors.map((tensor) => tensor.name)));
  });

  test('a source of another length than its shape is a broken belief', async () => {
    const good = source('a', 'F32', [4], 1);
    await expect(write([{ ...good, shape: [5], pieces: () => good.pieces() }])).rejects.toThrow('yielded 16');
    await expect(write([{ ...good, shape: [3], pieces: () => good.pieces() }])).rejects.toThrow('yielded more');
    await expect(write([good, good])).rejects.toThrow('names differ');
  });
});

describe('readSafetensors', () => {
  let good: Buffer;
  beforeAll(async () => {
    const states = source('hidden_states', 'BF16', [200, 4, 16], 1);
    good = (await write([states, source('token_ids', 'I64', [200], 2)])).file;
  });

  const REASONS: Readonly<Record<string, string>> = {
    'zero-length': 'torn empty',
    'all-zero': 'torn zero-filled',
    'stale-tail': 'torn trailing-bytes',
    'st-cut-in-length': 'torn truncated',
    'st-cut-in-header': 'torn truncated',
    'st-cut-in-data': 'torn truncated',
    'st-header-too-long': 'torn truncated',
    'st-bad-json': 'torn structure',
    'st-zero-tail': 'zero pages',
    'st-zero-hole': 'zero pages',
    'st-bit-flip': 'sound',
  };

  test.each([1, 2, 3, 4])('sees every kind of damage at its level, seed %i', async (seed) => {
    const made = await tears('hs_7.safetensors', good, seed);
    expect(made.length).toBe(11);
    for (const torn of made) {
      const read = await readSafetensors(memoryFile(torn.bytes));
      const states = read.ok ? read.value.tensors.get('hidden_states') : undefined;
      const { fileOffset = 0, bytes = 0 } = states ?? {};
      const pages = zeroPages(torn.bytes.subarray(fileOffset, fileOffset + bytes), fileOffset, fileOffset + bytes === torn.bytes.length);
      const seen = read.ok ? (pages.length > 0 ? 'zero pages' : 'sound') : `${read.damage.kind} ${read.damage.reason}`;
      expect(seen, `${torn.how}, seed ${seed}`).toBe(REASONS[torn.how]);
    }
  });

  test('any truncation and any appended bytes are damage', async () => {
    for (let length = 0; length < good.length; length += length < 400 ? 1 : 997) {
      expect(await damage(good.subarray(0, length)), `cut at ${length}`).not.toBeNull();
    }
    for (const extra of [1, 8, 4096])
      expect(await damage(Buffer.concat([good, Buffer.alloc(extra)]))).toMatchObject({ reason: 'trailing-bytes' });
  });

  test.each([
    ['a key twice', '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1],
    ['a member twice', '{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1],
    ['a metadata key twice', '{"__metadata__":{"a":"b","a":"b"}}', 0],
    ['a gap', '{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', 2],
    ['an overlap', '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}', 3],
    ['a shape of another size', '{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,2]}}', 2],
    ['a shape beyond all numbers', `{"a":{"dtype":"U8","shape":[${'9007199254740991,'.repeat(30)}0],"data_offsets":[0,2]}}`, 2],
    ['an unknown dtype', '{"a":{"dtype":"U7","shape":[2],"data_offsets":[0,2]}}', 2],
    ['a prototype as dtype', '{"a":{"dtype":"constructor","shape":[2],"data_offsets":[0,2]}}', 2],
    ['a negative offset', '{"a":{"dtype":"U8","shape":[2],"data_offsets":[-2,0]}}', 0],
    ['a fraction', '{"a":{"dtype":"U8","shape":[2.0],"data_offsets":[0,2]}}', 2],
    ['a leading zero', '{"a":{"dtype":"U8","shape":[02],"data_offsets":[0,2]}}', 2],
    ['nesting', `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, 0],
    ['text after the end', '{} x', 0],
    ['no object', '[]', 0],
    ['a space in front', ' {}', 0],
    ['metadata that is no text', '{"__metadata__":{"a":1}}', 0],
    ['an open string', '{"a', 0],
    ['a trailing backslash', '{"a\\', 0],
    ['a control character', '{"a\u0001":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1],
  ])('%s is damaged structure', async (_, header, dataBytes) => {
    expect(await damage(withHeader(header, dataBytes))).toMatchObject({ kind: 'torn', reason: 'structure' });
  });

  test('other dtypes of the format are refused by name', async () => {
    const header = '{"a":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[0,2]}}';
    expect(await damage(withHeader(header, 2))).toMatchObject({ kind: 'refused', reason: 'version' });
  });

  test('names may be anything', async () => {
    const read = await open(
      withHeader(
        '{"__proto__":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\\u00e9\\n":{"shape":[],"dtype":"I8","data_offsets":[1,2]}}',
        2,
      ),
    );
    expect([...read.tensors.keys()]).toEqual(['__proto__', 'é\n']);
    expect(read.tensors.get('é\n')).toMatchObject({ shape: [], stride: [], bytes: 1 });
  });

  test('reads no more than the file holds, whatever the length word says', async () => {
    for (const length of [0n, 1n, 99_999_999n, 100_000_001n, 2n ** 53n, 2n ** 64n - 1n]) {
      const bytes = Buffer.from(good);
      bytes.writeBigUInt64LE(length);
      const file = memoryFile(bytes);
      expect((await readSafetensors(file)).ok).toBe(false);
      expect(file.seen.largest).toBeLessThanOrEqual(16384);
    }
  });

  test('changed headers give damage or other tensors, and never an error', async () => {
    const random = seeded(17);
    for (let round = 0; round < 3000; round += 1) {
      const bytes = Buffer.from(good.subarray(0, good.length));
      const at = random(220);
      bytes[at] = round % 2 === 0 ? (bytes[at] as number) ^ (1 << random(8)) : random(256);
      const file = memoryFile(bytes);
      const read = await readSafetensors(file);
      expect(file.seen.largest).toBeLessThanOrEqual(bytes.length);
      if (!read.ok) continue;
      for (const tensor of read.value.tensors.values()) expect(tensor.fileOffset + tensor.bytes).toBeLessThanOrEqual(bytes.length);
    }
  });
});
