import { Buffer } from 'node:buffer';
import type { RandomAccess } from '../core/random-access.ts';
import { parsed, torn } from './damage.ts';
import { readSafetensorsHeader } from './safetensors-header.ts';
import { rowMajorStrides } from './strides.ts';
import type { Parsed, TensorInfo } from './tensors.ts';

export interface SafetensorsFile {
  /** In the order of their data. All are row-major. */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  readonly metadata: ReadonlyMap<string, string>;
  /** Where the first tensor's bytes begin in the file. */
  readonly dataOffset: number;
  /** The whole file. */
  readonly bytes: number;
}

/** The format's own limit (safetensors `MAX_HEADER_SIZE`). */
const HEADER_BYTES_MAX = 100_000_000;
const LENGTH_BYTES = 8;
/** Headers of samples are a few hundred bytes: one read takes most of them whole. */
const FIRST_READ_BYTES = 16 * 1024;

/**
 * Opens a safetensors file and proves its structure: the header lies in the file and is JSON of the one form, every
 * tensor has the bytes that its shape needs, and the data ends where the file does. Tensor data is not read. The
 * format has no checksum, so bytes that changed or were lost inside the data are not seen here.
 *
 * Memory is bounded by the file's own size and by 100,000,000 bytes of header.
 *
 * @returns damage `torn` (empty, truncated, zero-filled, trailing-bytes, structure) or `refused` (hostile, version)
 * @throws only what `source.read` rejects with
 */
export function readSafetensors(source: RandomAccess): Promise<Parsed<SafetensorsFile>> {
  return parsed(() => open(source));
}

async function open(source: RandomAccess): Promise<SafetensorsFile> {
  if (source.size === 0) torn('empty', 'the file is there and empty');
  const first = await source.read(0, Math.min(source.size, FIRST_READ_BYTES));
  const start = Buffer.from(first.buffer, first.byteOffset, first.byteLength);
  if (start.every((byte) => byte === 0)) torn('zero-filled', `the first ${start.length} of ${source.size} bytes are zero`);
  if (start.length < LENGTH_BYTES) torn('truncated', `${source.size} bytes, less than the header's length word`);
  const headerBytes = start.readUInt32LE(0) + start.readUInt32LE(4) * 0x100000000;
  const dataOffset = LENGTH_BYTES + headerBytes;
  if (headerBytes > HEADER_BYTES_MAX) torn('structure', `a header of ${headerBytes} bytes, more than the format allows`);
  if (dataOffset > source.size) torn('truncated', `the header needs ${dataOffset} bytes and the file has ${source.size}`);
  const header = dataOffset <= start.length ? start.subarray(LENGTH_BYTES, dataOffset) : await source.read(LENGTH_BYTES, headerBytes);
  if (header.length === 0) torn('structure', 'a header of no bytes');
  const { tensors, metadata } = readSafetensorsHeader(header);
  const end = dataOffset + (tensors.at(-1)?.to ?? 0);
  if (end > source.size) torn('truncated', `the data needs ${end} bytes and the file has ${source.size}`);
  if (end < source.size) torn('trailing-bytes', `${source.size - end} bytes after the data; the file's own length is ${end}`);
  const infos = tensors.map(({ name, dtype, shape, from, to }): [string, TensorInfo] => {
    const place = { fileOffset: dataOffset + from, bytes: to - from, record: null };
    return [name, { name, dtype, shape, stride: rowMajorStrides(shape), contiguous: true, ...place }];
  });
  return { tensors: new Map(infos), metadata, dataOffset, bytes: source.size };
}
