import type { RandomAccess } from '../core/random-access.ts';

/** The parsers read a file's ends in windows of this size, and the ids of most samples lie in one of them. */
const WINDOW_BYTES = 64 * 1024;

interface Window {
  readonly from: number;
  readonly bytes: Uint8Array;
}

/**
 * The same bytes, with the windows at the two ends remembered: ids that a parser has read with the headers are not asked for
 * again. Holds at most two windows.
 */
export function rememberedEnds(source: RandomAccess): RandomAccess {
  let head: Window | null = null;
  let tail: Window | null = null;
  return {
    size: source.size,
    async read(offset, length) {
      for (const window of [tail, head]) {
        if (window === null) continue;
        const at = offset - window.from;
        if (at >= 0 && at + length <= window.bytes.length) return window.bytes.subarray(at, at + length);
      }
      const bytes = await source.read(offset, length);
      if (length <= WINDOW_BYTES) {
        if (offset + length === source.size) tail ??= { from: offset, bytes };
        else if (offset === 0) head ??= { from: offset, bytes };
      }
      return bytes;
    },
  };
}
