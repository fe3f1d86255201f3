import type { RowLookup } from './gathered.ts';

export interface Drift {
  /** For each drifted row, the row that its file holds; null when no row of the dataset has these ids. */
  readonly holds: ReadonlyMap<number, number | null>;
  /** Drifted rows that are part of a shift; the others hold just another row. */
  readonly shifted: ReadonlySet<number>;
  /** Where whole stretches moved by one distance, ascending. */
  readonly shifts: readonly { readonly from: number; readonly to: number; readonly by: number; readonly count: number }[];
}

/** So many rows off by the same distance are no accident. */
const SHIFT_LEAST = 3;
/** A file whose row is gone belongs to the shift that begins this near. */
const NEAR_ROWS = 64;

/**
 * What the drifted files hold instead, and whether it is a shift: rows inserted into or taken out of the dataset move
 * all later ones by one distance.
 *
 * @param otherIds of each drifted row the stripped identity that its file holds
 */
export function driftOf(otherIds: ReadonlyMap<number, string>, table: RowLookup | null): Drift {
  const rows = [...otherIds.keys()].sort((a, b) => a - b);
  const holds = new Map<number, number | null>();
  if (rows.length > 0 && table !== null) {
    const byIdentity = new Map<string, number>();
    const asked = new Set(otherIds.values());
    for (let row = table.rows - 1; row >= 0; row -= 1) {
      const wanted = table.at(row);
      if (wanted !== null && asked.has(wanted.stripped)) byIdentity.set(wanted.stripped, row);
    }
    let last = 0;
    for (const row of rows) {
      const ids = otherIds.get(row) ?? '';
      // Equal rows exist: the one at the distance of the file before is the likelier one.
      const near = row + last >= 0 && row + last < table.rows && table.at(row + last)?.stripped === ids;
      const held = near ? row + last : (byIdentity.get(ids) ?? null);
      holds.set(row, held);
      if (held !== null) last = held - row;
    }
  } else {
    for (const row of rows) holds.set(row, null);
  }
  return { holds, ...shiftsOf(rows, holds) };
}

/**
 * Stretches of rows that are off by one distance. A stretch, not a count: where the rows were dealt to several ranks the same
 * distance turns up here and there by chance, and that is no shift (numbering.ts).
 */
function shiftsOf(rows: readonly number[], holds: ReadonlyMap<number, number | null>): Pick<Drift, 'shifted' | 'shifts'> {
  const runs: { by: number; rows: number[] }[] = [];
  for (const row of rows) {
    const held = holds.get(row) ?? null;
    if (held === null || held === row) continue;
    const last = runs.at(-1);
    if (last !== undefined && last.by === held - row) last.rows.push(row);
    else runs.push({ by: held - row, rows: [row] });
  }
  const shifted = new Set<number>();
  const shifts: { from: number; to: number; by: number; count: number }[] = [];
  for (const run of runs) {
    if (run.rows.length < SHIFT_LEAST) continue;
    for (const row of run.rows) shifted.add(row);
    const from = run.rows[0] ?? 0;
    const to = (run.rows.at(-1) ?? 0) + 1;
    const last = shifts.at(-1);
    // Files exchanged in the middle of a shift do not make it two.
    if (last !== undefined && last.by === run.by) shifts[shifts.length - 1] = { ...last, to, count: last.count + run.rows.length };
    else shifts.push({ from, to, by: run.by, count: run.rows.length });
  }
  // A short run of a distance that is a shift's belongs to it; the row that was taken out of the dataset has a file
  // right before the shift, and no row to hold.
  for (const row of rows) {
    const held = holds.get(row) ?? null;
    const near = shifts.filter((shift) => row >= shift.from - NEAR_ROWS && row < shift.to + NEAR_ROWS);
    if (held === null ? near.length > 0 : near.some((shift) => shift.by === held - row)) shifted.add(row);
  }
  return { shifted, shifts };
}
