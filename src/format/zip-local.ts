import type { Buffer } from 'node:buffer';
import { quote, torn } from './damage.ts';
import { type DirectoryEntry, descriptorBytes, refuseCompressed } from './zip-directory.ts';
import * as zip from './zip-headers.ts';

/** Bytes in front of a record's data, as the directory leaves room for them. */
export function headBytes(entry: DirectoryEntry): number {
  return entry.overhead - descriptorBytes(entry);
}

/**
 * Compares a record's local header with the directory. A header that says something else was written by
 * another save, or lost.
 *
 * @param bytes hold the `headBytes(entry)` bytes of the header from `start` on
 * @returns the padding's length, or null without torch's padding field
 * @throws DamageFound
 */
export function checkLocalHeader(bytes: Buffer, start: number, entry: DirectoryEntry): number | null {
  if (bytes.readUInt32LE(start) !== zip.LOCAL_SIGNATURE) fail(entry, 'has no header');
  const { directory, at } = entry;
  const nameEnd = start + zip.LOCAL_BYTES + entry.fullNameBytes;
  const end = start + headBytes(entry);
  const nameAt = at + zip.CENTRAL_BYTES;
  const same =
    // Version needed and flags, method and time, date.
    bytes.readUInt32LE(start + 4) === directory.readUInt32LE(at + 6) &&
    bytes.readUInt32LE(start + 8) === directory.readUInt32LE(at + 10) &&
    bytes.readUInt16LE(start + 12) === directory.readUInt16LE(at + 14) &&
    bytes.readUInt16LE(start + 26) === entry.fullNameBytes &&
    bytes.compare(directory, nameAt, nameAt + entry.fullNameBytes, start + zip.LOCAL_BYTES, nameEnd) === 0;
  if (!same) fail(entry, 'has a header that differs from the directory');
  if (bytes.readUInt16LE(start + 28) !== end - nameEnd) fail(entry, 'does not fill its room');
  refuseCompressed(entry);
  checkSums(bytes, start, entry);
  let padding: number | null = null;
  let zip64 = false;
  for (let field = nameEnd; field < end; ) {
    const body = field + 4;
    const next = body <= end ? body + bytes.readUInt16LE(field + 2) : Number.POSITIVE_INFINITY;
    if (next > end) fail(entry, 'has an extra field that is cut');
    const id = bytes.readUInt16LE(field);
    if (id === zip.EXTRA_ZIP64) {
      zip64 = true;
      checkZip64(bytes.subarray(body, next), entry);
    } else if (id === zip.EXTRA_PADDING) {
      if (padding !== null || !isPadding(bytes, body, next)) fail(entry, 'has padding that torch does not write');
      padding = next - body;
    }
    field = next;
  }
  if (padding !== null && (zip64 !== entry.zip64 || !entry.plain)) fail(entry, 'has headers that torch does not write');
  return padding;
}

function fail(entry: DirectoryEntry, what: string): never {
  torn('structure', `record ${quote(entry.name)} ${what}, at ${entry.headerOffset}`);
}

function isPadding(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) if (bytes[at] !== zip.PADDING_BYTE) return false;
  return true;
}

/** CRC and sizes are zero when they come behind the data, and the directory's otherwise. */
function checkSums(header: Buffer, start: number, entry: DirectoryEntry): void {
  const crc32 = header.readUInt32LE(start + 14);
  const stored = header.readUInt32LE(start + 18);
  const bytes = header.readUInt32LE(start + 22);
  const narrow = Math.min(entry.bytes, zip.U32_MAX);
  const behind = (entry.flags & zip.FLAG_DESCRIPTOR) !== 0;
  const none = crc32 === 0 && stored === bytes && (stored === 0 || (stored === zip.U32_MAX && entry.zip64));
  const here = crc32 === entry.crc32 && stored === bytes && (stored === narrow || stored === zip.U32_MAX);
  if (!(here || (behind && none))) fail(entry, 'has a header with another CRC or size');
}

/** Sizes (torch: the second is 0) and the record's own offset, each only where it needs 64 bits. */
function checkZip64(body: Buffer, entry: DirectoryEntry): void {
  const big = entry.bytes >= zip.U32_MAX;
  const far = entry.headerOffset >= zip.U32_MAX;
  const sizesOnly = body.length === 16;
  const fits = body.length === (big ? 16 : 0) + (far ? 8 : 0) || sizesOnly;
  const sizes = body.length >= 16 ? [zip.readU64(body, 0), zip.readU64(body, 8)] : [];
  const sizesFit = sizes.every((size, k) => size === entry.bytes || (size === 0 && (k === 1 || !big)));
  const offsetFits = !far || sizesOnly || body.length < 8 || zip.readU64(body, body.length - 8) === entry.headerOffset;
  if (!(fits && sizesFit && offsetFits)) fail(entry, 'has a zip64 field with other numbers');
}

/**
 * Compares the descriptor behind a record's data with the directory.
 *
 * @param bytes hold the `descriptorBytes(entry)` bytes after the data from `start` on; not called for none
 */
export function checkDescriptor(bytes: Buffer, start: number, entry: DirectoryEntry): void {
  const wide = entry.zip64;
  const stored = wide ? zip.readU64(bytes, start + 8) : bytes.readUInt32LE(start + 8);
  const plain = wide ? zip.readU64(bytes, start + 16) : bytes.readUInt32LE(start + 12);
  const same = bytes.readUInt32LE(start) === zip.DESCRIPTOR_SIGNATURE && bytes.readUInt32LE(start + 4) === entry.crc32;
  if (!same || stored !== entry.bytes || plain !== entry.bytes) {
    torn('structure', `record ${quote(entry.name)} is not followed by its CRC and sizes`);
  }
}
