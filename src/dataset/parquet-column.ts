import { brotliDecompressSync, crc32, gunzipSync } from 'node:zlib';
import type { ColumnMetaData, PageHeader, SchemaTree } from 'hyparquet';
import { assembleLists } from 'hyparquet/src/assemble.js';
import { parquetHeader } from 'hyparquet/src/column.js';
import { getMaxDefinitionLevel, getMaxRepetitionLevel } from 'hyparquet/src/schema.js';
import { compressors } from 'hyparquet-compressors';
import type { RandomAccess } from '../core/random-access.ts';
import { appendLists, type ListShape, listShape } from './parquet-lists.ts';
import { thriftBytes } from './parquet-thrift.ts';
import { readCoded, readLevels, readValues, type Values } from './parquet-values.ts';
import { zstdFrameAt } from './zstd-frames.ts';
import { unpackFrame } from './zstd-unpack.ts';

/** Writers aim at 1 MiB; one that never ends a page makes a file that cannot be read with bounded memory. */
const PAGE_BYTES_MOST = 256 * 1024 * 1024;
const PAGE_VALUES_MOST = 16 * 1024 * 1024;
/** A page without a stated size may fill all but one byte of its last block. */
const ZSTD_BLOCK_BYTES = 128 * 1024;
/** More than any context has: ids, or parts of a conversation, which cost far more each. */
const ROW_VALUES_MOST = { whole: 8 * 1024 * 1024, nested: 500_000 };
/** Rows are put together until they have so many values, and one more row in any case. */
const READY_VALUES = { whole: 2 * 1024 * 1024, nested: 100_000 };
const NO_LEVELS = new Uint8Array(0);
const READ_BYTES = 1024 * 1024;
const HEADER_BYTES_MOST = 16 * 1024 * 1024;

/** A page whose values are read and not yet put together. */
interface OpenPage {
  readonly count: number;
  readonly repetition: Uint8Array;
  readonly definition: Uint8Array;
  readonly values: Values;
  /** The next level, and the next value. */
  at: number;
  next: number;
}

/**
 * One leaf column of one row group, row by row and page by page: in memory are the page that is read and the rows that
 * have not been taken. Throws in words when the column is not what its headers say.
 */
export class ColumnReader {
  readonly #file: RandomAccess;
  readonly #column: ColumnMetaData;
  readonly #path: SchemaTree[];
  readonly #repetitionMost: number;
  readonly #definitionMost: number;
  readonly #shape: ListShape | null;
  #at: number;
  readonly #end: number;
  #buffer: { readonly start: number; readonly bytes: Uint8Array } = { start: 0, bytes: new Uint8Array(0) };
  #dictionary: Values | null = null;
  /** What has not been put together yet of the page that was read last. */
  #page: OpenPage | null = null;
  /** Rows, nested as the schema nests them; the last may go on. */
  #rows: unknown[] = [];
  /** How many values each of them has, about. */
  #weights: number[] = [];
  /** @param path the schema from its root to the leaf */
  constructor(file: RandomAccess, column: ColumnMetaData, path: SchemaTree[]) {
    this.#file = file;
    this.#column = column;
    this.#path = path;
    this.#repetitionMost = getMaxRepetitionLevel(path);
    this.#definitionMost = getMaxDefinitionLevel(path);
    this.#shape = listShape(path);
    const data = Number(column.data_page_offset);
    const dictionary = Number(column.dictionary_page_offset ?? 0);
    this.#at = dictionary > 0 ? Math.min(dictionary, data) : data;
    this.#end = this.#at + Number(column.total_compressed_size);
    if (!(this.#at >= 4 && this.#end >= this.#at && this.#end <= file.size - 8)) throw new Error(`${this.#name} lies outside the file`);
  }

  /** Whether rows come out whole: lists of plain values, which need no putting together with other leaves. */
  get whole(): boolean {
    return this.#shape !== null;
  }

  /** Makes the next rows ready to be taken: `count` of them, or fewer, and at least one, where they are long. */
  async ready(count: number): Promise<number> {
    const kind = this.#shape === null ? 'nested' : 'whole';
    let held = this.#weights.reduce((sum, weight) => sum + weight, 0);
    while (this.#rows.length <= count && (this.#page !== null || this.#at < this.#end)) {
      if (this.#rows.length > 1 && held >= READY_VALUES[kind]) return this.#rows.length - 1;
      if (this.#page === null) await this.#readPage();
      else held += this.#assemble(this.#page, count + 1 - this.#rows.length, READY_VALUES[kind] - held);
      if ((this.#weights.at(-1) ?? 0) > ROW_VALUES_MOST[kind])
        throw new Error(`a row of ${this.#name} has more than ${ROW_VALUES_MOST[kind]} values`);
    }
    if (this.#rows.length === 0) throw new Error(`${this.#name} ends ${count} rows early`);
    return Math.min(count, this.#rows.length);
  }

  /** The next `count` rows, which `ready` said are there. */
  take(count: number): unknown[] {
    this.#weights.splice(0, count);
    return this.#rows.splice(0, count);
  }

  get #name(): string {
    return `column ${this.#column.path_in_schema.join('.')}`;
  }

  async #readPage(): Promise<void> {
    const header = await this.#readHeader();
    const { compressed_page_size: packed, uncompressed_page_size: size } = header;
    if (!(packed >= 0 && size >= 0 && packed <= this.#end - this.#at)) throw new Error(`a page of ${this.#name} lies outside it`);
    if (packed > PAGE_BYTES_MOST || size > PAGE_BYTES_MOST)
      throw new Error(`a page of ${this.#name} has more than ${PAGE_BYTES_MOST} bytes`);
    const bytes = await this.#bytes(packed);
    this.#at += packed;
    if (header.crc !== undefined && header.crc >>> 0 !== crc32(bytes)) throw new Error(`the checksum of a page of ${this.#name} is wrong`);
    if (header.type === 'DATA_PAGE' && header.data_page_header !== undefined) {
      const { num_values: count, encoding, definition_level_encoding: levels } = header.data_page_header;
      this.#checkCount(count);
      if (this.#definitionMost > 0 && levels !== 'RLE') throw new Error(`${this.#name} is written as ${levels}, which is not supported`);
      const page = await this.#unpacked(bytes, size);
      const repetition = prefixedLevels(page, 0, this.#repetitionMost, count);
      const definition = prefixedLevels(page, repetition.end, this.#definitionMost, count);
      this.#open(page.subarray(definition.end), { count, encoding, repetition: repetition.levels, definition: definition.levels });
    } else if (header.type === 'DATA_PAGE_V2' && header.data_page_header_v2 !== undefined) {
      const v2 = header.data_page_header_v2;
      const { num_values: count, encoding } = v2;
      this.#checkCount(count);
      const first = v2.repetition_levels_byte_length;
      const end = first + v2.definition_levels_byte_length;
      if (!(first >= 0 && end >= first && end <= bytes.length && end <= size))
        throw new Error(`a page of ${this.#name} has impossible levels`);
      const repetition = this.#repetitionMost === 0 ? NO_LEVELS : readLevels(bytes, 0, first, this.#repetitionMost, count);
      const definition = this.#definitionMost === 0 ? NO_LEVELS : readLevels(bytes, first, end, this.#definitionMost, count);
      const rest = bytes.subarray(end);
      const values = v2.is_compressed === false || size === end ? rest : await this.#unpacked(rest, size - end);
      this.#open(values, { count, encoding, repetition, definition });
    } else if (header.type === 'DICTIONARY_PAGE' && header.dictionary_page_header !== undefined) {
      const count = header.dictionary_page_header.num_values;
      this.#checkCount(count);
      this.#dictionary = readValues(await this.#unpacked(bytes, size), count, 'PLAIN', this.#leaf);
    } else if (header.type !== 'INDEX_PAGE') throw new Error(`a page of ${this.#name} is of an unknown kind`);
  }

  get #leaf(): SchemaTree['element'] {
    const leaf = this.#path.at(-1);
    if (leaf === undefined) throw new Error('a column has no name');
    return leaf.element;
  }

  #checkCount(count: number): void {
    if (!(count >= 0 && count <= PAGE_VALUES_MOST)) throw new Error(`a page of ${this.#name} states ${count} values`);
  }

  #open(
    bytes: Uint8Array,
    page: { readonly count: number; readonly encoding: string; readonly repetition: Uint8Array; readonly definition: Uint8Array },
  ): void {
    const { count, encoding, repetition, definition } = page;
    if (count === 0) return;
    let present = count;
    if (definition.length > 0) present = counted(definition, this.#definitionMost);
    const coded = encoding === 'RLE_DICTIONARY' || encoding === 'PLAIN_DICTIONARY';
    if (coded && this.#dictionary === null) throw new Error(`${this.#name} has codes without a dictionary`);
    const values =
      coded && this.#dictionary !== null ? readCoded(bytes, present, this.#dictionary) : readValues(bytes, present, encoding, this.#leaf);
    if ((repetition[0] ?? 0) > 0 && this.#rows.length === 0) throw new Error(`${this.#name} begins in the middle of a row`);
    this.#page = { count, repetition, definition, values, at: 0, next: 0 };
  }

  /**
   * Puts together the page's next rows: a page can hold millions in a few bytes. At most `most` that begin in it, and no more once they
   * have `enough` values; a row is never looked at beyond what it may have. Gives the number of values.
   */
  #assemble(page: OpenPage, most: number, enough: number): number {
    const { count, at, next } = page;
    const longest = this.#shape === null ? ROW_VALUES_MOST.nested : ROW_VALUES_MOST.whole;
    let end = at;
    for (let begun = 0; end < count; end += 1) {
      if ((page.repetition[end] ?? 0) !== 0) {
        const weight = (this.#weights.at(-1) ?? 0) + 1;
        this.#weights[this.#weights.length - 1] = weight;
        if (weight > longest) return end - at;
        continue;
      }
      if (begun === most || (begun > 0 && end - at >= enough)) break;
      begun += 1;
      this.#weights.push(1);
    }
    const definition = page.definition.subarray(at, end);
    const present = definition.length > 0 ? counted(definition, this.#definitionMost) : end - at;
    page.at = end;
    page.next = next + present;
    if (end === count) this.#page = null;
    const { repetition, values } = page;
    if (this.#shape !== null) {
      appendLists(this.#rows, this.#shape, { repetition: repetition.subarray(at, end), definition, values, from: next });
      return end - at;
    }
    const levels = present === end - at ? [] : Array.from(definition);
    const rows = assembleLists(
      this.#rows,
      levels,
      Array.from(repetition.subarray(at, end)),
      values.slice(next, next + present),
      this.#path,
    );
    // A required column that is no list comes back as it is.
    if (rows !== this.#rows) for (const row of Array.from(rows as ArrayLike<unknown>)) this.#rows.push(row);
    return end - at;
  }

  async #readHeader(): Promise<PageHeader> {
    for (let most = 64 * 1024; ; most *= 16) {
      const bytes = await this.#bytes(Math.min(most, this.#end - this.#at), true);
      const length = thriftBytes(bytes);
      if (length !== null) {
        const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, length), offset: 0 };
        const header = parquetHeader(reader);
        this.#at += length;
        return header;
      }
      if (bytes.length === this.#end - this.#at || most > HEADER_BYTES_MOST) throw new Error(`a page header of ${this.#name} is not whole`);
    }
  }

  /** Bytes from where the column stands, without going on. @param ahead read more at once, for what comes next */
  async #bytes(length: number, ahead = false): Promise<Uint8Array> {
    const { start, bytes } = this.#buffer;
    const from = this.#at - start;
    if (from >= 0 && from + length <= bytes.length) return bytes.subarray(from, from + length);
    if (!ahead) return this.#file.read(this.#at, length);
    const read = await this.#file.read(this.#at, Math.min(Math.max(length, READ_BYTES), this.#end - this.#at));
    this.#buffer = { start: this.#at, bytes: read };
    return read.subarray(0, length);
  }

  async #unpacked(bytes: Uint8Array, size: number): Promise<Uint8Array> {
    const page = await unpack(bytes, size, this.#column.codec);
    if (page.length !== size) throw new Error(`a page of ${this.#name} has ${page.length} bytes, and its header says ${size}`);
    return page;
  }
}

function counted(levels: Uint8Array, level: number): number {
  let count = 0;
  for (const one of levels) if (one === level) count += 1;
  return count;
}

function prefixedLevels(page: Uint8Array, at: number, most: number, count: number): { readonly levels: Uint8Array; readonly end: number } {
  if (most === 0) return { levels: NO_LEVELS, end: at };
  const length = new DataView(page.buffer, page.byteOffset, page.byteLength).getUint32(at, true);
  const end = at + 4 + length;
  if (end > page.length) throw new Error('the levels of a page lie beyond it');
  return { levels: readLevels(page, at + 4, end, most, count), end };
}

/** zlib where Node has it, because it stops at the stated size; the others were looked at for that. */
async function unpack(bytes: Uint8Array, size: number, codec: ColumnMetaData['codec']): Promise<Uint8Array> {
  switch (codec) {
    case 'UNCOMPRESSED':
      return bytes;
    case 'GZIP':
      return gunzipSync(bytes, { maxOutputLength: Math.max(size, 1) });
    case 'BROTLI':
      return brotliDecompressSync(bytes, { maxOutputLength: Math.max(size, 1) });
    case 'ZSTD': {
      const frame = await zstdFrameAt({ size: bytes.length, read: async (at, length) => bytes.slice(at, at + length) }, 0);
      if (frame.end !== bytes.length || frame.textBytesMost > PAGE_BYTES_MOST + ZSTD_BLOCK_BYTES)
        throw new Error('a zstd page is not what its header says');
      return unpackFrame(bytes, frame);
    }
    default:
      break;
  }
  const unpacker = compressors[codec];
  if (unpacker === undefined) throw new Error(`it is compressed with ${codec}, which is not supported`);
  return unpacker(bytes, size);
}
