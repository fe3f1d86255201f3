import { type IndexRange, rangesOf } from '../core/ranges.ts';
import type { Placement } from '../core/report.ts';
import { driftOf } from './drift.ts';
import { packFacts, unpackFacts } from './facts.ts';
import type { Gathered } from './gathered.ts';
import { type Numbering, numberingOf, type RankRule, rowUnder } from './numbering.ts';
import { RowColumns } from './row-columns.ts';

/** A tree whose numbers are no row numbers, turned so that each row has the facts of the file that holds it. */
export interface Placed {
  readonly numbering: Numbering;
  /** Facts by file number, as they were read. */
  readonly byNumber: RowColumns;
  /** Number of the file that holds a row; -1 where none does. */
  readonly fileOf: Int32Array;
  /** Numbers of further files with a row that another file holds. */
  readonly copies: readonly number[];
  /** Numbers whose file has no readable ids and no place under a rule. */
  readonly untold: readonly number[];
}

/**
 * Rows by content: where the numbers of a foreign tree are a permutation of the rows, each row's facts become those of the file
 * that holds it, under whatever number. A run of ours names its files by row, so there another row is damage and stays it.
 */
export function placeByContent(gathered: Gathered): Gathered {
  const table = gathered.dataset?.table;
  const { columns } = gathered;
  if (gathered.ledger !== null || table === undefined || columns.otherIds.size === 0) return gathered;
  const drift = driftOf(columns.otherIds, table);
  const numbering = numberingOf({
    matching: matchingIn(columns),
    otherIds: columns.otherIds,
    held: drift.holds,
    shifted: drift.shifted,
    table,
  });
  if (numbering === null) return gathered;
  const placed = new RowColumns(columns.rows);
  placed.shapes.push(...columns.shapes.slice(1));
  const fileOf = new Int32Array(columns.rows).fill(-1);
  const copies: number[] = [];
  const put = (number: number, row: number): boolean => {
    if (fileOf[row] !== -1) return false;
    fileOf[row] = number;
    placed.copyRow(columns, number, row);
    return true;
  };
  for (const [number, row] of numbering.holds) {
    if (!put(number, row)) copies.push(number);
    else placed.facts[row] = packFacts({ ...unpackFacts(placed.facts[row] ?? 0), ids: 'match' });
  }
  const strangers = new Set(numbering.strangers);
  const untold: number[] = [];
  for (let number = 0; number < columns.rows; number += 1) {
    if (numbering.holds.has(number) || strangers.has(number) || unpackFacts(columns.facts[number] ?? 0).file === 'no') continue;
    // No ids could be read. Where a rule says which row belongs here, its damage is that row's.
    const row = numbering.rule === null ? null : rowUnder(numbering.rule, number, columns.rows);
    if (row === null || !put(number, row)) untold.push(number);
  }
  return { ...gathered, columns: placed, placed: { numbering, byNumber: columns, fileOf, copies: copies.sort((a, b) => a - b), untold } };
}

function matchingIn(columns: RowColumns): number[] {
  const rows: number[] = [];
  for (let row = 0; row < columns.rows; row += 1) if (unpackFacts(columns.facts[row] ?? 0).ids === 'match') rows.push(row);
  return rows;
}

/** Why a row that no file holds has none, as far as the rule tells: how far its rank came, in places of its share. */
export function missingByRule(
  rule: RankRule,
  row: number,
  concurrency: number,
): { readonly reason: 'never-started' | 'in-flight' | 'failed'; readonly inferred: boolean } {
  const reached = rule.reached[row % rule.ranks] ?? 0;
  const place = Math.floor(row / rule.ranks);
  if (place >= reached) return { reason: 'never-started', inferred: false };
  return place >= reached - concurrency ? { reason: 'in-flight', inferred: true } : { reason: 'failed', inferred: true };
}

const HOLDS_MOST = 10_000;

/** The report's account of it. */
export function placementOf(placed: Placed): Placement {
  const { rule, holds, strangers } = placed.numbering;
  const runs: [number, number, number, number][] = [];
  let leftOut = 0;
  for (const [number, row] of holds) {
    const last = runs.at(-1);
    if (last !== undefined && last[1] === number && extend(last, row)) continue;
    if (runs.length < HOLDS_MOST) runs.push([number, number + 1, row, 1]);
    else leftOut += 1;
  }
  return {
    kind: rule === null ? 'permuted' : 'round-robin',
    ranks: rule?.ranks ?? null,
    starts: rule?.starts ?? [],
    batch: rule?.batches.length === 1 ? (rule.batches[0] ?? null) : null,
    holds: runs,
    holdsLeftOut: leftOut,
    strangers: sortedRanges([...strangers, ...placed.untold]),
    copies: rangesOf(placed.copies),
  };
}

/** One more file in a stretch of equal steps; the second one sets the step. */
function extend(run: [number, number, number, number], row: number): boolean {
  const count = run[1] - run[0];
  if (count === 1) run[3] = row - run[2];
  else if (row !== run[2] + count * run[3]) return false;
  run[1] += 1;
  return true;
}

function sortedRanges(rows: readonly number[]): IndexRange[] {
  return rangesOf([...rows].sort((a, b) => a - b));
}
