import { Buffer } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readSafetensors } from '../../src/format/safetensors.ts';
import { writeSafetensors } from '../../src/format/safetensors-writer.ts';
import type { Parsed, TensorInfo, TensorSource } from '../../src/format/tensors.ts';
import { readTorchZip, type TorchZip, torchLayoutOf } from '../../src/format/torch-zip.ts';
import { checkRecords } from '../../src/format/torch-zip-records.ts';
import { writeTorchZip } from '../../src/format/torch-zip-writer.ts';
import { memoryFile } from '../support/scenes/emit.ts';

// Made by scripts/make-golden.py with the versions that golden.json names; Debian's torch is older than their layout.
const FOLDER = join(import.meta.dirname, 'golden');
const golden = JSON.parse(readFileSync(join(FOLDER, 'golden.json'), 'utf8')) as {
  files: { name: string; tensors: Record<string, Pick<TensorInfo, 'dtype' | 'shape' | 'stride'> & { data: string }> }[];
};

function bytesOf(name: string): Buffer {
  return readFileSync(join(FOLDER, name));
}

async function zipOf(bytes: Buffer): Promise<TorchZip> {
  const read = await readTorchZip(memoryFile(bytes));
  if (!read.ok) throw new Error(read.damage.detail);
  return read.value;
}

async function collect(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of stream) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces);
}

function sourcesOf(bytes: Buffer, tensors: Iterable<TensorInfo>): TensorSource[] {
  return [...tensors].map(({ name, dtype, shape, fileOffset, bytes: length }) => ({
    name,
    dtype,
    shape,
    pieces: () => [bytes.subarray(fileOffset, fileOffset + length)],
  }));
}

test.each(golden.files.map((file) => file.name))('%s holds what was saved', async (name) => {
  const bytes = bytesOf(name);
  const source = memoryFile(bytes);
  const read: Parsed<{ readonly tensors: ReadonlyMap<string, TensorInfo> }> = name.endsWith('.pt')
    ? await readTorchZip(source)
    : await readSafetensors(source);
  if (!read.ok) throw new Error(read.damage.detail);
  const expected = golden.files.find((file) => file.name === name)?.tensors ?? {};
  expect(new Set(read.value.tensors.keys())).toEqual(new Set(Object.keys(expected)));
  for (const [key, { dtype, shape, stride, data }] of Object.entries(expected)) {
    const tensor = read.value.tensors.get(key) as TensorInfo;
    expect(tensor, key).toMatchObject({ dtype, shape, stride });
    if (!tensor.contiguous) continue;
    expect(bytes.subarray(tensor.fileOffset, tensor.fileOffset + tensor.bytes).toString('base64'), key).toBe(data);
  }
});

test('every torch file has the layout of 2.7 and passes its own checksums', async () => {
  for (const { name } of golden.files.filter((file) => file.name.endsWith('.pt'))) {
    const bytes = bytesOf(name);
    const zip = await zipOf(bytes);
    expect(torchLayoutOf(zip)).toBe('2.7');
    expect(zip).toMatchObject({
      crcComputed: name !== 'crc-off.pt',
      prefix: name === 'daté.pt' ? 'archive' : name.slice(0, -3),
    });
    expect(await checkRecords(memoryFile(bytes), zip)).toMatchObject({ ok: true });
  }
});

test('our writer makes the same bytes from the same tensors', async () => {
  for (const stem of ['sample', 'twelve', 'daté']) {
    const bytes = bytesOf(`${stem}.pt`);
    const tensors = (await zipOf(bytes)).tensors.values();
    expect((await collect(writeTorchZip(sourcesOf(bytes, tensors), { stem }))).equals(bytes), stem).toBe(true);
  }
  const bytes = bytesOf('dtypes.safetensors');
  const read = await readSafetensors(memoryFile(bytes));
  if (!read.ok) throw new Error(read.damage.detail);
  const ours = await collect(writeSafetensors(sourcesOf(bytes, read.value.tensors.values()), read.value.metadata));
  expect(ours.equals(bytes)).toBe(true);
});
