import { isTidemarkError } from '../core/errors.ts';
import { identityOf } from '../core/identity.ts';
import { type IndexRange, rangesOf } from '../core/ranges.ts';
import { packFacts, unpackFacts } from './facts.ts';
import type { RowLookup, Truncation } from './gathered.ts';
import type { RowColumns } from './row-columns.ts';

/** Fewer cut files are accidents. */
const FILES_LEAST = 3;
/** So many of the drifted files whose row is longer must be cut at the one length. */
const COMMON_SHARE = 0.9;
/** Reading a row again costs a read and perhaps a tokenisation; beyond this the rest is said to be not compared. */
const ROWS_COMPARED_MOST = 20_000;

/**
 * Looks whether the files that hold other ids than their rows are the rows' own ids, cut at one common length. What is compared and
 * fits counts as a match; what is cut at that length and was not compared has ids of which nothing is known.
 *
 * @param readRow ids of one row of the dataset, or null where it cannot be read again
 */
export async function gatherTruncation(
  columns: RowColumns,
  table: RowLookup | null,
  readRow: ((row: number) => Promise<Uint32Array>) | null,
): Promise<Truncation | null> {
  if (table === null) return null;
  const lengths = new Map<number, number[]>();
  let longer = 0;
  let longest = 0;
  for (const row of columns.otherIds.keys()) {
    const held = columns.fileTokens[row] ?? 0;
    longest = Math.max(longest, held);
    if (held >= (table.at(row)?.tokens ?? 0)) continue;
    longer += 1;
    const list = lengths.get(held);
    if (list === undefined) lengths.set(held, [row]);
    else list.push(row);
  }
  const [tokens, rows] = [...lengths].sort((a, b) => b[1].length - a[1].length)[0] ?? [0, []];
  // A limit on tokens leaves no file that is longer.
  if (rows.length < FILES_LEAST || rows.length < longer * COMMON_SHARE || longest > tokens) return null;
  const cut = [...rows].sort((a, b) => a - b);
  if (readRow === null) return { tokens, proved: [], unproved: rangesOf(cut), why: 'the rows of the dataset could not be read again here' };
  const proved: number[] = [];
  const unproved: number[] = [];
  let differ = 0;
  for (const row of cut) {
    if (proved.length + differ >= ROWS_COMPARED_MOST) unproved.push(row);
    else if (await isPrefix(columns, row, tokens, readRow)) proved.push(row);
    else differ += 1;
  }
  if (proved.length < FILES_LEAST || proved.length < (proved.length + differ) * COMMON_SHARE) return null;
  return { tokens, proved: rangesOf(proved), unproved: rangesOf(unproved), why: null };
}

async function isPrefix(
  columns: RowColumns,
  row: number,
  tokens: number,
  readRow: (row: number) => Promise<Uint32Array>,
): Promise<boolean> {
  try {
    const ids = await readRow(row);
    return ids.length > tokens && identityOf(ids.subarray(0, tokens)) === columns.otherIds.get(row);
  } catch (error) {
    // A row that cannot be read proves nothing; its file stays one with other ids.
    if (!isTidemarkError(error)) throw error;
    return false;
  }
}

/** Marks the rows in the columns; again after a row was read again. */
export function applyTruncation(columns: RowColumns, truncation: Truncation | null): void {
  if (truncation === null || truncation.why !== null) return;
  const mark = (ranges: readonly IndexRange[], ids: 'match' | 'unknown'): void => {
    for (const [from, to] of ranges) {
      for (let row = from; row < to; row += 1) {
        const facts = unpackFacts(columns.facts[row] ?? 0);
        if (facts.ids !== 'differ') continue;
        columns.facts[row] = packFacts({ ...facts, ids });
        columns.otherIds.delete(row);
        if (columns.noteOf(row) === 'none') columns.setNote(row, 'none', null);
      }
    }
  };
  mark(truncation.proved, 'match');
  mark(truncation.unproved, 'unknown');
}
