import { Buffer } from 'node:buffer';
import { assert } from '../core/assert.ts';
import { crc32 } from './crc32.ts';
import type { TensorShape } from './pickle-writer.ts';
import { DTYPE_BYTES, type Dtype, elementCount, type TensorSource, type WrittenFile } from './tensors.ts';

/** The library's own order of dtypes (safetensors `Dtype`), narrow to wide; tensors are laid out from its end. */
const DTYPE_RANKS: readonly Dtype[] = [
  'BOOL',
  'U8',
  'I8',
  'F8_E5M2',
  'F8_E4M3',
  'I16',
  'U16',
  'F16',
  'BF16',
  'I32',
  'U32',
  'F32',
  'C64',
  'F64',
  'I64',
  'U64',
];

function inFileOrder<T extends TensorShape>(tensors: readonly T[]): T[] {
  assert(new Set(tensors.map((tensor) => tensor.name)).size === tensors.length, 'tensor names differ');
  for (const { dtype, name } of tensors) {
    assert(DTYPE_RANKS.includes(dtype), `safetensors has the dtype ${dtype}`);
    assert(name !== '__metadata__', 'a tensor has another name than the metadata');
  }
  // Names by their UTF-8 bytes, as Rust compares text.
  const byName = (a: T, b: T): number => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name));
  return [...tensors].sort((a, b) => DTYPE_RANKS.indexOf(b.dtype) - DTYPE_RANKS.indexOf(a.dtype) || byName(a, b));
}

function tensorBytes(tensor: TensorShape): number {
  return elementCount(tensor.shape) * DTYPE_BYTES[tensor.dtype];
}

/** Length word and header for tensors in file order. */
function headerOf(tensors: readonly TensorShape[], metadata: ReadonlyMap<string, string> | undefined): Buffer {
  const members: string[] = [];
  if (metadata !== undefined && metadata.size > 0) {
    const lines = [...metadata].map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
    members.push(`"__metadata__":{${lines.join(',')}}`);
  }
  let at = 0;
  for (const tensor of tensors) {
    const info = { dtype: tensor.dtype, shape: tensor.shape, data_offsets: [at, at + tensorBytes(tensor)] };
    members.push(`${JSON.stringify(tensor.name)}:${JSON.stringify(info)}`);
    at += tensorBytes(tensor);
  }
  assert(Number.isSafeInteger(at), 'a file of less than 2^53 bytes');
  const json = Buffer.from(`{${members.join(',')}}`, 'utf8');
  const padded = Math.ceil(json.length / 8) * 8;
  const header = Buffer.alloc(8 + padded, ' ');
  header.writeBigUInt64LE(BigInt(padded), 0);
  header.set(json, 8);
  return header;
}

/** Bytes of the file that `writeSafetensors` makes of tensors of these shapes. */
export function safetensorsSizeOf(tensors: readonly TensorShape[], metadata?: ReadonlyMap<string, string>): number {
  const ordered = inFileOrder(tensors);
  return headerOf(ordered, metadata).length + ordered.reduce((sum, tensor) => sum + tensorBytes(tensor), 0);
}

/**
 * Streams a safetensors file as the library lays it out: wider dtypes first, then by name. Tensor bytes pass
 * through as they come. The format has no checksum of its own; the returned CRC is the only one.
 *
 * @param metadata text by text, written in this order; left out when empty
 */
export async function* writeSafetensors(
  tensors: readonly TensorSource[],
  metadata?: ReadonlyMap<string, string>,
): AsyncGenerator<Uint8Array, WrittenFile, undefined> {
  const ordered = inFileOrder(tensors);
  const header = headerOf(ordered, metadata);
  let bytes = header.length;
  let sum = crc32(header);
  yield header;
  for (const tensor of ordered) {
    const expected = tensorBytes(tensor);
    let seen = 0;
    for await (const piece of tensor.pieces()) {
      seen += piece.length;
      assert(seen <= expected, `tensor ${tensor.name} has ${expected} bytes and its source yielded more`);
      if (piece.length === 0) continue;
      sum = crc32(piece, sum);
      yield piece;
    }
    assert(seen === expected, `tensor ${tensor.name} has ${expected} bytes and its source yielded ${seen}`);
    bytes += expected;
  }
  return { bytes, crc32: sum, records: [] };
}
