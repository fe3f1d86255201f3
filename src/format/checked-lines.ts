import { crc32 } from 'node:zlib';

/** Longest JSON text in one line that a reader accepts; a writer asserts it. */
const MOST_JSON_BYTES = 16 * 1024 * 1024;
const NEWLINE = 0x0a;
const SPACE = 0x20;

export interface CheckedLines {
  readonly values: readonly unknown[];
  /** Bytes of the file before the first line that does not check. Equal to its size when the tail is clean. */
  readonly validBytes: number;
  /** `torn`: something stands behind the last valid line. It is dropped, never trusted, never appended to. */
  readonly tail: 'clean' | 'torn';
}

/** `LLLLLL CCCCCCCC JSON\n`: length in bytes, CRC-32, text (docs/on-disk.md, "Checked lines"). */
export function encodeLine(value: unknown): Uint8Array {
  const text = JSON.stringify(value);
  if (text === undefined) throw new TypeError('a checked line holds a JSON value');
  const body = Buffer.from(text, 'utf8');
  if (body.length > MOST_JSON_BYTES) throw new RangeError(`a checked line holds at most ${MOST_JSON_BYTES} bytes, not ${body.length}`);
  const head = `${String(body.length).padStart(6, '0')} ${hex32(crc32(body))} `;
  return Buffer.concat([Buffer.from(head, 'latin1'), body, Buffer.from('\n')]);
}

/**
 * Reads lines up to the first that is short, mislabelled or wrong. Total: any bytes give an answer.
 * @param isForeign whole lines that cannot stand where they do end what counts, as torn ones do. Default: none
 */
export function parseLines(bytes: Uint8Array, isForeign: (value: unknown, index: number) => boolean = () => false): CheckedLines {
  const values: unknown[] = [];
  let at = 0;
  while (at < bytes.length) {
    const line = parseLine(bytes, at);
    if (line === null || isForeign(line.value, values.length)) break;
    values.push(line.value);
    at = line.end;
  }
  return { values, validBytes: at, tail: at === bytes.length ? 'clean' : 'torn' };
}

function parseLine(bytes: Uint8Array, start: number): { value: unknown; end: number } | null {
  let at = start;
  let length = 0;
  for (; at < bytes.length && bytes[at] !== SPACE; at += 1) {
    const digit = (bytes[at] ?? 0) - 0x30;
    if (digit < 0 || digit > 9 || at - start > 8) return null;
    length = length * 10 + digit;
  }
  if (at - start < 6 || length > MOST_JSON_BYTES) return null;
  const bodyStart = at + 10;
  const end = bodyStart + length + 1;
  if (end > bytes.length || bytes[bodyStart - 1] !== SPACE || bytes[end - 1] !== NEWLINE) return null;
  const body = bytes.subarray(bodyStart, end - 1);
  const stored = Buffer.from(bytes.buffer, bytes.byteOffset + at + 1, 8).toString('latin1');
  if (stored !== hex32(crc32(body))) return null;
  try {
    return { value: JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8')), end };
  } catch {
    // The checksum holds, so a writer wrote this; a text that is no JSON still ends what can be trusted.
    return null;
  }
}

function hex32(value: number): string {
  return value.toString(16).padStart(8, '0');
}
