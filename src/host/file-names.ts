import { isUtf8 } from 'node:buffer';

// A byte order mark is part of a name like any other character.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

export interface EntryName {
  readonly name: string;
  readonly openable: boolean;
}

/**
 * A name as the directory stores it, which on Linux is any bytes but `/` and NUL.
 *
 * - Valid UTF-8 comes through untouched and can be opened by that name. A backslash in it stays one backslash: a file
 *   really called `a\xff` (six characters) is `{name: 'a\\xff', openable: true}`.
 * - Anything else is escaped for reading only: each byte outside a valid sequence becomes `\xNN`, and a literal
 *   backslash becomes `\x5c`, so that two different names never look the same. `openable` is false.
 *
 * `openable` is therefore what tells an escaped name from a real one; nothing ever turns an escape back into bytes.
 */
export function entryName(bytes: Uint8Array): EntryName {
  if (isUtf8(bytes)) return { name: decoder.decode(bytes), openable: true };
  let name = '';
  for (let at = 0; at < bytes.length; ) {
    const length = sequenceLength(bytes, at);
    const byte = bytes[at] ?? 0;
    if (length === 0 || byte === 0x5c) {
      name += `\\x${byte.toString(16).padStart(2, '0')}`;
      at += 1;
    } else {
      name += decoder.decode(bytes.subarray(at, at + length));
      at += length;
    }
  }
  return { name, openable: false };
}

/** How many bytes the valid UTF-8 sequence at `at` has; 0 when there is none. */
function sequenceLength(bytes: Uint8Array, at: number): number {
  for (let length = 1; length <= 4 && at + length <= bytes.length; length++) {
    if (isUtf8(bytes.subarray(at, at + length))) return length;
  }
  return 0;
}
