import { isUtf8 } from 'node:buffer';
import type { RandomAccess } from '../core/random-access.ts';

const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** A longer line is reported, never held in memory. A row of a million tokens takes about 10 MB. */
export const LINE_BYTES_MOST = 64 * 1024 * 1024;
export const PIECE_BYTES = 4 * 1024 * 1024;

export interface JsonlLine {
  /** As an editor counts: the first line is 1. */
  readonly line: number;
  /** Where its text begins in the file, and how many bytes it has without its line end. */
  readonly start: number;
  readonly bytes: number;
  /** Valid until the next piece is asked for; null when the line is longer than the limit. */
  readonly text: Uint8Array | null;
}

export interface JsonlOptions {
  readonly lineBytesMost?: number;
  readonly pieceBytes?: number;
}

/** The lines of a JSONL file as it lies there, see `jsonlLines`. */
export function jsonlPieces(source: RandomAccess, options: JsonlOptions = {}): AsyncGenerator<readonly JsonlLine[]> {
  return jsonlLines(filePieces(source, options.pieceBytes), options.lineBytesMost);
}

/** A file's bytes in order. @param onRead is told how far the file has been read, before each piece */
export async function* filePieces(
  source: RandomAccess,
  pieceBytes = PIECE_BYTES,
  onRead?: (fileBytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for (let offset = 0; offset < source.size; offset += pieceBytes) {
    const piece = await source.read(offset, Math.min(pieceBytes, source.size - offset));
    onRead?.(offset + piece.length);
    yield piece;
  }
}

/**
 * The lines of JSONL text that hold something, in order, piece by piece.
 *
 * Blank lines are no rows, wherever they stand: that is how pyarrow, pandas and `datasets` read such files, so
 * row i here is their row i too, and a merge that left an empty line behind shifts nothing. LF and CRLF end a
 * line; a byte order mark at the start of a line (a merge of files that had one) is not part of its text.
 */
export async function* jsonlLines(
  pieces: AsyncIterable<Uint8Array>,
  lineBytesMost = LINE_BYTES_MOST,
): AsyncGenerator<readonly JsonlLine[]> {
  let line = 1;
  let offset = 0;
  // The line that the last piece ended in: its start, and its bytes so far (none are kept once it is too long).
  let start = 0;
  let held: Uint8Array[] = [];
  let heldBytes = 0;

  for await (const piece of pieces) {
    const lines: JsonlLine[] = [];
    for (let at = 0; at < piece.length; ) {
      const newline = piece.indexOf(NEWLINE, at);
      const end = newline < 0 ? piece.length : newline;
      const bytes = heldBytes + end - at;
      if (newline >= 0) {
        const found = lineOf(line, start, bytes, bytes > lineBytesMost ? null : joined(held, piece.subarray(at, end)));
        if (found !== null) lines.push(found);
        line += 1;
        start = offset + newline + 1;
        held = [];
        heldBytes = 0;
      } else {
        heldBytes = bytes;
        if (bytes > lineBytesMost) held = [];
        else held.push(piece.subarray(at));
      }
      at = end + 1;
    }
    offset += piece.length;
    if (lines.length > 0) yield lines;
  }
  if (heldBytes > 0) {
    const found = lineOf(line, start, heldBytes, heldBytes > lineBytesMost ? null : joined(held, new Uint8Array(0)));
    if (found !== null) yield [found];
  }
}

function joined(held: readonly Uint8Array[], last: Uint8Array): Uint8Array {
  return held.length === 0 ? last : Buffer.concat([...held, last]);
}

function lineOf(line: number, start: number, bytes: number, text: Uint8Array | null): JsonlLine | null {
  if (text === null) return { line, start, bytes, text };
  let from = 0;
  let to = text.length;
  if (Buffer.compare(text.subarray(0, 3), BYTE_ORDER_MARK) === 0) from = 3;
  if (text[to - 1] === CARRIAGE_RETURN) to -= 1;
  return isBlank(text, from, to) ? null : { line, start: start + from, bytes: to - from, text: text.subarray(from, to) };
}

function isBlank(text: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) {
    const byte = text[at];
    if (byte !== 0x20 && byte !== 0x09 && byte !== CARRIAGE_RETURN) return false;
  }
  return true;
}

export type ParsedLine = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly message: string };

/** JSON text in UTF-8. Total: it never throws, whatever the bytes. */
export function parseJsonLine(text: Uint8Array): ParsedLine {
  if (!isUtf8(text)) return { ok: false, message: 'not UTF-8' };
  try {
    return { ok: true, value: JSON.parse(Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString('utf8')) };
  } catch (error) {
    return { ok: false, message: `not JSON: ${printable(error instanceof Error ? error.message : String(error), 100)}` };
  }
}

/** Outside text for a message: one line, no control characters (a row may hold terminal escapes), cut. */
export function printable(text: string, most: number): string {
  const plain = text.replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, ' ');
  return plain.length <= most ? plain : `${plain.slice(0, most - 1)}…`;
}

/** Where a record lies: of a text its first byte and length, of a table its row. */
export interface Place {
  readonly start: number;
  readonly bytes: number;
}

/** Bytes of a place in memory and in the row index. */
export const PLACE_BYTES = 12;

/** Where each row's text lies: 12 bytes a row. */
export class LineIndex {
  #starts = new Float64Array(1024);
  #bytes = new Uint32Array(1024);
  #rows = 0;

  get rows(): number {
    return this.#rows;
  }

  add(start: number, bytes: number): void {
    if (this.#rows === this.#starts.length) {
      const room = Math.ceil(this.#rows * 1.5);
      this.#starts = grown(this.#starts, new Float64Array(room));
      this.#bytes = grown(this.#bytes, new Uint32Array(room));
    }
    this.#starts[this.#rows] = start;
    // A line that is too long for 32 bits is too long to be read anyway.
    this.#bytes[this.#rows] = Math.min(bytes, 0xffffffff);
    this.#rows += 1;
  }

  /** The places as bytes: all starts, then all lengths, little-endian. */
  encode(): Uint8Array {
    const bytes = new Uint8Array(this.#rows * PLACE_BYTES);
    const view = new DataView(bytes.buffer);
    for (let row = 0; row < this.#rows; row += 1) {
      view.setFloat64(row * 8, this.#starts[row] ?? 0, true);
      view.setUint32(this.#rows * 8 + row * 4, this.#bytes[row] ?? 0, true);
    }
    return bytes;
  }

  static decode(bytes: Uint8Array): LineIndex {
    const index = new LineIndex();
    const rows = bytes.length / PLACE_BYTES;
    if (!Number.isInteger(rows)) throw new RangeError('places must be whole');
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    index.#starts = new Float64Array(Math.max(rows, 1));
    index.#bytes = new Uint32Array(Math.max(rows, 1));
    for (let row = 0; row < rows; row += 1) {
      index.#starts[row] = view.getFloat64(row * 8, true);
      index.#bytes[row] = view.getUint32(rows * 8 + row * 4, true);
    }
    index.#rows = rows;
    return index;
  }

  at(index: number): Place {
    if (!(Number.isInteger(index) && index >= 0 && index < this.#rows)) throw new RangeError(`row ${index} of ${this.#rows}`);
    return { start: this.#starts[index] ?? 0, bytes: this.#bytes[index] ?? 0 };
  }
}

function grown<T extends Float64Array | Uint32Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
