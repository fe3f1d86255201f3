import type { Buffer } from 'node:buffer';
import { refused, torn } from './damage.ts';

/** Fixed part of a member's header, and its trailer: CRC-32 and length of what it inflates to (RFC 1952, 2.3). */
export const GZIP_HEADER_BYTES = 10;
export const GZIP_TRAILER_BYTES = 8;
/** Name, comment and extra field are all that a header can be longer by; Python writes a file name. */
export const GZIP_HEADER_BYTES_MAX = 16 * 1024;

const METHOD_DEFLATE = 8;
const FLAG_HEADER_CRC = 0x02;
const FLAG_EXTRA = 0x04;
const FLAG_NAME = 0x08;
const FLAG_COMMENT = 0x10;
const FLAGS_RESERVED = 0xe0;

/**
 * Where the deflate stream begins.
 *
 * @param head the file's first bytes: `GZIP_HEADER_BYTES_MAX`, or all of a shorter file
 * @throws DamageFound
 */
export function deflateOffset(head: Buffer): number {
  if (head.length >= 2 && head.readUInt16BE(0) !== 0x1f8b) {
    if (head.every((byte) => byte === 0)) torn('zero-filled', `the first ${head.length} bytes are zero`);
    torn('structure', 'it does not begin as gzip');
  }
  if (head.length < GZIP_HEADER_BYTES + GZIP_TRAILER_BYTES) torn('truncated', `no gzip file is as short as ${head.length} bytes`);
  const method = head[2] ?? 0;
  const flags = head[3] ?? 0;
  if (method !== METHOD_DEFLATE || (flags & FLAGS_RESERVED) !== 0) refused('version', `gzip method ${method} with flags ${flags}`);
  let at = GZIP_HEADER_BYTES;
  if ((flags & FLAG_EXTRA) !== 0) at += 2 + (at + 2 <= head.length ? head.readUInt16LE(at) : 0);
  if ((flags & FLAG_NAME) !== 0) at = afterText(head, at);
  if ((flags & FLAG_COMMENT) !== 0) at = afterText(head, at);
  if ((flags & FLAG_HEADER_CRC) !== 0) at += 2;
  if (at + GZIP_TRAILER_BYTES > head.length) torn('truncated', `its gzip header does not end within ${head.length} bytes`);
  return at;
}

function afterText(head: Buffer, from: number): number {
  const end = head.indexOf(0, from);
  return end < 0 ? head.length : end + 1;
}

export interface GzipTrailer {
  readonly crc32: number;
  /** Length of the inflated bytes modulo 2^32. */
  readonly length32: number;
}

const U32 = 2 ** 32;
/** Deflate makes at most 1,032 bytes of one (zlib's technical notes), and stored blocks add 5 bytes to at most 65,535. */
const EXPANSION_MAX = 1032;
const STORED_OVERHEAD = 1.001;

/**
 * The file's last 8 bytes, if they can be the trailer of a stream of this length. A page of zeros, or what stands where a
 * stream was cut, mostly cannot: an inflated length of zero, more than deflate can make of these bytes, or less than any stream needs.
 *
 * @throws DamageFound
 */
export function trailerOf(last: Buffer, deflateBytes: number): GzipTrailer {
  const trailer = { crc32: last.readUInt32LE(0), length32: last.readUInt32LE(4) };
  if (trailer.length32 === 0 && trailer.crc32 === 0) torn('zero-filled', 'its gzip trailer is zero: the end was never written, or lost');
  const most = deflateBytes * EXPANSION_MAX;
  const least = Math.floor(deflateBytes / STORED_OVERHEAD) - 64;
  // Beyond 4 GiB the length has wrapped, and says nothing.
  if (most < U32 && (trailer.length32 > most || trailer.length32 < least)) {
    torn(
      'structure',
      `its last 8 bytes say ${trailer.length32} inflated bytes, which ${deflateBytes} bytes cannot make: cut, or followed by other bytes`,
    );
  }
  return trailer;
}
