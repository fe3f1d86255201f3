/** A half-open range of row indices, `[from, to)`. */
export type IndexRange = readonly [from: number, to: number];

/** Ascending indices (repeats allowed) as merged half-open ranges. */
export function rangesOf(indices: Iterable<number>): IndexRange[] {
  const ranges: [number, number][] = [];
  let last: [number, number] | undefined;
  for (const index of indices) {
    if (last !== undefined && index < last[1]) {
      if (index === last[1] - 1) continue;
      throw new RangeError(`indices must ascend: ${index} after ${last[1] - 1}`);
    }
    if (last !== undefined && index === last[1]) last[1] = index + 1;
    else {
      last = [index, index + 1];
      ranges.push(last);
    }
  }
  return ranges;
}

/** Sorts and merges ranges that may overlap or touch; empty ones vanish. */
export function mergeRanges(ranges: Iterable<IndexRange>): IndexRange[] {
  const sorted = [...ranges].filter(([from, to]) => to > from).sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [from, to] of sorted) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

export function countOf(ranges: Iterable<IndexRange>): number {
  let count = 0;
  for (const [from, to] of ranges) count += to - from;
  return count;
}

export function* indicesOf(ranges: Iterable<IndexRange>): Generator<number> {
  for (const [from, to] of ranges) for (let index = from; index < to; index += 1) yield index;
}

/** The parts of `ranges` that lie inside `[from, to)`. */
export function clipRanges(ranges: Iterable<IndexRange>, from: number, to: number): IndexRange[] {
  const clipped: IndexRange[] = [];
  for (const range of ranges) {
    const low = Math.max(range[0], from);
    const high = Math.min(range[1], to);
    if (high > low) clipped.push([low, high]);
  }
  return clipped;
}

/** For people: `4711, 6802, 18424-37311` (both ends included), cut after `most` parts. */
export function formatRanges(ranges: readonly IndexRange[], most = 8): string {
  const parts = ranges.slice(0, most).map(([from, to]) => (to - from === 1 ? `${from}` : `${from}-${to - 1}`));
  if (ranges.length > most) parts.push(`and ${ranges.length - most} more`);
  return parts.join(', ');
}
