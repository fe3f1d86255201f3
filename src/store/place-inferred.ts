import type { UnplacedFile } from './place.ts';

/** Fewer known files than this show no rule. */
const KNOWN_LEAST = 3;
/** So many of a writer's neighbours must keep the same distance. */
const RULE_SHARE = 0.9;
/** A file further than this from every known one of its writer stays without a row. */
const AWAY_MOST = 1024;

/**
 * Rows of files whose ids tell none: a torn file of a writer that numbers its rows by a rule (every row, or every third one
 * of three ranks) has the row that the rule gives it, if no other file has it.
 *
 * @param found in the order of writers and numbers
 * @param rowOfFile the row of each, null where its ids do not tell
 */
export function inferRows(
  found: readonly UnplacedFile[],
  rowOfFile: readonly (number | null)[],
  options: { readonly rows: number; readonly taken: (row: number) => boolean; readonly isCopy: (path: string) => boolean },
): Map<number, string> {
  const inferred = new Map<number, string>();
  for (let from = 0; from < found.length; ) {
    let to = from + 1;
    while (to < found.length && found[to]?.writer === found[from]?.writer) to += 1;
    const step = stepOf(found, rowOfFile, from, to);
    for (let at = from; step !== null && at < to; at += 1) {
      const file = found[at];
      if (file === undefined || file.number === null || rowOfFile[at] !== null || options.isCopy(file.path)) continue;
      const near = nearestKnown(found, rowOfFile, { at, from, to });
      if (near === null) continue;
      const row = near.row + (file.number - near.number) * step;
      if (row >= 0 && row < options.rows && !options.taken(row) && !inferred.has(row)) inferred.set(row, file.path);
    }
    from = to;
  }
  return inferred;
}

/** Rows from one number to the next, if nearly all neighbours of a writer agree. */
function stepOf(found: readonly UnplacedFile[], rowOfFile: readonly (number | null)[], from: number, to: number): number | null {
  const steps = new Map<number, number>();
  let last: { number: number; row: number } | null = null;
  let known = 0;
  for (let at = from; at < to; at += 1) {
    const [number, row] = [found[at]?.number ?? null, rowOfFile[at] ?? null];
    if (number === null || row === null) continue;
    known += 1;
    if (last !== null && number > last.number) {
      const step = (row - last.row) / (number - last.number);
      steps.set(step, (steps.get(step) ?? 0) + 1);
    }
    last = { number, row };
  }
  if (known < KNOWN_LEAST) return null;
  const [step, count] = [...steps].sort((a, b) => b[1] - a[1])[0] ?? [0, 0];
  return Number.isInteger(step) && step > 0 && count >= (known - 1) * RULE_SHARE ? step : null;
}

/** Looks both ways among the writer's own files. */
function nearestKnown(
  found: readonly UnplacedFile[],
  rowOfFile: readonly (number | null)[],
  place: { readonly at: number; readonly from: number; readonly to: number },
): { readonly number: number; readonly row: number } | null {
  for (let away = 1; away <= AWAY_MOST; away += 1) {
    for (const at of [place.at - away, place.at + away]) {
      if (at < place.from || at >= place.to) continue;
      const [number, row] = [found[at]?.number ?? null, rowOfFile[at] ?? null];
      if (number !== null && row !== null) return { number, row };
    }
  }
  return null;
}
