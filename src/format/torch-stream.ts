import type { Buffer } from 'node:buffer';
import { crc32 } from './crc32.ts';
import { corrupt, quote, refused, torn } from './damage.ts';
import type { GzipStream } from './gzip-stream.ts';
import { PICKLE_BYTES_MAX, readPickle } from './pickle.ts';
import type { PickleValue } from './pickle-values.ts';
import { DTYPE_BYTES, type TensorInfo } from './tensors.ts';
import { type SavedObject, tensorsOf } from './torch-tensors.ts';
import { DIRECTORY_BYTES_MAX, descriptorBytes, RECORDS_MAX, readDirectory } from './zip-directory.ts';
import { zipEndAt } from './zip-end.ts';
import * as zip from './zip-headers.ts';
import { checkDescriptor, checkLocalHeader, headBytes } from './zip-local.ts';

/** Records of one word, whose length nothing in front of them says: 40 digits at most. */
const WORD_BYTES_MAX = 4096;
const NAME_BYTES_MAX = 4096;
/** Headers, padding and directory lines of one record; users may align to pages. */
const RECORD_OVERHEAD_MAX = 16 * 1024;

interface SeenRecord {
  readonly name: string;
  readonly header: Buffer;
  readonly descriptor: Buffer | null;
  readonly headerOffset: number;
  readonly offset: number;
  readonly bytes: number;
  readonly crc32: number;
}

/**
 * A torch zip that can only be read forwards, as inside gzip. Its local headers say neither length nor CRC, but the first
 * record is the pickle, which says how long every storage is; so everything is known by the time its bytes come. Tensors are not
 * kept: a record that is asked for is, and what passes is summed.
 */
export class TorchStream {
  readonly #stream: GzipStream;
  readonly #pickle: PickleValue;
  readonly #storages: ReadonlyMap<string, number>;
  readonly #records: SeenRecord[];
  readonly #prefix: string;

  private constructor(stream: GzipStream, prefix: string, pickle: { value: PickleValue; record: SeenRecord }) {
    this.#stream = stream;
    this.#prefix = prefix;
    this.#pickle = pickle.value;
    this.#storages = storagesOf(pickle.value);
    this.#records = [pickle.record];
  }

  /**
   * Reads up to the end of `data.pkl` and compares what it says with the gzip trailer: a stream that was cut ends in other bytes.
   * @throws DamageFound
   */
  static async open(stream: GzipStream): Promise<TorchStream> {
    const start = await stream.peek(4);
    if (start.length >= 4 && start.readUInt32LE(0) === 0x0a8a0280) {
      refused('legacy', 'torch.save format from before torch 1.6 (no zip), inside gzip; save it again with a newer torch');
    }
    const { path, header, headerOffset } = await readHeader(stream);
    const slash = path.indexOf('/');
    if (slash < 0 || path.slice(slash + 1) !== 'data.pkl') torn('structure', `the first record is ${quote(path)} and not data.pkl`);
    const offset = stream.offset;
    const bytes = sizeInHeader(header) ?? (await sizeBeforeDescriptor(stream, PICKLE_BYTES_MAX, path));
    if (bytes > PICKLE_BYTES_MAX) refused('hostile', `data.pkl has ${bytes} bytes, more than ${PICKLE_BYTES_MAX}`);
    const content = await stream.take(bytes, quote(path));
    const sum = crc32(content);
    const descriptor = await readDescriptor(stream, { header, headerOffset, sum, bytes, path });
    const record = { name: 'data.pkl', header, descriptor, headerOffset, offset, bytes, crc32: sum };
    const file = new TorchStream(stream, path.slice(0, slash), { value: readPickle(content), record });
    file.#checkLength();
    return file;
  }

  /** Where the data of each record that has passed begins in the inflated file. */
  recordOffsets(): ReadonlyMap<string, number> {
    return new Map(this.#records.map((record) => [record.name, record.offset]));
  }

  /** Names and shapes as the pickle says; offsets count in the inflated file, as far as it has passed. */
  get tensors(): ReadonlyMap<string, TensorInfo> {
    return this.#saved().tensors;
  }

  /** What stands beside the tensors. */
  get values(): SavedObject['values'] {
    return this.#saved().values;
  }

  #saved(): SavedObject {
    const at = this.recordOffsets();
    return tensorsOf(this.#pickle, (key) => {
      const bytes = this.#storages.get(key);
      return bytes === undefined ? undefined : { offset: at.get(`data/${key}`) ?? 0, bytes };
    });
  }

  /**
   * The bytes of these records, which must not have passed yet; stops behind the last of them.
   * @param bytesMax of one record: it is held whole
   * @throws DamageFound
   */
  async read(names: ReadonlySet<string>, bytesMax: number): Promise<Map<string, Buffer>> {
    const kept = new Map<string, Buffer>();
    while (kept.size < names.size) {
      const record = await this.#nextRecord((name, bytes) => {
        if (!names.has(name)) return false;
        if (bytes > bytesMax) refused('hostile', `record ${quote(name)} has ${bytes} bytes, more than ${bytesMax}`);
        return true;
      });
      if (record === null)
        torn(
          'structure',
          `it has no record ${[...names]
            .filter((name) => !kept.has(name))
            .map(quote)
            .join(', ')}`,
        );
      if (record.content !== null) kept.set(record.name, record.content);
    }
    return kept;
  }

  /**
   * Lets the rest pass: every record's header, length and CRC-32 against directory and descriptor, the end record behind it, and
   * then gzip's own sum over all of it.
   * @throws DamageFound
   */
  async finish(): Promise<void> {
    for (let record = await this.#nextRecord(() => false); record !== null; ) record = await this.#nextRecord(() => false);
    const directoryOffset = this.#stream.offset;
    const rest = await this.#stream.peek(DIRECTORY_BYTES_MAX + 1);
    if (rest.length > DIRECTORY_BYTES_MAX) refused('hostile', `more than ${DIRECTORY_BYTES_MAX} bytes of directory`);
    const end = zipEndAt({ offset: directoryOffset, bytes: rest }, directoryOffset + rest.length);
    if (end === null || end.directoryOffset !== directoryOffset) torn('structure', 'the inflated file does not end as a torch zip');
    this.#compare(readDirectory(rest.subarray(0, end.directoryBytes), end).entries);
    await this.#stream.finish();
  }

  #compare(entries: ReturnType<typeof readDirectory>['entries']): void {
    const crcComputed = entries.some((entry) => entry.crc32 !== 0);
    if (entries.length !== this.#records.length)
      torn('structure', `the directory names ${entries.length} of ${this.#records.length} records`);
    entries.forEach((entry, at) => {
      const seen = this.#records[at];
      const same = seen?.name === entry.name && seen.headerOffset === entry.headerOffset && seen.bytes === entry.bytes;
      if (seen === undefined || !same || headBytes(entry) !== seen.header.length)
        torn('structure', `the directory does not fit record ${quote(entry.name)}`);
      const whole = seen.header.length === headBytes(entry) && (seen.descriptor?.length ?? 0) === descriptorBytes(entry);
      if (!whole) torn('structure', `record ${quote(entry.name)} does not fill its room, at ${entry.headerOffset}`);
      checkLocalHeader(seen.header, 0, entry);
      if (seen.descriptor !== null) checkDescriptor(seen.descriptor, 0, entry);
      if (crcComputed && seen.crc32 !== entry.crc32)
        corrupt(`the data of ${quote(entry.name)} does not have the CRC-32 that it was written with`);
    });
  }

  /** The inflated length, as gzip has it, lies between what the storages need and what torch writes around them. */
  #checkLength(): void {
    let least = this.#stream.offset;
    for (const bytes of this.#storages.values()) least += bytes;
    const slack = (this.#storages.size + 16) * (RECORD_OVERHEAD_MAX + 2 * this.#prefix.length);
    const beyond = (((this.#stream.trailer.length32 - least) % 2 ** 32) + 2 ** 32) % 2 ** 32;
    if (beyond > slack) {
      torn(
        'truncated',
        `its tensors need ${least} inflated bytes and its last 8 bytes say ${this.#stream.trailer.length32} (modulo 4 GiB): cut, or followed by other bytes`,
      );
    }
  }

  async #nextRecord(
    keep: (name: string, bytes: number) => boolean,
  ): Promise<{ readonly name: string; readonly content: Buffer | null } | null> {
    const stream = this.#stream;
    const start = await stream.peek(4);
    if (start.length >= 4 && start.readUInt32LE(0) === zip.CENTRAL_SIGNATURE) return null;
    if (this.#records.length >= RECORDS_MAX) refused('hostile', `more than ${RECORDS_MAX} records`);
    const { path, header, headerOffset } = await readHeader(stream);
    if (!path.startsWith(`${this.#prefix}/`))
      torn('structure', `record ${quote(path)} is not in the folder ${quote(this.#prefix)} of the first`);
    const name = path.slice(this.#prefix.length + 1);
    const offset = stream.offset;
    const stated = name.startsWith('data/') ? this.#storages.get(name.slice(5)) : undefined;
    const bytes = stated ?? sizeInHeader(header) ?? (await sizeBeforeDescriptor(stream, WORD_BYTES_MAX, path));
    let content: Buffer | null = null;
    let sum = 0;
    if (stated === undefined || keep(name, bytes)) {
      content = await stream.take(bytes, quote(path));
      sum = crc32(content);
    } else {
      await stream.pass(bytes, quote(path), (part) => {
        sum = crc32(part, sum);
      });
    }
    if (name === 'byteorder' && content?.toString('latin1').trim() !== 'little') refused('version', 'only little-endian files are read');
    const descriptor = await readDescriptor(stream, { header, headerOffset, sum, bytes, path });
    this.#records.push({ name, header, descriptor, headerOffset, offset, bytes, crc32: sum });
    return { name, content: stated === undefined ? null : content };
  }
}

async function readHeader(stream: GzipStream): Promise<{ path: string; header: Buffer; headerOffset: number }> {
  const headerOffset = stream.offset;
  const held = await stream.peek(zip.LOCAL_BYTES);
  if (held.length < zip.LOCAL_BYTES)
    torn('truncated', `the inflated file ends at ${headerOffset + held.length} bytes, before its directory`);
  if (held.readUInt32LE(0) !== zip.LOCAL_SIGNATURE)
    torn(
      'structure',
      headerOffset === 0 ? 'what it inflates to is no torch zip' : `no record stands at ${headerOffset} of the inflated file`,
    );
  if (held.readUInt16LE(8) !== 0) refused('version', `a record is compressed (method ${held.readUInt16LE(8)}); torch only stores`);
  const nameBytes = held.readUInt16LE(26);
  if (nameBytes > NAME_BYTES_MAX) torn('structure', `a record's name of ${nameBytes} bytes`);
  const header = await stream.take(zip.LOCAL_BYTES + nameBytes + held.readUInt16LE(28), 'a header');
  return { path: header.toString('utf8', zip.LOCAL_BYTES, zip.LOCAL_BYTES + nameBytes), header, headerOffset };
}

/** The length where the header says it: without a descriptor, and so for the empty records that have none. */
function sizeInHeader(header: Buffer): number | null {
  return (header.readUInt16LE(6) & zip.FLAG_DESCRIPTOR) === 0 ? header.readUInt32LE(18) : null;
}

/** The length of a record that is followed by a descriptor of exactly this length. */
async function sizeBeforeDescriptor(stream: GzipStream, most: number, path: string): Promise<number> {
  for (let length = 256; ; length = Math.min(length * 4, most + 16)) {
    const held = await stream.peek(length);
    for (
      let at = held.indexOf('PK\x07\x08', 0, 'latin1');
      at >= 0 && at + 12 <= held.length;
      at = held.indexOf('PK\x07\x08', at + 1, 'latin1')
    ) {
      if (held.readUInt32LE(at + 8) === at) return at;
    }
    if (held.length < length) torn('truncated', `the inflated file ends at ${stream.offset + held.length} bytes, inside ${quote(path)}`);
    if (length >= most + 16) torn('structure', `record ${quote(path)} is longer than ${most} bytes`);
  }
}

interface PassedRecord {
  readonly header: Buffer;
  readonly headerOffset: number;
  readonly sum: number;
  readonly bytes: number;
  readonly path: string;
}

async function readDescriptor(stream: GzipStream, passed: PassedRecord): Promise<Buffer | null> {
  const { header, headerOffset, sum, bytes, path } = passed;
  if ((header.readUInt16LE(6) & zip.FLAG_DESCRIPTOR) === 0) return null;
  const wide = bytes >= zip.U32_MAX || headerOffset >= zip.U32_MAX;
  const descriptor = await stream.take(wide ? 24 : 16, quote(path));
  if (descriptor.readUInt32LE(0) !== zip.DESCRIPTOR_SIGNATURE)
    torn('structure', `record ${quote(path)} is not followed by its CRC and sizes`);
  const stored = descriptor.readUInt32LE(4);
  // A sum of 0 is one that was not computed; the directory tells whether none of them was.
  if (stored !== 0 && stored !== sum) corrupt(`the data of ${quote(path)} does not have the CRC-32 that it was written with`);
  return descriptor;
}

/** Bytes of each storage that the pickle names. A value may be shared or hold itself, so each is walked once. */
function storagesOf(root: PickleValue): Map<string, number> {
  const sizes = new Map<string, number>();
  const seen = new Set<PickleValue>();
  const open: PickleValue[] = [root];
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (value === null || typeof value !== 'object' || value instanceof Uint8Array || seen.has(value)) continue;
    seen.add(value);
    switch (value.kind) {
      case 'tensor': {
        const { key, dtype, elements } = value.storage;
        sizes.set(key, elements * (dtype === null ? 1 : DTYPE_BYTES[dtype]));
        break;
      }
      case 'dict':
        for (const [, item] of value.entries) open.push(item);
        break;
      case 'list':
      case 'tuple':
        for (const item of value.items) open.push(item);
        break;
      case 'global':
      case 'storage':
        break;
    }
  }
  return sizes;
}
