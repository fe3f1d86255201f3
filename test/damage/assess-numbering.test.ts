import { describe, expect, it } from 'vitest';
import { indicesOf } from '../../src/core/ranges.ts';
import { exitOf } from '../../src/recover/planner.ts';
import { FOLDER, find, idsOf, layout, look, rowsOf, sums, type TreeFile, treeOf } from './assess-tree.ts';

/** SpecForge's sampler and start-index rule: the rows are dealt in turn, each rank numbers its own block, incomplete batches are dropped. */
function roundRobin(rows: number, ranks: number, batch: number): TreeFile[] {
  const files = new Map<number, TreeFile>();
  const share = Math.ceil(rows / ranks);
  for (let rank = 0; rank < ranks; rank += 1) {
    const start = rank * Math.floor(rows / ranks) + Math.min(rank, rows % ranks);
    const kept = batch === 1 ? share : share - (share % batch);
    for (let place = 0; place < kept; place += 1) {
      files.set(start + place, { number: start + place, ids: idsOf((rank + ranks * place) % rows) });
    }
  }
  return [...files.values()];
}

describe('a tree whose numbers are not row numbers', () => {
  it('is recognised as dealt to ranks, with the tails that were dropped', async () => {
    const files = roundRobin(236, 4, 32);
    expect(files).toHaveLength(128);
    const report = await look(await treeOf(files), { rows: rowsOf(236) });
    expect(report.totals).toMatchObject({ rows: 236, files: 128, sound: 128, missing: 108, drifted: 0 });
    expect(sums(report)).toEqual({ rows: 236, missing: 108 });
    expect(report.missing['never-started']).toBe(108);
    expect(report.placement).toMatchObject({
      kind: 'round-robin',
      ranks: 4,
      starts: [0, 59, 118, 177],
      batch: 32,
      strangers: [],
      copies: [],
    });
    // What is left is told by content: the last rows of the dataset, not the free numbers.
    const held = new Set(files.map((file) => file.ids?.[0] ?? 0));
    const left = [...indicesOf(report.plan.extract.ranges)];
    expect(left).toEqual(Array.from({ length: 236 }, (_, row) => row).filter((row) => !held.has(idsOf(row)[0] ?? 0)));
    const found = find(report, 'TM-S16');
    expect(found?.severity).toBe('warning');
    expect(found?.evidence).toContain('a batch of 32');
    expect(found?.ranges).toEqual(report.plan.extract.ranges);
    expect(report.plan.blockers).toEqual([]);
    expect(exitOf(report)).toBe(3);
  });

  it('says which file holds which row', async () => {
    const report = await look(await treeOf(roundRobin(200, 2, 4)), { rows: rowsOf(200) });
    expect(report.placement?.holds).toEqual([
      [0, 100, 0, 2],
      [100, 200, 1, 2],
    ]);
    expect(report.totals.sound).toBe(200);
    expect(exitOf(report)).toBe(0);
  });

  it('is told where two ranks wrote the same names', async () => {
    // 37,313 rows on 8 ranks in small: one row too many makes six ranks end where the next one began.
    const files = roundRobin(161, 8, 1);
    const report = await look(await treeOf(files), { rows: rowsOf(161) });
    expect(report.placement).toMatchObject({ kind: 'round-robin', ranks: 8 });
    expect(sums(report).rows).toBe(161);
    expect(report.totals.drifted).toBe(0);
    const held = new Set(files.filter((file) => file.number < 161).map((file) => file.ids?.[0] ?? 0));
    expect(report.totals.sound).toBe(held.size);
  });

  it('has a frontier for each rank in time of a crash, and puts torn files where the rule says', async () => {
    // Three ranks that came 30, 28 and 90 places far; place 5 of rank 2 is cut, place 6 of rank 2 is missing.
    const reached = [30, 28, 90];
    const files = reached.flatMap((places, rank) =>
      Array.from({ length: places }, (_, place) => ({ number: rank * 100 + place, ids: idsOf(rank + 3 * place) })),
    );
    const host = await treeOf(files.filter((file) => file.number !== 206));
    const path = `${FOLDER}/${layout.pathOf(205)}`;
    const whole = (await host.files.readSmall(path, 1 << 20)) ?? new Uint8Array();
    await host.files.unlink(path);
    const file = await host.files.create(path, 0o644);
    await file.write(whole.subarray(0, whole.length - 40));
    await file.close();
    const report = await look(host, { rows: rowsOf(300) });
    expect(report.placement).toMatchObject({ kind: 'round-robin', ranks: 3, starts: [0, 100, 200], batch: null });
    expect(report.verdicts.find((group) => group.verdict === 'torn')?.ranges).toEqual([[17, 18]]);
    expect(report.totals).toMatchObject({ sound: 146, torn: 1, missing: 153 });
    // Row 20 is place 6 of rank 2, far behind that rank's 90 places.
    expect(report.verdicts.find((group) => group.reason === 'failed')?.ranges).toEqual([[20, 21]]);
    expect(report.missing['never-started']).toBe(152);
  });

  it('is a permutation without a rule where the dataset was put into another order', async () => {
    const order = Array.from({ length: 150 }, (_, row) => (row * 77 + 13 * (row % 2)) % 151).filter((row) => row < 150);
    const distinct = [...new Set(order)];
    const report = await look(await treeOf(distinct.map((row, number) => ({ number, ids: idsOf(row) }))), { rows: rowsOf(150) });
    expect(report.placement?.kind).toBe('permuted');
    expect(report.totals.sound).toBe(distinct.length);
    expect(sums(report)).toEqual({ rows: 150, missing: 150 - distinct.length });
    expect(find(report, 'TM-S03')).toBeUndefined();
  });

  it('counts files with a row that the dataset does not have, and calls that an error', async () => {
    const files = roundRobin(200, 2, 4).map((file) => (file.number === 150 ? { number: 150, ids: idsOf(9999) } : file));
    const report = await look(await treeOf(files), { rows: rowsOf(200) });
    expect(report.totals).toMatchObject({ sound: 199, missing: 1 });
    expect(report.placement?.strangers).toEqual([[150, 151]]);
    expect(find(report, 'TM-S16')?.severity).toBe('error');
  });

  it('reads the suspects of such a tree under their own names', async () => {
    const host = await treeOf(roundRobin(120, 3, 1));
    const report = await look(host, { rows: rowsOf(120), level: 'checksum' });
    expect(report.totals.sound).toBe(120);
    expect(report.digest).toMatch(/^[0-9a-f]{64}$/);
  });
});

describe('a shift of the dataset', () => {
  const drifted = (rows: readonly number[]): TreeFile[] => rows.map((row, number) => ({ number, ids: idsOf(row) }));
  const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);

  it('stays drift, with its start and distance', async () => {
    // The files are of the dataset as it was: rows 0 to 149. Row 40 was taken out of it since.
    const report = await look(await treeOf(drifted(range(0, 150))), { rows: rowsOf(150).filter((_, row) => row !== 40) });
    expect(report.placement).toBeNull();
    expect(find(report, 'TM-S03')?.evidence).toMatch(/from row 41 to \d+ the .* 1 before/);
    expect(report.verdicts.find((group) => group.reason === 'dataset-shift')?.holds?.at(0)).toEqual([41, 149, 40]);
    expect(exitOf(report)).toBe(4);
  });

  it('is several shifts where rows were taken out in several places, or put in', async () => {
    const without = rowsOf(150).filter((_, row) => row !== 40 && row !== 90);
    const twice = await look(await treeOf(drifted(range(0, 148))), { rows: without });
    expect(twice.verdicts.find((group) => group.reason === 'dataset-shift')?.holds).toEqual([
      [41, 90, 40],
      [91, 148, 89],
    ]);
    const inserted = [...rowsOf(50), idsOf(5000), ...rowsOf(150).slice(50)];
    const one = await look(await treeOf(drifted(range(0, 150))), { rows: inserted });
    expect(one.placement).toBeNull();
    expect(find(one, 'TM-S03')?.evidence).toContain('from row 50 to 149 the 100 files hold the row 1 behind');
  });

  it('is no shift and no permutation where two files were exchanged', async () => {
    const files = range(0, 60).map((number) => ({ number, ids: idsOf(number === 7 ? 9 : number === 9 ? 7 : number) }));
    const report = await look(await treeOf(files), { rows: rowsOf(60) });
    expect(report.placement).toBeNull();
    expect(report.verdicts.find((group) => group.verdict === 'drifted')).toMatchObject({
      reason: 'other-row',
      holds: [
        [7, 8, 9],
        [9, 10, 7],
      ],
    });
  });
});
