import type { IndexRange } from '../core/ranges.ts';
import type { Report } from '../core/report.ts';
import { VERDICT_KINDS, type VerdictKind } from '../core/verdict.ts';

export type Counts = Readonly<Record<VerdictKind, number>>;

/** Rows that lie side by side, with what is true of them. */
export interface RowPart {
  readonly from: number;
  readonly to: number;
  readonly counts: Counts;
  /** The first rows that are not sound, ascending. */
  readonly unsound: readonly { readonly kind: VerdictKind; readonly range: IndexRange }[];
}

/** Ranges named in one line of a table. */
const NAMED_MOST = 5;

/** Counts the verdicts of each part in one walk, however many ranges there are. `bounds` ascend and do not overlap. */
export function rowParts(report: Report, bounds: readonly IndexRange[]): RowPart[] {
  const parts = bounds.map(([from, to]) => ({
    from,
    to,
    counts: Object.fromEntries(VERDICT_KINDS.map((kind) => [kind, 0])) as Record<VerdictKind, number>,
    unsound: [] as { kind: VerdictKind; range: IndexRange }[],
  }));
  for (const { verdict: kind, ranges } of report.verdicts) {
    let at = 0;
    const named = new Map<number, number>();
    for (const [from, to] of ranges) {
      while ((parts[at]?.to ?? Number.POSITIVE_INFINITY) <= from) at += 1;
      for (let here = at; here < parts.length; here += 1) {
        const part = parts[here];
        if (part === undefined || part.from >= to) break;
        const range: IndexRange = [Math.max(from, part.from), Math.min(to, part.to)];
        if (range[1] <= range[0]) continue;
        part.counts[kind] += range[1] - range[0];
        const before = named.get(here) ?? 0;
        if (kind === 'sound' || before >= NAMED_MOST) continue;
        named.set(here, before + 1);
        part.unsound.push({ kind, range });
      }
    }
  }
  for (const part of parts) part.unsound.sort((a, b) => a.range[0] - b.range[0]).splice(NAMED_MOST);
  return parts;
}

/** Equal parts of a round size, so few that they can be taken in. */
export function evenBounds(rows: number, most: number): IndexRange[] {
  let step = 1;
  for (let power = 1; Math.ceil(rows / step) > most; power *= 10) {
    step = [power, 2 * power, 5 * power].find((wanted) => Math.ceil(rows / wanted) <= most) ?? 10 * power;
  }
  return Array.from({ length: Math.ceil(rows / step) }, (_, at) => [at * step, Math.min(rows, (at + 1) * step)]);
}

/** Whether folders hold each row exactly once, in order: only then their counts add up to the report's. */
export function folderBounds(report: Report): IndexRange[] | null {
  const { rows } = report.totals;
  let next = 0;
  for (const { from, to } of report.folders) {
    if (from !== next || to <= from) return null;
    next = to;
  }
  return next < rows ? null : report.folders.map(({ from, to }) => [from, Math.min(to, rows)]);
}
