import { Buffer } from 'node:buffer';
import { createDeflateRaw, type DeflateRaw } from 'node:zlib';
import { crc32 } from './crc32.ts';
import { GZIP_TRAILER_BYTES } from './gzip-header.ts';
import type { WrittenFile } from './tensors.ts';

/** No name, no time, no system: the same sample gives the same bytes on every machine. */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
/** zlib's default, and what SpecForge asks of Python's gzip. */
const LEVEL = 6;
const CHUNK_BYTES = 64 * 1024;

/**
 * Streams another writer's file as one gzip member. Holds one piece of it and a few chunks of 64 KiB, however long the file is; the next
 * piece is asked for when deflate has taken the one before. The account is of the gzip file; what is inside has none.
 */
export async function* writeGzip(inner: AsyncGenerator<Uint8Array, WrittenFile>): AsyncGenerator<Uint8Array, WrittenFile, undefined> {
  const deflate = createDeflateRaw({ level: LEVEL, chunkSize: CHUNK_BYTES });
  let bytes = 0;
  let sum = 0;
  const counted = (piece: Uint8Array): Uint8Array => {
    bytes += piece.length;
    sum = crc32(piece, sum);
    return piece;
  };
  yield counted(HEADER);
  const inflated = { bytes: 0, crc32: 0 };
  // Begun together with the reading, which hears of the stream's failures.
  const feeding = feed(inner, deflate, inflated);
  feeding.catch(() => undefined);
  try {
    for await (const chunk of deflate as AsyncIterable<Uint8Array>) yield counted(chunk);
    await feeding;
  } finally {
    // Whoever stops in the middle must not leave a source open.
    deflate.destroy();
    await feeding.catch(() => undefined);
  }
  const trailer = Buffer.alloc(GZIP_TRAILER_BYTES);
  trailer.writeUInt32LE(inflated.crc32, 0);
  trailer.writeUInt32LE(inflated.bytes % 2 ** 32, 4);
  yield counted(trailer);
  return { bytes, crc32: sum, records: [] };
}

/** Its failure becomes the stream's, which is where it is read. */
async function feed(
  inner: AsyncGenerator<Uint8Array, WrittenFile>,
  deflate: DeflateRaw,
  inflated: { bytes: number; crc32: number },
): Promise<void> {
  try {
    for await (const piece of inner) {
      inflated.bytes += piece.length;
      inflated.crc32 = crc32(piece, inflated.crc32);
      await taken(deflate, piece);
    }
    deflate.end();
  } catch (error) {
    deflate.destroy(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }
}

/** A piece is only valid until the next one is asked for, and deflate reads it on another thread. */
function taken(deflate: DeflateRaw, piece: Uint8Array): Promise<void> {
  return new Promise((done, failed) => {
    const closed = (): void => failed(new Error('the stream was closed'));
    deflate.once('close', closed);
    deflate.write(piece, (error) => {
      deflate.off('close', closed);
      if (error == null) done();
      else failed(error);
    });
  });
}

/** What deflate makes of bytes that it cannot shrink: stored blocks of at most 65,535 bytes, 5 bytes each. No file is larger. */
export function gzipSizeMost(inflatedBytes: number): number {
  return HEADER.length + inflatedBytes + 5 * (Math.ceil(inflatedBytes / 16_383) + 1) + GZIP_TRAILER_BYTES;
}
