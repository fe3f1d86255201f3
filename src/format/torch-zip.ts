import type { Buffer } from 'node:buffer';
import type { RandomAccess } from '../core/random-access.ts';
import { crc32 } from './crc32.ts';
import { corrupt, DamageFound, parsed, quote, refused, torn } from './damage.ts';
import { PICKLE_BYTES_MAX, readPickle } from './pickle.ts';
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
  /** Which torch's records it has: 1.6 to 2.0, 2.1 to 2.6, 2.7 on, or another set of records. */
  readonly layout: '1.13' | '2.1' | '2.7' | 'other';
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
  await checkWords(content, records, paddings);
  const pickle = await content('data.pkl', PICKLE_BYTES_MAX);
  if (pickle === null) torn('structure', 'there is no record "data.pkl"');
  const object = tensorsOf(readPickle(pickle), (key) => byName.get(`data/${key}`));
  return { prefix, layout: layoutOf(byName), records, ...object, crcComputed, bytes: source.size };
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

  /** The bytes if they are at hand: without waiting, since a small file has all of them in its tail. */
  held(offset: number, length: number): Buffer | null {
    return within(this.#tail, offset, length) ?? within(this.#window, offset, length) ?? within(this.#head, offset, length);
  }

  /** Callers have checked that the range lies in the file and is within their own limit. */
  async read(offset: number, length: number): Promise<Buffer> {
    const held = this.held(offset, length);
    if (held !== null) return held;
    const ahead = Math.min(Math.max(length, WINDOW_BYTES), this.#source.size - offset);
    this.#window = { offset, bytes: bufferOf(await this.#source.read(offset, ahead)) };
    // `data.pkl` is asked for after the headers have been walked to the end.
    if (offset === 0) this.#head = this.#window;
    return this.#window.bytes.subarray(0, length);
  }
}

function within({ offset: from, bytes }: Window, offset: number, length: number): Buffer | null {
  const at = offset - from;
  return at >= 0 && at + length <= bytes.length ? bytes.subarray(at, at + length) : null;
}

function directoryBytes(reader: WindowReader, end: ZipEnd): Promise<Buffer> {
  if (end.entries > RECORDS_MAX) refused('hostile', `${end.entries} records, more than ${RECORDS_MAX}`);
  if (end.directoryBytes > DIRECTORY_BYTES_MAX) {
    refused('hostile', `a directory of ${end.directoryBytes} bytes, more than ${DIRECTORY_BYTES_MAX}`);
  }
  return reader.read(end.directoryOffset, end.directoryBytes);
}

/** Each record's header and descriptor against the directory; gives the paddings, null for files without torch's. */
async function checkHeaders(reader: WindowReader, entries: readonly DirectoryEntry[]): Promise<readonly number[] | null> {
  const paddings: number[] = [];
  let bare = 0;
  for (const entry of entries) {
    const head = headBytes(entry);
    const header = reader.held(entry.headerOffset, head) ?? (await reader.read(entry.headerOffset, head));
    const padding = checkLocalHeader(header, entry);
    if (padding === null) bare += 1;
    else paddings.push(padding);
    const after = entry.headerOffset + head + entry.bytes;
    const length = descriptorBytes(entry);
    if (length > 0) checkDescriptor(reader.held(after, length) ?? (await reader.read(after, length)), entry);
  }
  if (bare > 0 && paddings.length > 0) torn('structure', `${bare} records are not padded and the others are`);
  return bare > 0 ? null : paddings;
}

async function contentOf(
  reader: WindowReader,
  record: ZipRecord | undefined,
  bytesMax: number,
  crcComputed: boolean,
): Promise<Buffer | null> {
  if (record === undefined) return null;
  if (record.bytes > bytesMax) refused('hostile', `record ${quote(record.name)} has ${record.bytes} bytes, more than ${bytesMax}`);
  const bytes = await reader.read(record.offset, record.bytes);
  if (crcComputed && crc32(bytes) !== record.crc32)
    corrupt(`record ${quote(record.name)} does not have the CRC-32 that it was written with`);
  return bytes;
}

/** The records of one word each: format version, byte order, and the alignment that the paddings must have made. */
async function checkWords(
  content: (name: string, bytesMax: number) => Promise<Buffer | null>,
  records: readonly ZipRecord[],
  paddings: readonly number[] | null,
): Promise<void> {
  const word = async (name: string): Promise<string | null> => (await content(name, WORD_BYTES_MAX))?.toString('latin1').trim() ?? null;
  const version = await word('version');
  if (version !== null && !(isNumeral(version) && Number(version) <= FORMAT_VERSION_MAX)) {
    refused('version', `torch file format ${quote(version)}; ${FORMAT_VERSION_MAX} is the newest known`);
  }
  const order = await word('byteorder');
  if (order !== null && order !== 'little') refused('version', `byte order ${quote(order)}; only little-endian files are read`);
  // Nothing depends on these two, but they are at hand, and a CRC that fails is a lost page.
  await word('.format_version');
  await word('.data/serialization_id');
  const stated = await word('.storage_alignment');
  if (stated !== null && !(isNumeral(stated) && Number(stated) > 0)) torn('structure', `storage alignment ${quote(stated)} is no number`);
  if (paddings === null) return;
  const alignment = stated === null ? DEFAULT_ALIGNMENT : Number(stated);
  records.forEach((record, index) => {
    const padding = paddings[index] ?? 0;
    if (record.offset % alignment !== 0 || padding >= alignment) {
      torn('structure', `record ${quote(record.name)} is not where an alignment of ${alignment} puts it`);
    }
  });
}

function isNumeral(text: string): boolean {
  return /^[0-9]{1,9}$/.test(text);
}

/** Told by the records beside the tensors. */
function layoutOf(records: ReadonlyMap<string, ZipRecord>): TorchZip['layout'] {
  const words = [...records.keys()].filter((name) => !name.startsWith('data/')).join(' ');
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
