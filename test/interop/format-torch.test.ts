import { Buffer } from 'node:buffer';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DTYPE_BYTES, type Dtype, elementCount, type TensorInfo, type TensorSource } from '../../src/format/tensors.ts';
import { readTorchZip, type TorchZip, torchLayoutOf } from '../../src/format/torch-zip.ts';
import { checkRecords } from '../../src/format/torch-zip-records.ts';
import { type TorchLayout, writeTorchZip } from '../../src/format/torch-zip-writer.ts';
import { memoryFile, seeded } from '../support/scenes/emit.ts';

// Debian's own Python: the one that its package python3-torch is for. Another python3 may stand before it on PATH.
const PYTHON = '/usr/bin/python3';
const SCRIPT = fileURLToPath(new URL('format_torch.py', import.meta.url));

interface Told {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly stride: readonly number[];
  readonly contiguous: boolean;
  readonly data: string;
}

function torch(...args: readonly string[]): string {
  const done = spawnSync(PYTHON, ['-B', SCRIPT, ...args], { encoding: 'utf8', maxBuffer: 1 << 28 });
  if (done.error !== undefined || /No module named 'torch'/.test(done.stderr)) {
    throw new Error(`these tests need torch for ${PYTHON}: apt-get install python3-torch`);
  }
  if (done.status !== 0) throw new Error(`format_torch.py ${args[0]} failed:\n${done.stderr}`);
  return done.stdout;
}

let folder: string;
let told: { torch: string; cases: { name: string; tensors: Record<string, Told> }[] };

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tidemark-torch-'));
  torch('save', folder);
  told = JSON.parse(readFileSync(join(folder, 'cases.json'), 'utf8'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function open(name: string): Promise<{ bytes: Buffer; zip: TorchZip }> {
  const bytes = readFileSync(join(folder, name));
  const read = await readTorchZip(memoryFile(bytes));
  if (!read.ok) throw new Error(`${name}: ${read.damage.detail}`);
  expect(await checkRecords(memoryFile(bytes), read.value)).toMatchObject({ ok: true });
  return { bytes, zip: read.value };
}

/** The elements of a tensor in row-major order, gathered by its strides. */
function elementsOf(bytes: Buffer, tensor: TensorInfo): Buffer {
  const width = DTYPE_BYTES[tensor.dtype];
  const out = Buffer.alloc(tensor.bytes);
  for (let k = 0; k < elementCount(tensor.shape); k += 1) {
    let rest = k;
    let at = 0;
    for (let axis = tensor.shape.length - 1; axis >= 0; axis -= 1) {
      const length = tensor.shape[axis] ?? 1;
      at += (rest % length) * (tensor.stride[axis] ?? 0);
      rest = Math.floor(rest / length);
    }
    bytes.copy(out, k * width, tensor.fileOffset + at * width, tensor.fileOffset + (at + 1) * width);
  }
  return out;
}

describe('what torch.save writes', () => {
  test('is read: samples, every dtype, views, empty tensors, scalars, nested and ordered dicts, parameters', async () => {
    expect(told.cases.length).toBe(10);
    for (const { name, tensors } of told.cases) {
      const { bytes, zip } = await open(`${name}.pt`);
      expect(zip.prefix).toBe(name);
      expect([...zip.tensors.keys()], name).toEqual(Object.keys(tensors));
      for (const [key, expected] of Object.entries(tensors)) {
        const tensor = zip.tensors.get(key) as TensorInfo;
        const { dtype, shape, stride, contiguous, data } = expected;
        expect(tensor, `${name} ${key}`).toMatchObject({ dtype, shape, stride, contiguous });
        expect(elementsOf(bytes, tensor).toString('base64'), `${name} ${key}`).toBe(data);
      }
    }
    const nested = (await open('nested.pt')).zip;
    expect(Object.fromEntries(nested.values)).toEqual({ 'outer/inner/1/1': 3, id: 'c-1' });
  });

  test('has the folder "archive" when it was written to a file object', async () => {
    const { zip } = await open('object.pt');
    expect(zip.prefix).toBe('archive');
    expect(torchLayoutOf(zip)).toBe('1.13');
  });

  test('is refused where it is of the old format or holds a module', async () => {
    const refusal = async (name: string) => readTorchZip(memoryFile(readFileSync(join(folder, name))));
    expect(await refusal('legacy.pt')).toMatchObject({ ok: false, damage: { kind: 'refused', reason: 'legacy' } });
    const module = await refusal('module.pt');
    expect(module).toMatchObject({ ok: false, damage: { kind: 'refused', reason: 'hostile' } });
    expect(module.ok ? '' : module.damage.detail).toContain('torch.nn.modules.linear.Linear');
  });

  test('is what our writer writes for the same tensors', async () => {
    for (const name of ['sample', 'dtypes', 'wide']) {
      const { bytes, zip } = await open(`${name}.pt`);
      const sources = [...zip.tensors.values()].map((tensor): TensorSource => {
        const { name: key, dtype, shape } = tensor;
        return { name: key, dtype, shape, pieces: () => [bytes.subarray(tensor.fileOffset, tensor.fileOffset + tensor.bytes)] };
      });
      const ours = await write(sources, name, '1.13');
      expect(ours.equals(bytes), name).toBe(true);
    }
  });
});

async function write(tensors: readonly TensorSource[], stem: string, layout: TorchLayout): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of writeTorchZip(tensors, { stem, layout })) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces);
}

test.each(['1.13', '2.1', '2.7'] as const)('torch.load, also with weights_only, reads our files of layout %s', async (layout) => {
  const random = seeded(8);
  const shapes: readonly (readonly [Dtype, readonly number[]])[] = [
    ['I64', [37]],
    ['BOOL', [37]],
    ['BF16', [1, 37, 12]],
    ['F16', [37, 4]],
    ['F32', [5, 1, 3]],
    ['U8', []],
    ['F32', [0, 4]],
  ];
  const written = shapes.map(([dtype, shape], k) => {
    const data = Buffer.alloc(elementCount(shape) * DTYPE_BYTES[dtype]);
    // Bytes of both kinds of bool, and of finite floats.
    for (let at = 0; at < data.length; at += 1) data[at] = random(dtype === 'BOOL' ? 2 : 0x3c);
    return { name: `tensor ${k}`, dtype, shape, data, pieces: () => [data.subarray(0, 3), data.subarray(3)] };
  });
  const path = join(folder, `ours-${layout}.pt`);
  writeFileSync(path, await write(written, `ours-${layout}`, layout));
  const [loaded] = JSON.parse(torch('load', path)) as (Told & { name: string })[][];
  expect(loaded?.map(({ name, dtype, shape, data }) => ({ name, dtype, shape, data }))).toEqual(
    written.map(({ name, dtype, shape, data }) => ({ name, dtype, shape, data: data.toString('base64') })),
  );
});
