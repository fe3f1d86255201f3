import { performance } from 'node:perf_hooks';

/** One line of `npm run bench -- NAME --json`. Ratios are medians of pairs measured in turn in one run. */
export interface Figure {
  readonly figure: string;
  readonly value: number;
  readonly unit: string;
  readonly against: string;
  /** Ours over theirs, so below 1 is faster where the unit is time. */
  readonly ratio: number;
  readonly runs: number;
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

/** Measures two acts in turn, so that what else the machine does meets both. */
export async function compare(
  figure: string,
  against: string,
  runs: number,
  ours: () => Promise<unknown> | unknown,
  theirs: () => Promise<unknown> | unknown,
): Promise<Figure> {
  const a: number[] = [];
  const b: number[] = [];
  for (let run = 0; run < runs; run += 1) {
    a.push(await seconds(ours));
    b.push(await seconds(theirs));
  }
  const ratio = median(a.map((value, run) => value / (b[run] ?? value)));
  return { figure, value: Number(median(a).toFixed(3)), unit: 's', against, ratio: Number(ratio.toFixed(2)), runs };
}
