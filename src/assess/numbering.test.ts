import { describe, expect, it } from 'vitest';
import { driftOf } from './drift.ts';
import { type Numbering, numberingOf, rowUnder } from './numbering.ts';

const id = (row: number): string => `id${row}`;

function tableOf(rows: number) {
  return {
    rows,
    root: '',
    at: (row: number) => ({ identity: id(row), stripped: id(row), mask: '', tokens: 1, strippedTokens: 1, lossTokens: 1 }),
    isDropped: () => false,
  };
}

/** The numbers and rows that SpecForge's sampler and start-index rule give. */
function files(rows: number, ranks: number, batch: number): Map<number, number> {
  const held = new Map<number, number>();
  const share = Math.ceil(rows / ranks);
  for (let rank = 0; rank < ranks; rank += 1) {
    const start = rank * Math.floor(rows / ranks) + Math.min(rank, rows % ranks);
    for (let place = 0; place < share - (share % batch); place += 1) held.set(start + place, (rank + ranks * place) % rows);
  }
  return held;
}

function look(rows: number, held: ReadonlyMap<number, number>): Numbering | null {
  const table = tableOf(rows);
  const inside = [...held].filter(([number]) => number < rows);
  const otherIds = new Map(inside.filter(([number, row]) => number !== row).map(([number, row]) => [number, id(row)]));
  const drift = driftOf(otherIds, table);
  const matching = inside.filter(([number, row]) => number === row).map(([number]) => number);
  return numberingOf({ matching, otherIds, held: drift.holds, shifted: drift.shifted, table });
}

describe('the numbers of a tree', () => {
  // The table of docs: rows, ranks, batch, files, numbers that are not rows, rows never extracted.
  it.each([
    [37_312, 2, 32, 37_312, 37_310, 0, []],
    [37_312, 4, 32, 37_248, 37_245, 64, [32]],
    [37_312, 8, 32, 37_120, 37_119, 192, [32]],
    [37_313, 8, 1, 37_314, 37_312, 0, []],
    [10, 4, 1, 11, 10, 0, []],
  ])('%i rows on %i ranks, batch %i', (rows, ranks, batch, count, moved, tail, batches) => {
    const held = files(rows, ranks, batch);
    expect(held.size).toBe(count);
    expect([...held].filter(([number, row]) => number !== row)).toHaveLength(moved);
    const seen = look(rows, held);
    expect(seen?.rule).toMatchObject({ ranks, tail, batches });
    if (seen?.rule == null) throw new Error('no rule');
    let told = 0;
    for (const [number, row] of held) if (rowUnder(seen.rule, number, rows) === row) told += 1;
    // Where two ranks wrote one name the later one won, and at the end the sampler begins anew.
    expect(told).toBeGreaterThanOrEqual(count - 2 * ranks);
  });

  it('are row numbers on one rank', () => {
    expect(look(37_312, files(37_312, 1, 32))).toBeNull();
  });

  it('have several batch sizes where several explain the tails', () => {
    expect(look(236, files(236, 4, 8))?.rule).toMatchObject({ tail: 12, batches: [4, 8] });
  });

  it('say nothing when only a few files hold another row', () => {
    const held = new Map(Array.from({ length: 100 }, (_, number) => [number, number < 30 ? 29 - number : number]));
    expect(look(100, held)).toBeNull();
  });
});
