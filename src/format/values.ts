import { Buffer } from 'node:buffer';
import { assert } from '../core/assert.ts';
import type { Dtype } from './tensors.ts';

/** The float formats of hidden states. Others are not looked into. */
export type ScannableDtype = 'BF16' | 'F16' | 'F32';

export function isScannable(dtype: Dtype): dtype is ScannableDtype {
  return dtype === 'BF16' || dtype === 'F16' || dtype === 'F32';
}

/** What the values of a tensor are like. Elements and rows count from 0 in row-major order. */
export interface FloatReport {
  readonly elements: number;
  readonly nan: number;
  readonly firstNan: number | null;
  /** Infinities of either sign. */
  readonly inf: number;
  readonly firstInf: number | null;
  /** Every element is 0 (of either sign), and there are some. */
  readonly allZero: boolean;
  readonly rows: number;
  readonly zeroRows: number;
  readonly firstZeroRow: number | null;
  /** Zero rows up to the last one: what a file that was never written to its end looks like. */
  readonly zeroRowsAtEnd: number;
  readonly nonFiniteRows: number;
  /** The first rows with a NaN or an infinity: at most `ROWS_NAMED_MAX`. */
  readonly nonFiniteRowNumbers: readonly number[];
}

export const ROWS_NAMED_MAX = 32;

export interface FloatScanner {
  /** Takes the next bytes; a piece may end anywhere, even inside an element. They are not kept. */
  push(bytes: Uint8Array): void;
  /** To be called after the last piece, which ends a row. */
  report(): FloatReport;
}

/**
 * Bit patterns that make the tests without turning anything into a float, on 32 bits at a time (two
 * elements of the 16-bit formats). An exponent of ones is a NaN or an infinity: adding one to it carries
 * into the sign's place, which the mask has cleared.
 */
interface Patterns {
  readonly width: 2 | 4;
  readonly exponent: number;
  readonly one: number;
  readonly carry: number;
  readonly magnitude: number;
}

const PATTERNS: Readonly<Record<ScannableDtype, Patterns>> = {
  BF16: { width: 2, exponent: 0x7f807f80, one: 0x00800080, carry: 0x80008000 | 0, magnitude: 0x7fff7fff },
  F16: { width: 2, exponent: 0x7c007c00, one: 0x04000400, carry: 0x80008000 | 0, magnitude: 0x7fff7fff },
  F32: { width: 4, exponent: 0x7f800000, one: 0x00800000, carry: 0x80000000 | 0, magnitude: 0x7fffffff },
};

const NONZERO = 1;
const NON_FINITE = 2;

/** Whether any of the words holds a value other than zero, and whether any holds one that is not finite. */
function sweep(words: Int32Array, from: number, to: number, patterns: Patterns): number {
  const { exponent, one } = patterns;
  let any = 0;
  let over = 0;
  let i = from;
  // Four at a time: this loop sees every byte of a run.
  for (const last = to - 3; i < last; i += 4) {
    const a = words[i] as number;
    const b = words[i + 1] as number;
    const c = words[i + 2] as number;
    const d = words[i + 3] as number;
    any |= a | b | c | d;
    over |= ((a & exponent) + one) | 0 | (((b & exponent) + one) | 0) | (((c & exponent) + one) | 0) | (((d & exponent) + one) | 0);
  }
  for (; i < to; i += 1) {
    const word = words[i] as number;
    any |= word;
    over |= ((word & exponent) + one) | 0;
  }
  return ((any & patterns.magnitude) === 0 ? 0 : NONZERO) | ((over & patterns.carry) === 0 ? 0 : NON_FINITE);
}

/** A piece as elements and as words of 32 bits. */
interface Views {
  readonly elements: Uint16Array | Uint32Array;
  readonly words: Int32Array;
}

function viewsOf(bytes: Uint8Array, width: 2 | 4): Views {
  // Views must start at a multiple of four; a piece that does not is copied.
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
  const words = new Int32Array(aligned.buffer, aligned.byteOffset, Math.floor(aligned.length / 4));
  const elements =
    width === 2
      ? new Uint16Array(aligned.buffer, aligned.byteOffset, Math.floor(aligned.length / 2))
      : new Uint32Array(words.buffer, words.byteOffset, words.length);
  return { elements, words };
}

/** `sweep` over elements `from` to `to`, of which one at either end may be half a word. */
function sweepElements({ elements, words }: Views, from: number, to: number, patterns: Patterns): number {
  if (patterns.width === 4) return sweep(words, from, to, patterns);
  const firstWord = (from + 1) >>> 1;
  const lastWord = to >>> 1;
  let seen = firstWord < lastWord ? sweep(words, firstWord, lastWord, patterns) : 0;
  const alone = (element: number): void => {
    seen |= sweep(Int32Array.of(elements[element] as number), 0, 1, patterns);
  };
  if (from % 2 === 1 && from < to) alone(from);
  if (to % 2 === 1 && to - 1 >= from && !(from % 2 === 1 && to - 1 === from)) alone(to - 1);
  return seen;
}

/**
 * Looks for NaN, infinities and rows of zeros in a tensor whose bytes come in pieces.
 *
 * @param rowElements elements of one row (one token's states); the tensor has a whole number of rows
 */
export function floatScanner(dtype: ScannableDtype, rowElements: number): FloatScanner {
  assert(Number.isSafeInteger(rowElements) && rowElements > 0, 'a row has elements');
  const patterns = PATTERNS[dtype];
  const { width } = patterns;
  const mask = patterns.exponent & (width === 2 ? 0x7fff : 0x7fffffff);
  const magnitude = width === 2 ? 0x7fff : 0x7fffffff;
  const found = { nan: 0, firstNan: null as number | null, inf: 0, firstInf: null as number | null };
  const zero = { rows: 0, first: null as number | null, atEnd: 0 };
  const nonFinite = { rows: 0, numbers: [] as number[] };
  const split = new Uint8Array(width);
  let splitBytes = 0;
  let elements = 0;
  let rows = 0;
  let inRow = 0;
  let seen = 0;

  const count = (views: Views, from: number, to: number): void => {
    for (let i = from; i < to; i += 1) {
      const bits = (views.elements[i] as number) & magnitude;
      if ((bits & mask) !== mask) continue;
      const at = elements + i - from;
      if (bits === mask) {
        found.inf += 1;
        found.firstInf ??= at;
      } else {
        found.nan += 1;
        found.firstNan ??= at;
      }
    }
  };
  const endRow = (): void => {
    if ((seen & NONZERO) === 0) {
      zero.rows += 1;
      zero.first ??= rows;
      zero.atEnd += 1;
    } else zero.atEnd = 0;
    if ((seen & NON_FINITE) !== 0) {
      nonFinite.rows += 1;
      if (nonFinite.numbers.length < ROWS_NAMED_MAX) nonFinite.numbers.push(rows);
    }
    rows += 1;
    inRow = 0;
    seen = 0;
  };
  const scan = (bytes: Uint8Array): void => {
    const views = viewsOf(bytes, width);
    const last = views.elements.length;
    let from = 0;
    while (from < last) {
      const to = Math.min(last, from + rowElements - inRow);
      const swept = sweepElements(views, from, to, patterns);
      seen |= swept;
      if ((swept & NON_FINITE) !== 0) count(views, from, to);
      elements += to - from;
      inRow += to - from;
      if (inRow === rowElements) endRow();
      from = to;
    }
  };

  return {
    push(bytes) {
      let rest = bytes;
      if (splitBytes > 0) {
        const taken = Math.min(width - splitBytes, rest.length);
        split.set(rest.subarray(0, taken), splitBytes);
        splitBytes += taken;
        rest = rest.subarray(taken);
        if (splitBytes < width) return;
        splitBytes = 0;
        scan(split);
      }
      const whole = rest.length - (rest.length % width);
      scan(rest.subarray(0, whole));
      splitBytes = rest.length - whole;
      split.set(rest.subarray(whole));
    },
    report() {
      assert(splitBytes === 0 && inRow === 0, 'the tensor ends with a whole row');
      return {
        elements,
        ...found,
        allZero: rows > 0 && zero.rows === rows,
        rows,
        zeroRows: zero.rows,
        firstZeroRow: zero.first,
        zeroRowsAtEnd: zero.atEnd,
        nonFiniteRows: nonFinite.rows,
        nonFiniteRowNumbers: nonFinite.numbers,
      };
    },
  };
}

/** The same for bytes that are all at hand. Without `rowElements` the whole is one row. */
export function scanFloats(dtype: ScannableDtype, bytes: Uint8Array, rowElements?: number): FloatReport {
  const scanner = floatScanner(dtype, rowElements ?? Math.max(bytes.length / PATTERNS[dtype].width, 1));
  scanner.push(bytes);
  return scanner.report();
}

const PAGE_BYTES = 4096;
const ZERO_PAGE = Buffer.alloc(PAGE_BYTES);

/** Fewer zeros than this at the end of a file may be values of their own. */
const LAST_PAGE_BYTES_MIN = 64;

/** Zero pages, `[from, to)` as file offsets: multiples of 4,096, but for a run that reaches the end of the file. */
export interface ZeroRun {
  readonly from: number;
  readonly to: number;
}

export interface ZeroPageScanner {
  /** Takes the bytes that follow in the file. They are not kept. */
  push(bytes: Uint8Array): void;
  /** @param endsFile the last byte pushed is the file's last: then a last page that is not full counts too. Default false */
  runs(endsFile?: boolean): readonly ZeroRun[];
}

function addRun(runs: ZeroRun[], run: ZeroRun): void {
  const last = runs.at(-1);
  if (last?.to === run.from) runs[runs.length - 1] = { from: last.from, to: run.to };
  else runs.push(run);
}

/**
 * Finds whole pages of zeros, which is what a page that the file system lost reads as. Meant for float tensors:
 * in a loss mask or in padded ids, zeros are values like any other.
 *
 * @param fileOffset where in the file the first byte stands
 */
export function zeroPageScanner(fileOffset: number): ZeroPageScanner {
  const found: ZeroRun[] = [];
  let at = fileOffset;
  // A page that begins before the tensor is not a whole page of it.
  let zeroSoFar = false;
  return {
    push(bytes) {
      const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      let from = 0;
      while (from < view.length) {
        const length = Math.min(PAGE_BYTES - (at % PAGE_BYTES), view.length - from);
        if (at % PAGE_BYTES === 0) zeroSoFar = true;
        zeroSoFar = zeroSoFar && view[from] === 0 && ZERO_PAGE.compare(view, from, from + length, 0, length) === 0;
        from += length;
        at += length;
        if (zeroSoFar && at % PAGE_BYTES === 0) addRun(found, { from: at - PAGE_BYTES, to: at });
      }
    },
    runs(endsFile = false) {
      const partial = at % PAGE_BYTES;
      if (!endsFile || !zeroSoFar || partial < LAST_PAGE_BYTES_MIN) return found;
      const all = [...found];
      addRun(all, { from: at - partial, to: at });
      return all;
    },
  };
}

/** The same for bytes that are all at hand. */
export function zeroPages(bytes: Uint8Array, fileOffset: number, endsFile = false): readonly ZeroRun[] {
  const scanner = zeroPageScanner(fileOffset);
  scanner.push(bytes);
  return scanner.runs(endsFile);
}
