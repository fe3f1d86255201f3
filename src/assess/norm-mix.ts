import { type IndexRange, rangesOf } from '../core/ranges.ts';

/** How large the last states of one file are: the median over a few tokens of the root of the mean square. */
export interface StateSize {
  readonly row: number;
  readonly rms: number;
}

export interface NormMix {
  readonly small: Cluster;
  readonly large: Cluster;
  /** The row at which one kind gives way to the other, where there is one such place and it was narrowed down; null otherwise. */
  readonly changesAt: number | null;
  readonly sampled: number;
}

export interface Cluster {
  readonly least: number;
  readonly most: number;
  /** Sampled rows of this kind. */
  readonly ranges: readonly IndexRange[];
  readonly count: number;
}

const FILES_LEAST = 3;
/** The gap between the two kinds, in times: less is a matter of the rows. */
const GAP_LEAST = 2;
/** And in spreads of either kind: two clouds that nearly touch are one. */
const GAP_SPREADS = 2;

/**
 * Two clearly separate sizes among last states, or null. A norm brings every state to about one size, and states before it are
 * another size altogether and grow with depth; one run stores one of the two. No guess where the two are not far apart.
 */
export function normMixOf(sizes: readonly StateSize[]): NormMix | null {
  const seen = sizes.filter((size) => Number.isFinite(size.rms) && size.rms > 0).sort((a, b) => a.rms - b.rms);
  if (seen.length < 2 * FILES_LEAST) return null;
  let at = 0;
  let widest = 0;
  for (let i = 1; i < seen.length; i += 1) {
    const gap = Math.log(seen[i]?.rms ?? 1) - Math.log(seen[i - 1]?.rms ?? 1);
    if (gap > widest) [at, widest] = [i, gap];
  }
  const [small, large] = [seen.slice(0, at), seen.slice(at)];
  if (small.length < FILES_LEAST || large.length < FILES_LEAST || widest < Math.log(GAP_LEAST)) return null;
  if (widest < GAP_SPREADS * Math.max(spreadOf(small), spreadOf(large))) return null;
  return { small: clusterOf(small), large: clusterOf(large), changesAt: null, sampled: seen.length };
}

function spreadOf(sizes: readonly StateSize[]): number {
  return Math.log(sizes.at(-1)?.rms ?? 1) - Math.log(sizes[0]?.rms ?? 1);
}

function clusterOf(sizes: readonly StateSize[]): Cluster {
  return {
    least: sizes[0]?.rms ?? 0,
    most: sizes.at(-1)?.rms ?? 0,
    ranges: rangesOf(sizes.map((size) => size.row).sort((a, b) => a - b)),
    count: sizes.length,
  };
}

/** Whether a further file belongs to the small kind (true), the large one (false) or neither (null). */
export function isSmall(mix: NormMix, rms: number): boolean | null {
  const middle = Math.sqrt(mix.small.most * mix.large.least);
  return Number.isFinite(rms) && rms > 0 ? rms < middle : null;
}

/** The two sampled rows between which the kind changes, where it changes once; null where the kinds alternate. */
export function changeBetween(mix: NormMix): { readonly before: number; readonly after: number; readonly smallFirst: boolean } | null {
  const all = [
    ...mix.small.ranges.flatMap(([from, to]) => rowsOf(from, to, true)),
    ...mix.large.ranges.flatMap(([from, to]) => rowsOf(from, to, false)),
  ].sort((a, b) => a.row - b.row);
  const changes = all.flatMap((one, i) => {
    const next = all[i + 1];
    return next !== undefined && next.small !== one.small ? [{ before: one.row, after: next.row, smallFirst: one.small }] : [];
  });
  return changes.length === 1 ? (changes[0] ?? null) : null;
}

function rowsOf(from: number, to: number, small: boolean): { row: number; small: boolean }[] {
  return Array.from({ length: to - from }, (_, i) => ({ row: from + i, small }));
}
