import type { Reason } from '../core/verdict.ts';

export interface Frontier {
  readonly from: number;
  readonly to: number;
  /** One past the highest index with a file in `[from, to)`. */
  readonly next: number;
}

/**
 * How far each writer came. With shard bounds (a ledger's) every shard that was begun has a frontier of its own. Without them a
 * stretch without files longer than what can be in flight at once was not reached: a new writer's range begins
 * behind it, unless `sameWriter` says that the files on both sides were written one after the other: then whole batches
 * failed. Shorter holes are failures or what was in flight.
 */
export function frontiersOf(
  hasFile: (row: number) => boolean,
  rows: number,
  concurrency: number,
  sameWriter: (before: number, after: number) => boolean = () => false,
): Frontier[] {
  const frontiers: Frontier[] = [];
  let from = 0;
  let next = 0;
  for (let row = 0; row < rows; row += 1) {
    if (!hasFile(row)) continue;
    if (row - next > concurrency && next > from && sameWriter(next - 1, row)) {
      next = row + 1;
      continue;
    }
    if (row - next > concurrency && next > from) {
      frontiers.push({ from, to: row, next });
      from = row;
    } else if (row - next > concurrency) {
      // Nothing at all before this row: the first writer's range begins here, or its folders are gone.
      if (row > from) frontiers.push({ from, to: row, next: from });
      from = row;
    }
    next = row + 1;
  }
  frontiers.push({ from, to: rows, next });
  return frontiers.filter((frontier) => frontier.to > frontier.from);
}

export interface MissingContext {
  readonly frontiers: readonly Frontier[];
  readonly concurrency: number;
  readonly running: boolean;
  /** Rows that have a temporary of ours beside their place. */
  readonly hasTemporary: (row: number) => boolean;
}

/** Why each row without a file has none; `ledger` is the journal's word. Rows must come in ascending order. */
export function missingReasoner(
  context: MissingContext,
): (row: number, ledger: string) => { reason: Reason<'missing'>; inferred: boolean } {
  let at = 0;
  return (row, ledger) => {
    switch (ledger) {
      case 'committed':
        return { reason: 'lost', inferred: false };
      case 'accepted':
        return { reason: 'accepted', inferred: false };
      case 'tried':
      case 'failed':
        return { reason: 'failed', inferred: false };
      case 'set-aside':
        // It was there, and repair took it away because it was bad.
        return { reason: 'lost', inferred: false };
    }
    if (context.hasTemporary(row)) return { reason: 'in-flight', inferred: false };
    let frontier = context.frontiers[at];
    while (frontier !== undefined && row >= frontier.to) {
      at += 1;
      frontier = context.frontiers[at];
    }
    if (frontier === undefined || row >= frontier.next) return { reason: 'never-started', inferred: false };
    if (row >= frontier.next - context.concurrency) return { reason: 'in-flight', inferred: true };
    return { reason: 'failed', inferred: true };
  };
}

/** Files on either side of a hole that are compared by time: one alone may be out of order. */
const FILES_COMPARED = 5;
const PAUSE_FACTOR = 20;
const PAUSE_LEAST_MS = 60_000;
const SLACK_LEAST_MS = 2000;

/**
 * Whether the files behind a hole were written right after those before it: the same writer went on, and what lies between failed.
 * Two writers of one tree wrote at the same time; one that was started anew further on wrote after a pause.
 *
 * @param usualGapMs the usual distance in time of two files of the tree; 0 where times say nothing
 */
export function sameWriterBy(
  modifiedMs: (row: number) => number,
  rows: number,
  usualGapMs: number,
): (before: number, after: number) => boolean {
  const median = (from: number, step: 1 | -1): number | null => {
    const times: number[] = [];
    for (let row = from, looked = 0; row >= 0 && row < rows && looked < 4 * FILES_COMPARED && times.length < FILES_COMPARED; row += step) {
      const ms = modifiedMs(row);
      looked += 1;
      if (ms > 0) times.push(ms);
    }
    return times.sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? null;
  };
  return (before, after) => {
    if (usualGapMs <= 0) return false;
    const [early, late] = [median(before, -1), median(after, 1)];
    if (early === null || late === null) return false;
    const passed = late - early;
    const most = Math.max(PAUSE_LEAST_MS, PAUSE_FACTOR * usualGapMs, 2 * (after - before) * usualGapMs);
    return passed > -Math.max(SLACK_LEAST_MS, PAUSE_FACTOR * usualGapMs) && passed <= most;
  };
}
