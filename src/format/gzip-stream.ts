import { Buffer } from 'node:buffer';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createInflateRaw, type InflateRaw } from 'node:zlib';
import type { RandomAccess } from '../core/random-access.ts';
import { crc32 } from './crc32.ts';
import { corrupt, refused, torn } from './damage.ts';
import { deflateOffset, GZIP_HEADER_BYTES_MAX, GZIP_TRAILER_BYTES, type GzipTrailer, trailerOf } from './gzip-header.ts';

/** The first read answers for header, pickle and ids of most samples; who is still reading after eight of them wants all. */
const FIRST_READ_BYTES = 64 * 1024;
const FIRST_READS = 8;
const READ_BYTES = 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
/** What a stream may inflate to: 1 GiB, or 32 times its own length. States inflate to less than twice; only a bomb makes more. */
const INFLATED_BYTES_FREE = 2 ** 30;
const EXPANSION_MAX = 32;
const PAGE_BYTES = 4096;
const ZERO_PAGE = Buffer.alloc(PAGE_BYTES);

/**
 * A gzip file as one stream of inflated bytes, read forwards. Holds what was asked for and one chunk of 64 KiB; what it may
 * inflate to is bounded. One member only: that is what Python's gzip and torch leave, and bytes behind it are another file's.
 */
export class GzipStream {
  readonly trailer: GzipTrailer;
  readonly #source: RandomAccess;
  readonly #deflateAt: number;
  readonly #inflate: InflateRaw;
  readonly #chunks: AsyncIterator<Uint8Array>;
  #held: Buffer = Buffer.alloc(0);
  #ended = false;
  #offset = 0;
  #sum = 0;
  #inflatedBytes = 0;
  #fileSum = 0;
  #fileAt = 0;
  readonly #flow: Promise<void>;
  #zeroPageAt: number | null = null;

  private constructor(source: RandomAccess, head: Buffer, deflateAt: number, trailer: GzipTrailer) {
    this.#source = source;
    this.#deflateAt = deflateAt;
    this.trailer = trailer;
    this.#inflate = createInflateRaw({ chunkSize: CHUNK_BYTES });
    // Its failure is the failure of the iteration, which is where it is told.
    this.#flow = pipeline(Readable.from(this.#pieces(head), { highWaterMark: 1 }), this.#inflate).catch(() => undefined);
    this.#chunks = (this.#inflate as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
  }

  /**
   * Looks at both ends of the file.
   * @throws DamageFound; and what `source.read` rejects with
   */
  static async open(source: RandomAccess): Promise<GzipStream> {
    if (source.size === 0) torn('empty', 'the file is there and empty');
    const head = bufferOf(await source.read(0, Math.min(source.size, FIRST_READ_BYTES)));
    const deflateAt = deflateOffset(head.subarray(0, GZIP_HEADER_BYTES_MAX));
    const tailAt = source.size - GZIP_TRAILER_BYTES;
    const tail =
      tailAt + GZIP_TRAILER_BYTES <= head.length ? head.subarray(tailAt) : bufferOf(await source.read(tailAt, GZIP_TRAILER_BYTES));
    const trailer = trailerOf(tail.subarray(0, GZIP_TRAILER_BYTES), tailAt - deflateAt);
    return new GzipStream(source, head, deflateAt, trailer);
  }

  /** Inflated bytes handed out so far. */
  get offset(): number {
    return this.#offset;
  }

  /** CRC-32 of the file as it is stored; of all of it once `finish` has returned. */
  get fileCrc32(): number {
    return this.#fileSum;
  }

  /** At least `length` bytes without taking them; fewer only at the end. */
  async peek(length: number): Promise<Buffer> {
    if (this.#held.length < length && !this.#ended) {
      const parts = [this.#held];
      let have = this.#held.length;
      while (have < length) {
        const chunk = await this.#next();
        if (chunk === null) break;
        parts.push(chunk);
        have += chunk.length;
      }
      this.#held = Buffer.concat(parts);
    }
    return this.#held;
  }

  /** Exactly `length` bytes: a view that stays valid. */
  async take(length: number, what: string): Promise<Buffer> {
    const held = await this.peek(length);
    if (held.length < length) torn('truncated', `the inflated file ends at ${this.#offset + held.length} bytes, inside ${what}`);
    this.#held = held.subarray(length);
    this.#offset += length;
    return held.subarray(0, length);
  }

  /** Lets `length` bytes go by, each piece through `onBytes`, without ever holding more than a chunk. */
  async pass(length: number, what: string, onBytes?: (bytes: Buffer) => void): Promise<void> {
    for (let rest = length; rest > 0; ) {
      const held = await this.peek(1);
      if (held.length === 0) torn('truncated', `the inflated file ends at ${this.#offset} bytes, ${rest} bytes before the end of ${what}`);
      const part = held.subarray(0, Math.min(rest, held.length));
      onBytes?.(part);
      this.#held = held.subarray(part.length);
      this.#offset += part.length;
      rest -= part.length;
    }
  }

  /**
   * Inflates what is left and proves the whole: the stream ends where the trailer begins, the trailer ends the file, and length
   * and CRC-32 are those of the inflated bytes.
   * @throws DamageFound
   */
  async finish(): Promise<void> {
    for (let held = await this.peek(1); held.length > 0; held = await this.peek(1)) {
      this.#offset += held.length;
      this.#held = held.subarray(held.length);
    }
    await this.#flow;
    const end = this.#deflateAt + this.#inflate.bytesWritten + GZIP_TRAILER_BYTES;
    const { size } = this.#source;
    if (end > size) torn('truncated', `its gzip stream ends ${end - size} bytes too late for its trailer`);
    if (end < size) torn('trailing-bytes', `${size - end} bytes after the gzip stream; the file's own length is ${end}`);
    if (this.#sum !== this.trailer.crc32 || this.#inflatedBytes % 2 ** 32 !== this.trailer.length32) {
      this.#lost('the inflated bytes do not have the length and CRC-32 that the gzip trailer says');
    }
    // The stream may have ended before the piece with the trailer was asked for.
    if (this.#fileAt < size) this.#fileSum = crc32(await this.#source.read(this.#fileAt, size - this.#fileAt), this.#fileSum);
  }

  /** Ends reading; safe at any time. */
  close(): void {
    this.#ended = true;
    this.#inflate.destroy();
  }

  async #next(): Promise<Buffer | null> {
    if (this.#ended) return null;
    const next = await this.#chunks.next().catch((error: unknown) => this.#failed(error));
    if (next.done === true) {
      this.#ended = true;
      return null;
    }
    const chunk = bufferOf(next.value);
    this.#inflatedBytes += chunk.length;
    const most = Math.max(INFLATED_BYTES_FREE, this.#source.size * EXPANSION_MAX);
    if (this.#inflatedBytes > most) {
      this.close();
      refused('hostile', `it inflates to more than ${most} bytes`);
    }
    this.#sum = crc32(chunk, this.#sum);
    return chunk;
  }

  #failed(error: unknown): never {
    this.#ended = true;
    switch (error instanceof Error && 'code' in error ? error.code : undefined) {
      case 'Z_BUF_ERROR':
        return torn('truncated', `its gzip stream breaks off at ${this.#source.size} bytes`);
      case 'Z_DATA_ERROR':
        return this.#lost(`its gzip stream cannot be inflated beyond ${this.#inflatedBytes} bytes`);
      default:
        throw error;
    }
  }

  /** A deflate stream may hold a page of zeros of its own, so one only explains what has failed already. */
  #lost(detail: string): never {
    if (this.#zeroPageAt !== null) torn('zero-filled', `the page at byte ${this.#zeroPageAt} is zero, and ${detail}`);
    return corrupt(detail);
  }

  async *#pieces(head: Buffer): AsyncGenerator<Uint8Array> {
    const { size } = this.#source;
    let piece: Uint8Array = head;
    for (let at = 0; ; ) {
      this.#fileSum = crc32(piece, this.#fileSum);
      this.#fileAt = at + piece.length;
      this.#lookForZeroPage(bufferOf(piece), at);
      yield at === 0 ? piece.subarray(this.#deflateAt) : piece;
      at += piece.length;
      if (at >= size || this.#ended) return;
      const length = at < FIRST_READS * FIRST_READ_BYTES ? FIRST_READ_BYTES : READ_BYTES;
      piece = await this.#source.read(at, Math.min(length, size - at));
    }
  }

  #lookForZeroPage(piece: Buffer, offset: number): void {
    for (
      let at = (PAGE_BYTES - (offset % PAGE_BYTES)) % PAGE_BYTES;
      this.#zeroPageAt === null && at + PAGE_BYTES <= piece.length;
      at += PAGE_BYTES
    ) {
      if (piece[at] === 0 && ZERO_PAGE.compare(piece, at, at + PAGE_BYTES) === 0) this.#zeroPageAt = offset + at;
    }
  }
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
