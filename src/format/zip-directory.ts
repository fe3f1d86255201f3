import { type Buffer, isUtf8 } from 'node:buffer';
import { quote, refused, torn } from './damage.ts';
import type { ZipEnd } from './zip-end.ts';
import * as zip from './zip-headers.ts';

/** A torch zip of a sample has about ten records and 1 KiB of directory. */
export const DIRECTORY_BYTES_MAX = 16 * 1024 * 1024;
export const RECORDS_MAX = 100_000;
const METHOD_STORED = 0;

/** A record as the directory has it, with what its local header must repeat. */
export interface DirectoryEntry {
  /** Without the archive's prefix. */
  readonly name: string;
  readonly headerOffset: number;
  readonly bytes: number;
  readonly crc32: number;
  readonly flags: number;
  readonly method: number;
  readonly zip64: boolean;
  /** Attributes that torch leaves zero are zero. */
  readonly plain: boolean;
  /** The directory, and where in it this record's line begins: the local header repeats parts of it. */
  readonly directory: Buffer;
  readonly at: number;
  readonly fullNameBytes: number;
  /** All bytes up to the next record that are not this one's data: header, padding and descriptor. */
  overhead: number;
}

export interface ZipDirectory {
  readonly prefix: string;
  readonly entries: readonly DirectoryEntry[];
}

/**
 * Reads the directory and proves that the records it names fill the file from its first byte up to the
 * directory itself, in order and without a gap.
 *
 * @param bytes the directory: `end.directoryBytes` of them
 * @throws DamageFound
 */
export function readDirectory(bytes: Buffer, end: ZipEnd): ZipDirectory {
  if (end.entries === 0) torn('structure', 'the directory is empty');
  const entries: DirectoryEntry[] = [];
  const names = new Set<string>();
  let prefix: string | undefined;
  let at = 0;
  while (at < bytes.length) {
    if (entries.length >= end.entries) torn('structure', `the directory holds more than the ${end.entries} records it should`);
    const fullNameBytes = lineAt(bytes, at);
    const path = pathAt(bytes, at + zip.CENTRAL_BYTES, fullNameBytes);
    const slash = path.indexOf('/');
    if (slash < 0) torn('structure', `record ${quote(path)} is in no folder`);
    prefix ??= path.slice(0, slash);
    if (path.length <= prefix.length || !path.startsWith(prefix) || slash !== prefix.length) {
      torn('structure', `record ${quote(path)} is not in the folder ${quote(prefix)} of the first`);
    }
    const entry = readEntry(bytes, at, fullNameBytes, path.slice(slash + 1));
    if (names.has(entry.name)) torn('structure', `two records are named ${quote(entry.name)}`);
    names.add(entry.name);
    entries.push(entry);
    at += zip.CENTRAL_BYTES + fullNameBytes + bytes.readUInt16LE(at + 30);
  }
  if (entries.length !== end.entries) torn('structure', `the directory holds ${entries.length} of ${end.entries} records`);
  let expected = 0;
  for (let index = 0; index < entries.length; index += 1) {
    const entry = entries[index] as DirectoryEntry;
    if (entry.headerOffset !== expected)
      torn('structure', `record ${quote(entry.name)} starts at ${entry.headerOffset} and not at ${expected}`);
    expected = entries[index + 1]?.headerOffset ?? end.directoryOffset;
    entry.overhead = expected - entry.headerOffset - entry.bytes;
    if (entry.overhead < zip.LOCAL_BYTES + entry.fullNameBytes + descriptorBytes(entry)) {
      torn('structure', `record ${quote(entry.name)} is longer than the room it has`);
    }
  }
  return { prefix: prefix ?? '', entries };
}

export function descriptorBytes(entry: Pick<DirectoryEntry, 'flags' | 'zip64'>): number {
  if ((entry.flags & zip.FLAG_DESCRIPTOR) === 0) return 0;
  return entry.zip64 ? 24 : 16;
}

/** Proves that a whole line stands at `at`, and gives the length of its name. */
function lineAt(bytes: Buffer, at: number): number {
  if (at + zip.CENTRAL_BYTES > bytes.length || bytes.readUInt32LE(at) !== zip.CENTRAL_SIGNATURE) {
    torn('structure', `the directory has no record at its byte ${at}`);
  }
  // No comment, first disk.
  if (bytes.readUInt32LE(at + 32) !== 0) torn('structure', `the directory is no torch zip's at its byte ${at}`);
  const fullNameBytes = bytes.readUInt16LE(at + 28);
  if (at + zip.CENTRAL_BYTES + fullNameBytes + bytes.readUInt16LE(at + 30) > bytes.length) {
    torn('structure', `the directory breaks off at its byte ${at}`);
  }
  return fullNameBytes;
}

function pathAt(bytes: Buffer, at: number, length: number): string {
  const path = bytes.toString('utf8', at, at + length);
  if (path.includes('\uFFFD') && !isUtf8(bytes.subarray(at, at + length)))
    torn('structure', `a record's name is not UTF-8, at byte ${at} of the directory`);
  return path;
}

function readEntry(bytes: Buffer, at: number, fullNameBytes: number, name: string): DirectoryEntry {
  const wide = { stored: bytes.readUInt32LE(at + 20), bytes: bytes.readUInt32LE(at + 24), offset: bytes.readUInt32LE(at + 42) };
  const extraBytes = bytes.readUInt16LE(at + 30);
  const extra = at + zip.CENTRAL_BYTES + fullNameBytes;
  const needed = wide.bytes === zip.U32_MAX || wide.stored === zip.U32_MAX || wide.offset === zip.U32_MAX;
  const zip64 = extraBytes > 0 && readZip64(bytes.subarray(extra, extra + extraBytes), wide, name);
  if (needed && !zip64) torn('structure', `record ${quote(name)} lacks its zip64 field`);
  const method = bytes.readUInt16LE(at + 10);
  if (method === METHOD_STORED && wide.stored !== wide.bytes)
    torn('structure', `record ${quote(name)} is stored in another length than its own`);
  return {
    name,
    headerOffset: wide.offset,
    bytes: wide.stored,
    crc32: bytes.readUInt32LE(at + 16),
    flags: bytes.readUInt16LE(at + 8),
    method,
    zip64,
    plain: bytes.readUInt16LE(at + 4) === 0 && bytes.readUInt16LE(at + 36) === 0 && bytes.readUInt32LE(at + 38) === 0,
    directory: bytes,
    at,
    fullNameBytes,
    overhead: 0,
  };
}

/** Fills in the 64-bit values where the 32-bit ones say so; true if the field is there. */
function readZip64(extra: Buffer, wide: { bytes: number; stored: number; offset: number }, path: string): boolean {
  let found = false;
  for (const { id, body } of extraFields(extra, path)) {
    if (id !== zip.EXTRA_ZIP64) continue;
    if (found) torn('structure', `record ${quote(path)} has two zip64 fields`);
    found = true;
    let next = 0;
    const take = (): number => {
      if (next + 8 > body.length) torn('structure', `record ${quote(path)} has a short zip64 field`);
      next += 8;
      return zip.readU64(body, next - 8);
    };
    if (wide.bytes === zip.U32_MAX) wide.bytes = take();
    if (wide.stored === zip.U32_MAX) wide.stored = take();
    if (wide.offset === zip.U32_MAX) wide.offset = take();
    if (next !== body.length) torn('structure', `record ${quote(path)} has a zip64 field of another length`);
  }
  return found;
}

/** The extra fields of a header; they must fill it exactly. */
export function extraFields(extra: Buffer, path: string): { id: number; body: Buffer }[] {
  const fields: { id: number; body: Buffer }[] = [];
  let at = 0;
  while (at < extra.length) {
    const end = at + 4 <= extra.length ? at + 4 + extra.readUInt16LE(at + 2) : Number.POSITIVE_INFINITY;
    if (end > extra.length) torn('structure', `record ${quote(path)} has an extra field that is cut`);
    fields.push({ id: extra.readUInt16LE(at), body: extra.subarray(at + 4, end) });
    at = end;
  }
  return fields;
}

/** Refuses what torch never writes once it is known that both headers say so, and it is no flipped bit. */
export function refuseCompressed(entry: DirectoryEntry): void {
  if (entry.method !== METHOD_STORED)
    refused('version', `record ${quote(entry.name)} is compressed (method ${entry.method}); torch only stores`);
  if ((entry.flags & 1) !== 0) refused('version', `record ${quote(entry.name)} is encrypted`);
}
