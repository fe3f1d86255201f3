import { isUtf8 } from 'node:buffer';
import type { SchemaElement } from 'hyparquet';
import { deltaBinaryUnpack } from 'hyparquet/src/delta.js';
import { levelWidth, readRuns } from './parquet-levels.ts';

/** Text that one page may unfold into: prefixes that are repeated can be much longer than the page. */
const TEXT_BYTES_MOST = 256 * 1024 * 1024;

/** Numbers as JavaScript has them, 0 and 1 for truth, text, or null for bytes that are no text. */
export type Values = Uint8Array | Int32Array | Uint32Array | Float64Array | (number | string | null)[];

/** `count` values from the page's bytes behind its levels. Throws in words, or a RangeError where the page ends first. */
export function readValues(bytes: Uint8Array, count: number, encoding: string | undefined, leaf: SchemaElement): Values {
  switch (encoding) {
    case 'PLAIN':
      return plain(bytes, count, leaf);
    case 'RLE': {
      if (leaf.type !== 'BOOLEAN') break;
      const output = new Uint8Array(count);
      const length = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(0, true);
      readRuns(bytes, 4, Math.min(4 + length, bytes.length), 1, output);
      return output;
    }
    case 'DELTA_BINARY_PACKED':
      if (leaf.type === 'INT32') return signed32(deltas(readerOf(bytes), count, new Int32Array(count)), leaf);
      if (leaf.type === 'INT64') return Float64Array.from(deltas(readerOf(bytes), count, new BigInt64Array(count)), Number);
      break;
    case 'DELTA_LENGTH_BYTE_ARRAY': {
      const reader = readerOf(bytes);
      const lengths = deltas(reader, count, new Int32Array(count));
      return texts(bytes, reader.offset, count, (index) => ({ prefix: 0, length: lengths[index] ?? 0 }));
    }
    case 'DELTA_BYTE_ARRAY': {
      const reader = readerOf(bytes);
      const prefixes = deltas(reader, count, new Int32Array(count));
      const lengths = deltas(reader, count, new Int32Array(count));
      return texts(bytes, reader.offset, count, (index) => ({ prefix: prefixes[index] ?? 0, length: lengths[index] ?? 0 }));
    }
  }
  throw new Error(`a column of ${leaf.type ?? 'no type'} is written as ${encoding ?? 'something unknown'}, which is not supported`);
}

/** Codes into a dictionary, looked up. */
export function readCoded(bytes: Uint8Array, count: number, dictionary: Values): Values {
  const codes = new Uint32Array(count);
  const width = bytes[0] ?? 0;
  if (count > 0) readRuns(bytes, 1, bytes.length, width, codes);
  const { length } = dictionary;
  if (!Array.isArray(dictionary)) {
    // In place where they fit: a page may have 16 million.
    const numbers =
      dictionary instanceof Float64Array
        ? new Float64Array(count)
        : dictionary instanceof Int32Array
          ? new Int32Array(codes.buffer)
          : codes;
    for (let index = 0; index < count; index += 1) {
      const code = codes[index] ?? 0;
      if (code >= length) throw new Error(`a page names entry ${code} of a dictionary of ${length}`);
      numbers[index] = dictionary[code] ?? 0;
    }
    return numbers;
  }
  // Made at its size: a page may have 16 million, and an array that grows to that takes twice the room.
  const values = new Array<number | string | null>(count);
  for (const [index, code] of codes.entries()) {
    if (code >= length) throw new Error(`a page names entry ${code} of a dictionary of ${length}`);
    values[index] = dictionary[code] ?? null;
  }
  return values;
}

/** Levels of one kind. */
export function readLevels(bytes: Uint8Array, from: number, to: number, most: number, count: number): Uint8Array {
  const levels = new Uint8Array(count);
  readRuns(bytes, from, to, levelWidth(most), levels);
  return levels;
}

function plain(bytes: Uint8Array, count: number, leaf: SchemaElement): Values {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const width = { BOOLEAN: 1 / 8, INT32: 4, INT64: 8, FLOAT: 4, DOUBLE: 8, BYTE_ARRAY: 4, INT96: 12, FIXED_LEN_BYTE_ARRAY: 1 };
  if (count * width[leaf.type ?? 'INT96'] > bytes.length) throw new Error(`a page of ${bytes.length} bytes states ${count} values`);
  switch (leaf.type) {
    case 'BOOLEAN':
      return Uint8Array.from({ length: count }, (_, index) => ((bytes[index >>> 3] ?? 0) >>> (index & 7)) & 1);
    case 'INT32': {
      const values = new Int32Array(count);
      for (let index = 0; index < count; index += 1) values[index] = view.getInt32(index * 4, true);
      return signed32(values, leaf);
    }
    case 'INT64': {
      const values = new Float64Array(count);
      for (let index = 0; index < count; index += 1)
        values[index] = view.getInt32(index * 8 + 4, true) * 2 ** 32 + view.getUint32(index * 8, true);
      return values;
    }
    case 'FLOAT':
      return Float64Array.from({ length: count }, (_, index) => view.getFloat32(index * 4, true));
    case 'DOUBLE':
      return Float64Array.from({ length: count }, (_, index) => view.getFloat64(index * 8, true));
    case 'BYTE_ARRAY': {
      const values: (string | null)[] = [];
      for (let index = 0, at = 0; index < count; index += 1) {
        const length = view.getUint32(at, true);
        values.push(text(bytes, at + 4, length));
        at += 4 + length;
      }
      return values;
    }
    default:
      throw new Error(`a column of ${leaf.type ?? 'no type'} is not supported`);
  }
}

function signed32(values: Int32Array, leaf: SchemaElement): Values {
  const integer = leaf.logical_type?.type === 'INTEGER' ? leaf.logical_type : null;
  const unsigned = leaf.converted_type === 'UINT_32' || (integer !== null && !integer.isSigned && integer.bitWidth === 32);
  return unsigned ? Uint32Array.from(values) : values;
}

interface Reader {
  readonly view: DataView;
  offset: number;
}

function readerOf(bytes: Uint8Array): Reader {
  return { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 };
}

/** hyparquet's reader goes backwards, and never ends, when the header lies about its blocks; so that is looked at first. */
function deltas<T extends Int32Array | BigInt64Array>(reader: Reader, count: number, output: T): T {
  const start = reader.offset;
  const block = varint(reader);
  const parts = varint(reader);
  reader.offset = start;
  if (block < 1 || block > 65_536 || block % 8 !== 0 || parts < 1 || block % parts !== 0 || (block / parts) % 8 !== 0)
    throw new Error(`a page is packed in blocks of ${block} numbers in ${parts} parts`);
  if (count === 0) return output;
  deltaBinaryUnpack(reader, count, output);
  return output;
}

function varint(reader: Reader): number {
  let value = 0;
  for (let shift = 0; shift < 35; shift += 7) {
    const byte = reader.view.getUint8(reader.offset);
    reader.offset += 1;
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return value;
  }
  throw new Error('a number in a page is longer than 32 bits');
}

/** Texts one behind another, each perhaps with the beginning of the one before it. */
function texts(
  bytes: Uint8Array,
  from: number,
  count: number,
  partOf: (index: number) => { readonly prefix: number; readonly length: number },
): Values {
  const values: (string | null)[] = [];
  let before = new Uint8Array(0);
  let unfolded = 0;
  for (let index = 0, at = from; index < count; index += 1) {
    const { prefix, length } = partOf(index);
    unfolded += prefix + length;
    if (length < 0 || prefix < 0 || prefix > before.length || at + length > bytes.length) throw new Error('a text lies beyond its page');
    if (unfolded > TEXT_BYTES_MOST) throw new Error(`one page unfolds into more than ${TEXT_BYTES_MOST} bytes of text`);
    const whole = new Uint8Array(prefix + length);
    whole.set(before.subarray(0, prefix));
    whole.set(bytes.subarray(at, at + length), prefix);
    values.push(text(whole, 0, whole.length));
    before = whole;
    at += length;
  }
  return values;
}

function text(bytes: Uint8Array, at: number, length: number): string | null {
  if (at + length > bytes.length) throw new Error('a text lies beyond its page');
  const found = bytes.subarray(at, at + length);
  return isUtf8(found) ? Buffer.from(found.buffer, found.byteOffset, found.length).toString('utf8') : null;
}
