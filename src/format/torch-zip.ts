import type { Buffer } from 'node:buffer';
import type { RandomAccess } from '../core/random-access.ts';
import { crc32 } from './crc32.ts';
import { corrupt, DamageFound, parsed, quote, refused, torn } from './damage.ts';
import { PICKLE_BYTES_MAX } from './pickle.ts';
import { readRememberedPickle } from './pickle-memory.ts';
import type { Parsed, TensorInfo } from './tensors.ts';
import { type PlainValue, type SavedObject, tensorsOf } from './torch-tensors.ts';
import { DIRECTORY_BYTES_MAX, type DirectoryEntry, descriptorBytes, RECORDS_MAX, readDirectory } from './zip-directory.ts';
import { bufferOf, type Window, whyNoEnd, type ZipEnd, zipEndAt } from './zip-end.ts';
import { END_BYTES } from './zip-headers.ts';
import { checkDescriptor, checkLocalHeader, headBytes } from './zip-local.ts';

interface ZipRecord {
  /** Without the archive's prefix: `data.pkl`, `data/2`. */
  readonly name: string;
  /** Where its data begins in the file. */
  readonly offset: number;
  readonly bytes: number;
  /** As the directory states it; only `checkRecords` compares it with the data. */
  readonly crc32: number;
}

export interface TorchZip extends SavedObject {
  /** The folder that all records are in: the file's stem when torch.save wrote to a path. */
  readonly prefix: string;
  /** In file order. */
  readonly records: readonly ZipRecord[];
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  readonly values: ReadonlyMap<string, PlainValue>;
  /** false when every CRC is 0 (torch's `save.compute_crc32 = False`): then no checksum can vouch for the data. */
  readonly crcComputed: boolean;
  /** The whole file. */
  readonly bytes: number;
}

/** One read of this much at the end, and as much again where headers are, answers for most files. */
const WINDOW_BYTES = 64 * 1024;
const DEFAULT_ALIGNMENT = 64;
/** Small records that say how to read the file: the longest is the 40 digits of `.data/serialization_id`. */
const WORD_BYTES_MAX = 64;
const FORMAT_VERSION_MAX = 10;
/** Nothing depends on the last two, but they are at hand, and a CRC that fails is a lost page. */
const WORDS = ['version', 'byteorder', '.storage_alignment', '.format_version', '.data/serialization_id'];

/**
 * Opens a file of torch.save (1.6 and later) and proves its structure: the end record is the file's last
 * 22 bytes, everything before it up to the file's first byte is accounted for, and local headers, directory
 * and data descriptors say the same of every record. Reads the end, the headers and `data.pkl`, whose
 * CRC it compares; tensor data is not read. Nothing is executed.
 *
 * Memory is bounded whatever the file says: 64 KiB windows, a directory of 16 MiB, a pickle of 64 MiB.
 *
 * @returns damage `torn` (empty, truncated, zero-filled, trailing-bytes, structure), `corrupt`/`checksum` for a
 * `data.pkl` that is not the one that was written, or `refused` (hostile, legacy, version)
 * @throws only what `source.read` rejects with
 */
export function readTorchZip(source: RandomAccess): Promise<Parsed<TorchZip>> {
  return parsed(() => open(source));
}

async function open(source: RandomAccess): Promise<TorchZip> {
  if (source.size === 0) torn('empty', 'the file is there and empty');
  const tailBytes = Math.min(source.size, WINDOW_BYTES);
  const tail: Window = { offset: source.size - tailBytes, bytes: bufferOf(await source.read(source.size - tailBytes, tailBytes)) };
  const end = source.size < END_BYTES ? null : zipEndAt(tail, source.size);
  if (end === null) throw new DamageFound(await whyNoEnd(source, tail));
  const reader = new WindowReader(source, tail);
  const { prefix, entries } = readDirectory(await directoryBytes(reader, end), end);
  const paddings = await checkHeaders(reader, entries);
  const records = entries.map((entry) => ({
    name: entry.name,
    offset: entry.headerOffset + headBytes(entry),
    bytes: entry.bytes,
    crc32: entry.crc32,
  }));
  const byName = new Map(records.map((record) => [record.name, record]));
  const crcComputed = records.some((record) => record.crc32 !== 0);
  const content = (name: string, bytesMax: number) => contentOf(reader, byName.get(name), bytesMax, crcComputed);
  await checkWords(content, byName, paddings);
  const held = content('data.pkl', PICKLE_BYTES_MAX);
  const pickle = held instanceof Promise ? await held : held;
  if (pickle === null) torn('structure', 'there is no record "data.pkl"');
  const object = tensorsOf(readRememberedPickle(pickle, byName.get('data.pkl')?.crc32 ?? 0), (key) => byName.get(`data/${key}`));
  return { prefix, records, ...object, crcComputed, bytes: source.size };
}

/** Bounded reads that are answered from the file's tail, its head or the last piece read, where those hold the bytes. */
class WindowReader {
  readonly #source: RandomAccess;
  readonly #tail: Window;
  #head: Window;
  #window: Window;

  constructor(source: RandomAccess, tail: Window) {
    this.#source = source;
    this.#tail = tail;
    this.#head = tail;
    this.#window = tail;
  }

  /** What is at hand and holds these bytes: without waiting, since a small file has all of them in its tail. */
  windowWith(offset: number, length: number): Window | null {
    if (holds(this.#tail, offset, length)) return this.#tail;
    if (holds(this.#window, offset, length)) return this.#window;
    return holds(this.#head, offset, length) ? this.#head : null;
  }

  /** Makes sure that a window holds these bytes. Callers have checked that the range lies in the file and is within their own limit. */
  async load(offset: number, length: number): Promise<Window> {
    const ahead = Math.min(Math.max(length, WINDOW_BYTES), this.#source.size - offset);
    this.#window = { offset, bytes: bufferOf(await this.#source.read(offset, ahead)) };
    // `data.pkl` is asked for after the headers have been walked to the end.
    if (offset === 0) this.#head = this.#window;
    return this.#window;
  }
}

function holds(window: Window, offset: number, length: number): boolean {
  return offset >= window.offset && offset + length <= window.offset + window.bytes.length;
}

function cut({ offset: from, bytes }: Window, offset: number, length: number): Buffer {
  return bytes.subarray(offset - from, offset - from + length);
}

async function directoryBytes(reader: WindowReader, end: ZipEnd): Promise<Buffer> {
  if (end.entries > RECORDS_MAX) refused('hostile', `${end.entries} records, more than ${RECORDS_MAX}`);
  if (end.directoryBytes > DIRECTORY_BYTES_MAX) {
    refused('hostile', `a directory of ${end.directoryBytes} bytes, more than ${DIRECTORY_BYTES_MAX}`);
  }
  const window = reader.windowWith(end.directoryOffset, end.directoryBytes) ?? (await reader.load(end.directoryOffset, end.directoryBytes));
  return cut(window, end.directoryOffset, end.directoryBytes);
}

/** Each record's header and descriptor against the directory; gives the paddings, null for files without torch's. */
async function checkHeaders(reader: WindowReader, entries: readonly DirectoryEntry[]): Promise<readonly number[] | null> {
  const paddings: number[] = [];
  let bare = 0;
  for (const entry of entries) {
    const head = headBytes(entry);
    const window = reader.windowWith(entry.headerOffset, head) ?? (await reader.load(entry.headerOffset, head));
    const padding = checkLocalHeader(window.bytes, entry.headerOffset - window.offset, entry);
    if (padding === null) bare += 1;
    else paddings.push(padding);
    const after = entry.headerOffset + head + entry.bytes;
    const length = descriptorBytes(entry);
    if (length === 0) continue;
    const behind = reader.windowWith(after, length) ?? (await reader.load(after, length));
    checkDescriptor(behind.bytes, after - behind.offset, entry);
  }
  if (bare > 0 && paddings.length > 0) torn('structure', `${bare} records are not padded and the others are`);
  return bare > 0 ? null : paddings;
}

/** Without a promise where the bytes are at hand: nine of ten files are small or have their headers in one window. */
type Now<T> = T | Promise<T>;

function contentOf(reader: WindowReader, record: ZipRecord | undefined, bytesMax: number, crcComputed: boolean): Now<Buffer | null> {
  if (record === undefined) return null;
  if (record.bytes > bytesMax) refused('hostile', `record ${quote(record.name)} has ${record.bytes} bytes, more than ${bytesMax}`);
  const { offset, bytes: length } = record;
  const window = reader.windowWith(offset, length);
  if (window !== null) return proved(cut(window, offset, length), record, crcComputed);
  return reader.load(offset, length).then((fetched) => proved(cut(fetched, offset, length), record, crcComputed));
}

function proved(bytes: Buffer, record: ZipRecord, crcComputed: boolean): Buffer {
  if (crcComputed && crc32(bytes) !== record.crc32)
    corrupt(`record ${quote(record.name)} does not have the CRC-32 that it was written with`);
  return bytes;
}

/** The records of one word each: format version, byte order, and the alignment that the paddings must have made. */
async function checkWords(
  content: (name: string, bytesMax: number) => Now<Buffer | null>,
  records: ReadonlyMap<string, ZipRecord>,
  paddings: readonly number[] | null,
): Promise<void> {
  const words = new Map<string, string>();
  for (const name of WORDS) {
    if (!records.has(name)) continue;
    const bytes = content(name, WORD_BYTES_MAX);
    words.set(name, (bytes instanceof Promise ? await bytes : bytes)?.toString('latin1').trim() ?? '');
  }
  const version = words.get('version');
  if (version !== undefined && !(isNumeral(version) && Number(version) <= FORMAT_VERSION_MAX)) {
    refused('version', `torch file format ${quote(version)}; ${FORMAT_VERSION_MAX} is the newest known`);
  }
  const order = words.get('byteorder');
  if (order !== undefined && order !== 'little') refused('version', `byte order ${quote(order)}; only little-endian files are read`);
  const stated = words.get('.storage_alignment');
  if (stated !== undefined && !(isNumeral(stated) && Number(stated) > 0))
    torn('structure', `storage alignment ${quote(stated)} is no number`);
  if (paddings === null) return;
  const alignment = stated === undefined ? DEFAULT_ALIGNMENT : Number(stated);
  let index = 0;
  for (const record of records.values()) {
    const padding = paddings[index] ?? 0;
    index += 1;
    if (record.offset % alignment !== 0 || padding >= alignment) {
      torn('structure', `record ${quote(record.name)} is not where an alignment of ${alignment} puts it`);
    }
  }
}

function isNumeral(text: string): boolean {
  return /^[0-9]{1,9}$/.test(text);
}

/** Which torch's records a file has, told by those beside the tensors: 1.6 to 2.0, 2.1 to 2.6, 2.7 on, or another set. */
export function torchLayoutOf({ records }: Pick<TorchZip, 'records'>): '1.13' | '2.1' | '2.7' | 'other' {
  const words = records
    .map((record) => record.name)
    .filter((name) => !name.startsWith('data/'))
    .join(' ');
  switch (words) {
    case 'data.pkl version':
      return '1.13';
    case 'data.pkl byteorder version .data/serialization_id':
      return '2.1';
    case 'data.pkl .format_version .storage_alignment byteorder version .data/serialization_id':
      return '2.7';
    default:
      return 'other';
  }
}
