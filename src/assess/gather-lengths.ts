import { assert } from '../core/assert.ts';
import type { TensorInfo } from '../format/tensors.ts';
import type { Layout } from '../store/store.ts';
import { packFacts, unpackFacts } from './facts.ts';
import type { LengthsSeen, RowLookup } from './gathered.ts';
import { DEPTH, type RowColumns } from './row-columns.ts';

/** Files without ids are a writer's way where so many lack them; a single one is a file with a tensor missing. */
const LACKING_SHARE = 2 / 3;
/** So far a row may have moved in the dataset to be found by lengths. */
const SHIFT_MOST = 64;
/** Neighbours that must agree on the distance: one length alone is like many others. */
const NEIGHBOURS = 12;

/**
 * How many tokens a file holds that has no token ids and fits in all else; null for any other file. Asks the layout about the same
 * tensors with ids of the right length beside them.
 */
export function tokensWithoutIds(layout: Layout, tensors: ReadonlyMap<string, TensorInfo>): number | null {
  if (tensors.has(layout.idsTensor)) return null;
  const states = layout.stateTensors.map((name) => tensors.get(name)).find((tensor) => tensor !== undefined);
  if (states === undefined) return null;
  const tokens = (states.shape.length > 2 && states.shape[0] === 1 ? states.shape[1] : states.shape[0]) ?? 0;
  const whole = new Map(tensors);
  for (const name of [layout.idsTensor, layout.maskTensor]) {
    if (name === null || whole.has(name)) continue;
    const tensor: TensorInfo = {
      name,
      dtype: 'I64',
      shape: [tokens],
      stride: [1],
      contiguous: true,
      fileOffset: 0,
      bytes: 8 * tokens,
      record: null,
    };
    whole.set(name, tensor);
  }
  return layout.misfit(whole, { tokens: null, width: null, auxiliaryLayers: null }) === null ? tokens : null;
}

/**
 * Where a whole tree has no token ids, its files are matched with rows by the sequence of lengths: as long as its row is no proof but no
 * contradiction either, shorter is another row. Changes the facts in the columns; again after a row was read again.
 */
export function applyLengths(columns: RowColumns, table: RowLookup | null): LengthsSeen | null {
  const lacking: number[] = [];
  let readable = 0;
  for (let row = 0; row < columns.rows; row += 1) {
    if (unpackFacts(columns.facts[row] ?? 0).readable === 'yes') readable += 1;
    if (((columns.depth[row] ?? 0) & DEPTH.noIds) !== 0) lacking.push(row);
  }
  if (lacking.length === 0 || lacking.length < readable * LACKING_SHARE) return null;
  const seen = { files: lacking.length, equal: 0, longer: 0, others: 0 };
  for (const row of lacking) {
    const tokens = columns.fileTokens[row] ?? 0;
    const wanted = table === null ? null : table.at(row);
    const facts = unpackFacts(columns.facts[row] ?? 0);
    // Right padding makes a file longer than its row.
    const shorter = wanted !== null && tokens < wanted.tokens;
    columns.facts[row] = packFacts({ ...facts, shape: 'fits', ids: shorter ? 'differ' : 'unknown' });
    if (columns.noteOf(row) === 'shape') columns.setNote(row, 'none', null);
    if (wanted === null || tokens === wanted.tokens) seen.equal += wanted === null ? 0 : 1;
    else if (shorter) seen.others += 1;
    else seen.longer += 1;
  }
  if (table !== null) markShifted(columns, table, lacking, seen);
  return seen;
}

/** Where neighbours have the lengths of rows one distance away and not of their own, they hold those rows, as far as lengths tell. */
function markShifted(
  columns: RowColumns,
  table: RowLookup,
  lacking: readonly number[],
  seen: { equal: number; longer: number; others: number },
): void {
  const fits = (at: number, by: number): boolean => {
    const row = lacking[at];
    if (row === undefined || row + by < 0 || row + by >= table.rows) return false;
    return table.at(row + by)?.tokens === columns.fileTokens[row];
  };
  const agrees = (at: number, by: number): boolean => {
    let [from, to] = [at, at];
    while (at - from < NEIGHBOURS && fits(from - 1, by)) from -= 1;
    while (to - at < NEIGHBOURS && fits(to + 1, by)) to += 1;
    return fits(at, by) && to - from + 1 >= Math.min(NEIGHBOURS, lacking.length);
  };
  let last = 0;
  for (const [at, row] of lacking.entries()) {
    if (fits(at, 0) && agrees(at, 0)) continue;
    const by = agrees(at, last) ? last : (distances().find((distance) => agrees(at, distance)) ?? 0);
    if (by === 0) continue;
    last = by;
    const held = table.at(row + by);
    assert(held !== null, 'a row that fits has a length');
    const facts = unpackFacts(columns.facts[row] ?? 0);
    if (facts.ids !== 'differ') {
      seen.others += 1;
      if (table.at(row)?.tokens === columns.fileTokens[row]) seen.equal -= 1;
      else seen.longer -= 1;
    }
    columns.facts[row] = packFacts({ ...facts, ids: 'differ' });
    columns.otherIds.set(row, held.stripped);
  }
}

function distances(): number[] {
  return Array.from({ length: SHIFT_MOST }, (_, at) => at + 1).flatMap((by) => [by, -by]);
}
