import { Buffer } from 'node:buffer';
import type { RandomAccess } from '../core/random-access.ts';
import type { Damage } from './tensors.ts';
import * as zip from './zip-headers.ts';

/** What a zip's end says of its directory. */
export interface ZipEnd {
  readonly entries: number;
  readonly directoryOffset: number;
  readonly directoryBytes: number;
}

/** A part of a file in memory. */
export interface Window {
  readonly offset: number;
  readonly bytes: Buffer;
}

const DISK_ENTRIES_NONE = 0xffff;
/** How far from its end a damaged file is searched for what happened to it. */
const SEARCH_BYTES = 1024 * 1024;
const PAGE_BYTES = 4096;
/** Fewer zeros than this may be a tensor's own. */
const ZERO_TAIL_BYTES_MIN = 64;

function fits(narrow: number, wide: number, most: number): boolean {
  return narrow === Math.min(wide, most);
}

/**
 * The end record whose last byte is just before `end` (a file offset), if everything it says agrees with
 * where it stands: zip64 record and locator directly before it, and the directory directly before those.
 * null if there is none, or if it says something else: then it is of another file or of another length of this one.
 */
export function zipEndAt(window: Window, end: number): ZipEnd | null {
  const { bytes, offset } = window;
  const at = end - zip.END_BYTES - offset;
  if (at < 0 || bytes.readUInt32LE(at) !== zip.END_SIGNATURE || bytes.readUInt32LE(at + 4) !== 0) return null;
  const entries16 = bytes.readUInt16LE(at + 8);
  const directoryBytes32 = bytes.readUInt32LE(at + 12);
  const directoryOffset32 = bytes.readUInt32LE(at + 16);
  if (bytes.readUInt16LE(at + 10) !== entries16 || bytes.readUInt16LE(at + 20) !== 0) return null;
  const locator = at - zip.LOCATOR_BYTES;
  if (locator < 0 || bytes.readUInt32LE(locator) !== zip.LOCATOR_SIGNATURE) {
    // Without zip64, as other writers of small archives leave it.
    const plain = { entries: entries16, directoryOffset: directoryOffset32, directoryBytes: directoryBytes32 };
    if (entries16 === DISK_ENTRIES_NONE || directoryOffset32 + directoryBytes32 !== at + offset) return null;
    return plain;
  }
  const at64 = locator - zip.END64_BYTES;
  if (at64 < 0 || bytes.readUInt32LE(at64) !== zip.END64_SIGNATURE) return null;
  const entries = zip.readU64(bytes, at64 + 24);
  const directoryBytes = zip.readU64(bytes, at64 + 40);
  const directoryOffset = zip.readU64(bytes, at64 + 48);
  const agrees =
    zip.readU64(bytes, at64 + 4) === zip.END64_BYTES - 12 &&
    bytes.readUInt16LE(at64 + 14) === 45 &&
    zip.readU64(bytes, at64 + 16) === 0 &&
    zip.readU64(bytes, at64 + 32) === entries &&
    directoryOffset + directoryBytes === at64 + offset &&
    bytes.readUInt32LE(locator + 4) === 0 &&
    zip.readU64(bytes, locator + 8) === at64 + offset &&
    bytes.readUInt32LE(locator + 16) === 1 &&
    fits(entries16, entries, zip.U16_MAX) &&
    fits(directoryBytes32, directoryBytes, zip.U32_MAX) &&
    fits(directoryOffset32, directoryOffset, zip.U32_MAX);
  return agrees ? { entries, directoryOffset, directoryBytes } : null;
}

/** Where the zeros at the end of the bytes begin; the length if the last byte is not zero. */
function zeroTailAt(bytes: Uint8Array): number {
  let at = bytes.length;
  while (at > 0 && bytes[at - 1] === 0) at -= 1;
  return at;
}

/** What other formats begin with, told by name because they are no damage. */
function foreignFormat(head: Buffer): Damage | null {
  const starts = (...bytes: number[]): boolean => bytes.every((byte, k) => head[k] === byte);
  if (starts(0x80, 0x02, 0x8a, 0x0a)) {
    return {
      kind: 'refused',
      reason: 'legacy',
      detail: 'torch.save format from before torch 1.6 (no zip); save it again with a newer torch',
    };
  }
  if (starts(0x1f, 0x8b)) return { kind: 'refused', reason: 'legacy', detail: 'gzip-wrapped' };
  return null;
}

/**
 * Says what became of a file that does not end as a zip of its length should. Reads at most 1 MiB.
 *
 * - an end that is right for a shorter file stands further in: bytes follow the true end (`trailing-bytes`);
 * - zeros from the start of a page to the end: `zero-filled`, lost pages or space that was only reserved;
 * - it begins as a torch zip: `truncated`, the directory was never written or is cut off;
 * - otherwise `structure`.
 */
export async function whyNoEnd(source: RandomAccess, tail: Window): Promise<Damage> {
  const headBytes = Math.min(source.size, zip.LOCAL_BYTES);
  const head = tail.offset === 0 ? tail.bytes.subarray(0, headBytes) : bufferOf(await source.read(0, headBytes));
  const foreign = foreignFormat(head);
  if (foreign !== null) return foreign;
  const torn = (reason: 'trailing-bytes' | 'zero-filled' | 'truncated' | 'structure', detail: string): Damage => ({
    kind: 'torn',
    reason,
    detail,
  });
  const searched = Math.min(source.size, SEARCH_BYTES);
  const window =
    tail.bytes.length >= searched
      ? tail
      : { offset: source.size - searched, bytes: bufferOf(await source.read(source.size - searched, searched)) };
  const end = lastEnd(window);
  if (end !== null) return torn('trailing-bytes', `${source.size - end} bytes after the end record; the file's own length is ${end}`);
  const zeros = window.offset + zeroTailAt(window.bytes);
  const page = zeros === window.offset ? zeros : Math.ceil(zeros / PAGE_BYTES) * PAGE_BYTES;
  if (source.size - page >= Math.min(ZERO_TAIL_BYTES_MIN, source.size)) {
    const least = zeros === window.offset && zeros > 0 ? 'at least ' : '';
    return torn('zero-filled', `the last ${least}${source.size - page} of ${source.size} bytes are zero`);
  }
  if (window.bytes.length >= zip.END_BYTES && window.bytes.readUInt32LE(window.bytes.length - zip.END_BYTES) === zip.END_SIGNATURE) {
    return torn('structure', 'the end record does not agree with where it stands');
  }
  if (head.length >= 4 && head.readUInt32LE(0) === zip.LOCAL_SIGNATURE)
    return torn('truncated', `no end record: the file breaks off at ${source.size} bytes`);
  if (source.size < zip.LOCAL_BYTES) return torn('truncated', `no torch zip is as short as ${source.size} bytes`);
  return torn('structure', 'it neither begins nor ends as a torch zip');
}

/** Where the last end record that agrees with its own place ends. */
function lastEnd(window: Window): number | null {
  let at = window.bytes.length;
  while (at >= 0) {
    at = window.bytes.lastIndexOf('PK\x05\x06', at, 'latin1');
    if (at < 0) return null;
    const end = window.offset + at + zip.END_BYTES;
    if (at + zip.END_BYTES <= window.bytes.length && zipEndAt(window, end) !== null) return end;
    at -= 1;
  }
  return null;
}

export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
