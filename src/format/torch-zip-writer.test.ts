import { Buffer } from 'node:buffer';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { emit, emitInto, inFolder, seeded } from '../../test/support/scenes/emit.ts';
import type { RandomAccess } from '../core/random-access.ts';
import { crc32 } from './crc32.ts';
import { DTYPE_BYTES, type Dtype, elementCount, type TensorSource, type WrittenFile } from './tensors.ts';
import { readTorchZip, torchLayoutOf } from './torch-zip.ts';
import { fileSizeOf, type TorchLayout, type TorchZipOptions, writeTorchZip } from './torch-zip-writer.ts';

const LAYOUTS: readonly TorchLayout[] = ['1.13', '2.1', '2.7'];
const TORCH_NAMES = {
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
} as const satisfies Partial<Record<Dtype, string>>;

interface Sample {
  readonly name: string;
  readonly dtype: keyof typeof TORCH_NAMES;
  readonly shape: readonly number[];
  readonly data: Buffer;
}

function sample(name: string, dtype: Sample['dtype'], shape: readonly number[], random: (below: number) => number): Sample {
  const data = Buffer.alloc(elementCount(shape) * DTYPE_BYTES[dtype]);
  for (let at = 0; at < data.length; at += 1) data[at] = random(256);
  return { name, dtype, shape, data };
}

function source({ name, dtype, shape, data }: Sample, pieceBytes = 1000): TensorSource {
  return {
    name,
    dtype,
    shape,
    *pieces() {
      for (let at = 0; at < data.length; at += pieceBytes) yield data.subarray(at, at + pieceBytes);
    },
  };
}

async function write(tensors: readonly TensorSource[], options: TorchZipOptions): Promise<{ file: Buffer; written: WrittenFile }> {
  const pieces: Buffer[] = [];
  const stream = writeTorchZip(tensors, options);
  for (;;) {
    const step = await stream.next();
    if (step.done) return { file: Buffer.concat(pieces), written: step.value };
    pieces.push(Buffer.from(step.value));
  }
}

describe('writeTorchZip', () => {
  test('writes the bytes of torch.save, whatever the shapes, names and layout', async () => {
    const random = seeded(7);
    const dtypes = Object.keys(TORCH_NAMES) as Sample['dtype'][];
    const names = ['input_ids', 'loss_mask', 'hidden_state', 'storage', 'cpu', '0', 'ключ', 'a"b', ''];
    const cases = Array.from({ length: 120 }, (_, index) => {
      // 300 tensors: the memo passes 256, so its long opcodes are met.
      const count = index === 0 ? 0 : index === 1 ? 300 : 1 + random(13);
      const tensors = Array.from({ length: count }, (_, k) => {
        const shape = Array.from({ length: random(6) }, () => random(9)).slice(0, random(5));
        if (random(20) === 0) shape.push(70_000 + random(10));
        return sample(names[k] ?? `t${k}`, dtypes[random(dtypes.length)] ?? 'F32', elementCount(shape) > 200_000 ? [3] : shape, random);
      });
      const layout = LAYOUTS[index % 3] ?? '2.7';
      const stem = ['data_7', 'data_12345.x', 'd', 'x'.repeat(200)][random(4)] ?? 'd';
      return { tensors, layout, stem, out: `${index}` };
    });
    const expected = await emit(
      cases.map(({ tensors, layout, stem, out }) => ({
        out,
        kind: 'torch',
        stem,
        layout,
        object: {
          dict: tensors.map(({ name, dtype, shape, data }) => [name, { tensor: TORCH_NAMES[dtype], shape, data: data.toString('base64') }]),
        },
      })),
    );
    for (const { tensors, layout, stem, out } of cases) {
      const sources = tensors.map((tensor) => source(tensor, 1 + random(70_000)));
      const { file, written } = await write(sources, { stem, layout });
      expect(file.equals(expected.get(out) ?? Buffer.alloc(0)), `case ${out}, layout ${layout}`).toBe(true);
      expect(written.bytes).toBe(file.length);
      expect(written.crc32).toBe(crc32(file));
      expect(fileSizeOf(tensors, { stem, layout })).toBe(file.length);
    }
  });

  test('goes on past 4 GiB as torch does', async () => {
    const big = 2 ** 32 + 5;
    const zeros = Buffer.alloc(8 << 20);
    const shapes = [
      { name: 'big', dtype: 'U8', shape: [big] },
      { name: 'after', dtype: 'I64', shape: [3] },
      { name: 'none', dtype: 'I64', shape: [0] },
    ] as const;
    const sources = shapes.map((shape): TensorSource => {
      const bytes = elementCount(shape.shape) * DTYPE_BYTES[shape.dtype];
      return {
        ...shape,
        *pieces() {
          for (let left = bytes; left > 0; left -= zeros.length) yield zeros.subarray(0, Math.min(left, zeros.length));
        },
      };
    });
    const tensors = shapes.map(({ name, dtype, shape }) => [
      name,
      { tensor: TORCH_NAMES[dtype], shape, zeros: elementCount(shape) * DTYPE_BYTES[dtype] },
    ]);
    await inFolder(async (folder) => {
      // The reference file is sparse: a hole of 4 GiB takes no room.
      emitInto(folder, [{ out: 'big.pt', kind: 'torch', stem: 'big', layout: '2.7', object: { dict: tensors } }]);
      const file = diskFile(join(folder, 'big.pt'));
      try {
        const stream = writeTorchZip(sources, { stem: 'big' });
        let offset = 0;
        for (;;) {
          const step = await stream.next();
          if (step.done) {
            expect(step.value.bytes).toBe(file.size);
            break;
          }
          if (step.value.length < zeros.length) {
            const expected = await file.read(offset, step.value.length);
            expect(Buffer.compare(step.value, expected), `the bytes at ${offset}`).toBe(0);
          }
          offset += step.value.length;
        }
        expect(offset).toBe(file.size);
        expect(fileSizeOf(shapes, { stem: 'big' })).toBe(file.size);
        const read = await readTorchZip(file);
        expect(read).toMatchObject({ ok: true });
        if (!read.ok) return;
        expect(torchLayoutOf(read.value)).toBe('2.7');
        expect(read.value.tensors.get('big')).toMatchObject({ bytes: big, shape: [big] });
        expect(read.value.tensors.get('after')?.fileOffset).toBeGreaterThan(big);
        for (const cut of [1, 22, 98, 200]) {
          const short = { size: file.size - cut, read: file.read };
          expect(await readTorchZip(short)).toMatchObject({ ok: false, damage: { reason: 'truncated' } });
        }
      } finally {
        file.close();
      }
    });
  });

  test('names the folder as torch does', async () => {
    const folder = async (options: TorchZipOptions): Promise<string> => {
      const { file } = await write([], options);
      return file.subarray(30, 30 + file.readUInt16LE(26)).toString('utf8');
    };
    expect(await folder({ stem: 'data_7.x' })).toBe('data_7.x/data.pkl');
    expect(await folder({ stem: 'daté', layout: '2.1' })).toBe('archive/data.pkl');
    expect(await folder({ stem: 'daté', layout: '1.13' })).toBe('daté/data.pkl');
    await expect(folder({ stem: 'a/b' })).rejects.toThrow('one file name');
  });

  test('a source of another length than its shape is a broken belief', async () => {
    const good = sample('a', 'F32', [4], seeded(1));
    const lies = (shape: readonly number[]): TensorSource => ({ ...source(good), shape });
    await expect(write([lies([5])], { stem: 'a' })).rejects.toThrow('yielded 16');
    await expect(write([lies([3])], { stem: 'a' })).rejects.toThrow('yielded more');
    await expect(write([lies([0])], { stem: 'a' })).rejects.toThrow('yielded more');
    await expect(write([source(good), source(good)], { stem: 'a' })).rejects.toThrow('names differ');
    await expect(write([{ ...source(good), dtype: 'U32' }], { stem: 'a' })).rejects.toThrow('storage class for U32');
  });

  test('passes tensor pieces on as they are, and closes a source when the reader stops', async () => {
    const pieces = [Buffer.alloc(8, 1), Buffer.alloc(0), Buffer.alloc(8, 2)];
    let closed = false;
    async function* open(): AsyncGenerator<Uint8Array> {
      try {
        yield* pieces;
      } finally {
        closed = true;
      }
    }
    const stream = writeTorchZip([{ name: 'a', dtype: 'F32', shape: [4], pieces: open }], { stem: 'a' });
    await stream.next();
    expect((await stream.next()).value).toBe(pieces[0]);
    await stream.return({ bytes: 0, crc32: 0, records: [] });
    expect(closed).toBe(true);
  });
});

/** A file on disk, read where it is asked for. */
function diskFile(path: string): RandomAccess & { close(): void } {
  const descriptor = openSync(path, 'r');
  return {
    size: fstatSync(descriptor).size,
    close: () => closeSync(descriptor),
    async read(offset, length) {
      const bytes = Buffer.alloc(length);
      if (readSync(descriptor, bytes, 0, length, offset) !== length) throw new RangeError('beyond the end');
      return bytes;
    },
  };
}
