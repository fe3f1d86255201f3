import { performance } from 'node:perf_hooks';

/** One line of `npm run bench -- NAME --json`. Ratios are medians of pairs measured in turn in one run. */
export interface Figure {
  readonly figure: string;
  readonly value: number;
  readonly unit: string;
  readonly against: string;
  /** Ours over theirs, so below 1 is faster where the unit is time; null where there is nothing to compare with. */
  readonly ratio: number | null;
  readonly runs: number;
  /** `warm`: everything was read just before. `cold`: the kernel's caches were dropped before each run. */
  readonly cache?: 'warm' | 'cold';
  /** What was asked for, in words, and whether this run reached it. */
  readonly wanted?: string;
  readonly met?: boolean;
}

/** The bound on a figure. `theirs` is the median of the other act, NaN where there is none. */
export interface Wanted {
  readonly text: string;
  readonly holds: (ours: number, theirs: number) => boolean;
}

/** Ours takes at most `times` as long as theirs. */
export function atMost(times: number, extraSeconds = 0): Wanted {
  const extra = extraSeconds === 0 ? '' : ` and ${extraSeconds} s`;
  return { text: `at most ${Number(times.toFixed(2))} x${extra}`, holds: (ours, theirs) => ours <= times * theirs + extraSeconds };
}

export async function seconds(act: () => Promise<unknown> | unknown): Promise<number> {
  const began = performance.now();
  await act();
  return (performance.now() - began) / 1000;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [low, high] = [sorted[middle - 1] ?? 0, sorted[middle] ?? 0];
  return sorted.length % 2 === 1 ? high : (low + high) / 2;
}

export interface CompareOptions {
  readonly wanted?: Wanted;
  readonly cache?: 'warm' | 'cold';
  /** Done before each act, and not measured. */
  readonly before?: () => void;
}

/** Measures two acts in turn, so that what else the machine does meets both. */
export async function compare(
  figure: string,
  against: string,
  runs: number,
  ours: () => Promise<unknown> | unknown,
  theirs: () => Promise<unknown> | unknown,
  options: CompareOptions = {},
): Promise<Figure> {
  const a: number[] = [];
  const b: number[] = [];
  for (let run = 0; run < runs; run += 1) {
    options.before?.();
    a.push(await seconds(ours));
    options.before?.();
    b.push(await seconds(theirs));
  }
  const ratio = median(a.map((value, run) => value / (b[run] ?? value)));
  const made = { figure, value: rounded(median(a)), unit: 's', against, ratio: Number(ratio.toFixed(2)), runs };
  const cache = options.cache === undefined ? {} : { cache: options.cache };
  const { wanted } = options;
  return { ...made, ...cache, ...(wanted === undefined ? {} : { wanted: wanted.text, met: wanted.holds(median(a), median(b)) }) };
}

/** A figure that stands for itself. */
export function plain(
  figure: string,
  value: number,
  unit: string,
  options: { readonly against: string; readonly wanted?: Wanted; readonly cache?: 'warm' | 'cold' },
): Figure {
  const cache = options.cache === undefined ? {} : { cache: options.cache };
  const wanted = options.wanted === undefined ? {} : { wanted: options.wanted.text, met: options.wanted.holds(value, Number.NaN) };
  return { figure, value: rounded(value), unit, against: options.against, ratio: null, runs: 1, ...cache, ...wanted };
}

function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
