import { closeSync, openSync, writeSync } from 'node:fs';
import { combineCrc32, crc32 } from '../src/format/crc32.ts';
import { pickleOfTensors } from '../src/format/pickle-writer.ts';
import { serializationId } from '../src/format/serialization-id.ts';
import { DTYPE_BYTES, type Dtype, elementCount } from '../src/format/tensors.ts';
import * as zip from '../src/format/zip-headers.ts';

const ALIGNMENT = 64;
/** Less than this is no hole worth a second write. */
const HOLE_BYTES_LEAST = 64 * 1024;

/** A tensor whose bytes are at hand, or whose every byte is zero: those are left as a hole. */
export interface BenchTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array | 'zeros';
}

export interface WrittenSample {
  readonly bytes: number;
  readonly crc32: number;
  readonly records: readonly number[];
}

const pickles = new Map<string, Uint8Array>();
const zeroSums = new Map<number, number>();

/** The sum of `length` zero bytes, without making them. */
function sumOfZeros(length: number): number {
  let sum = zeroSums.get(length);
  if (sum === undefined) {
    sum = 0;
    let part = crc32(new Uint8Array(1));
    for (let rest = length, bytes = 1; rest > 0; rest = Math.floor(rest / 2), bytes *= 2) {
      if (rest % 2 === 1) sum = combineCrc32(sum, part, bytes);
      part = combineCrc32(part, part, bytes);
    }
    zeroSums.set(length, sum);
  }
  return sum;
}

/**
 * Writes the file that `torch.save` would write, as src/format/torch-zip-writer.ts does, at once and with holes for zeros: a tree of
 * terabytes takes the room of its ends, and every sum in it is right.
 */
export function writeTorchFile(path: string, stem: string, tensors: readonly BenchTensor[]): WrittenSample {
  const shape = tensors.map((tensor) => `${tensor.name} ${tensor.dtype} ${tensor.shape.join()}`).join(';');
  const pickle = pickles.get(shape) ?? pickleOfTensors(tensors);
  pickles.set(shape, pickle);
  const text = (name: string, content: string) => ({ name, body: Buffer.from(content, 'latin1'), length: content.length });
  const records = [
    { name: 'data.pkl', body: pickle, length: pickle.length },
    text('.format_version', '1'),
    text('.storage_alignment', `${ALIGNMENT}`),
    text('byteorder', 'little'),
    ...tensors.map((tensor, index) => {
      const length = elementCount(tensor.shape) * DTYPE_BYTES[tensor.dtype];
      const body = tensor.bytes !== 'zeros' ? tensor.bytes : length < HOLE_BYTES_LEAST ? new Uint8Array(length) : null;
      return { name: `data/${index}`, body, length };
    }),
    text('version', '3\n'),
  ];
  const file = openSync(path, 'w');
  let at = 0;
  let whole = 0;
  let pending: Uint8Array[] = [];
  let pendingBytes = 0;
  const flush = (): void => {
    const piece = Buffer.concat(pending);
    if (piece.length > 0) writeSync(file, piece, 0, piece.length, at);
    whole = combineCrc32(whole, crc32(piece), piece.length);
    at += piece.length;
    pending = [];
    pendingBytes = 0;
  };
  const add = (bytes: Uint8Array): void => {
    pending.push(bytes);
    pendingBytes += bytes.length;
  };
  const directory: Uint8Array[] = [];
  const written: { name: string; bytes: number; crc32: number }[] = [];
  const put = (name: string, body: Uint8Array | null, length: number): void => {
    const entry = { fullName: Buffer.from(`${stem}/${name}`), bytes: length, headerOffset: at + pendingBytes };
    const sum = body === null ? sumOfZeros(length) : crc32(body);
    add(zip.localHeader(entry, ALIGNMENT));
    if (body === null) {
      flush();
      whole = combineCrc32(whole, sum, length);
      at += length;
    } else add(body);
    add(zip.dataDescriptor({ ...entry, crc32: sum }));
    directory.push(zip.centralHeader({ ...entry, crc32: sum }));
    written.push({ name, bytes: length, crc32: sum });
  };
  for (const { name, body, length } of records) put(name, body, length);
  const id = Buffer.from(serializationId(written), 'latin1');
  put('.data/serialization_id', id, id.length);
  const begin = at + pendingBytes;
  const central = Buffer.concat(directory);
  add(central);
  add(zip.endRecords(directory.length, begin, central.length));
  flush();
  closeSync(file);
  return { bytes: at, crc32: whole, records: written.map((record) => record.crc32) };
}
