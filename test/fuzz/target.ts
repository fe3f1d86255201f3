import type { RandomAccess } from '../../src/core/random-access.ts';
import type { Random } from '../support/seeded-random.ts';

/** What is thrown at a parser. The same seed makes the same input, so a failure is three words: target, seed, number. */
export interface FuzzInput {
  readonly bytes: Uint8Array;
  /** Zeros that stand at `at` without taking memory: a file of terabytes. */
  readonly hole: { readonly at: number; readonly length: number } | null;
  /** What was done, for whoever reads the failure. */
  readonly made: string;
  /** Made by damaging good files only: then nothing but a good file's own bytes may pass every check. */
  readonly sealed: boolean;
  /** Which one of a folder's files these bytes are. */
  readonly file?: string;
}

/** A parser with what it promises. */
export interface FuzzTarget {
  readonly name: string;
  /** What one input may leave in memory before garbage is collected, where the parser's stated bound is above the usual. */
  readonly growthBytesMost?: number;
  make(random: Random): FuzzInput;
  /** @throws Broken, or whatever the parser should not have thrown */
  check(input: FuzzInput): Promise<void>;
}

/** A promise that was not kept. */
export class Broken extends Error {}

export function keep(condition: boolean, promise: string): asserts condition {
  if (!condition) throw new Broken(promise);
}

export function input(bytes: Uint8Array, made: string, more: Partial<Pick<FuzzInput, 'hole' | 'sealed'>> = {}): FuzzInput {
  return { bytes, made, hole: null, sealed: false, ...more };
}

export interface BoundedFile extends RandomAccess {
  readonly seen: { largest: number; total: number };
}

/** The input as a file that fails on a read outside of it, on a read beyond `largest` bytes, and on more than `total` bytes in all. */
export function boundedFile({ bytes, hole }: FuzzInput, bounds: { readonly largest: number; readonly total: number }): BoundedFile {
  const size = bytes.length + (hole?.length ?? 0);
  const seen = { largest: 0, total: 0 };
  return {
    size,
    seen,
    async read(offset, length) {
      keep(
        Number.isSafeInteger(offset) && Number.isSafeInteger(length) && offset >= 0 && length >= 0,
        `it reads ${length} bytes at ${offset}`,
      );
      keep(offset + length <= size, `it reads ${length} bytes at ${offset} of a file of ${size}`);
      seen.largest = Math.max(seen.largest, length);
      seen.total += length;
      keep(length <= bounds.largest, `it reads ${length} bytes at once, more than ${bounds.largest}`);
      keep(seen.total <= bounds.total, `it has read ${seen.total} bytes, more than ${bounds.total}`);
      if (hole === null) return bytes.subarray(offset, offset + length);
      const out = new Uint8Array(length);
      const before = bytes.subarray(Math.min(offset, hole.at), Math.min(offset + length, hole.at));
      out.set(before, 0);
      const behind = hole.at + hole.length;
      const from = Math.max(offset, behind);
      if (from < offset + length) out.set(bytes.subarray(from - hole.length, offset + length - hole.length), from - offset);
      return out;
    },
  };
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}
