import { describe, expect, it } from 'vitest';
import { exitOf } from '../../src/recover/planner.ts';
import { find, idsOf, look, rowsOf, sums, timed, treeOf } from './assess-tree.ts';

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);

describe('rows that the writer cut', () => {
  // Every third row has 20 tokens, the others fewer than the limit of 8.
  const rows = range(0, 60).map((row) => idsOf(row, row % 3 === 0 ? 20 : 3 + (row % 4)));
  const cut = range(0, 60).map((number) => ({ number, ids: (rows[number] ?? new Uint32Array()).subarray(0, 8) }));

  it('are a policy and no damage where the ids are the row\u2019s own first ones', async () => {
    const report = await look(await treeOf(cut), { rows });
    expect(report.totals).toMatchObject({ sound: 60, drifted: 0 });
    const found = find(report, 'TM-S17');
    expect(found?.title).toContain('20 files are cut at 8 tokens');
    expect(found?.ranges).toHaveLength(20);
    expect(report.plan.blockers).toEqual([]);
    expect(exitOf(report)).toBe(0);
  });

  it('stay files of other rows where nothing could compare them, and the finding says why', async () => {
    const report = await look(await treeOf(cut), { rows, canReadRows: false });
    expect(report.totals.drifted).toBe(20);
    expect(find(report, 'TM-S17')?.evidence).toContain('could not be read again');
    expect(exitOf(report)).toBe(4);
  });

  it('are files of other rows where the ids are others, or the lengths have no common end', async () => {
    const others = cut.map((file) => (file.number % 3 === 0 ? { number: file.number, ids: idsOf(file.number + 500, 8) } : file));
    const foreign = await look(await treeOf(others), { rows });
    expect(foreign.totals.drifted).toBe(20);
    expect(find(foreign, 'TM-S17')).toBeUndefined();
    const ragged = range(0, 60).map((number) => ({ number, ids: (rows[number] ?? new Uint32Array()).subarray(0, 8 + (number % 9)) }));
    expect(find(await look(await treeOf(ragged), { rows }), 'TM-S17')).toBeUndefined();
  });
});

describe('last states of two kinds', () => {
  it('are found by their size, with the row where one gives way to the other', async () => {
    const files = range(0, 200).map((number) => ({ number, size: number < 130 ? 1 + (number % 5) * 0.05 : 40 + (number % 7) * 4 }));
    const report = await look(await treeOf(files), { rows: rowsOf(200) });
    const found = find(report, 'TM-E03');
    expect(found?.severity).toBe('error');
    expect(found?.evidence).toContain('the kind changes at row 130');
    expect(found?.ranges?.every(([from]) => from >= 130)).toBe(true);
  });

  it('are found where they alternate, without a row', async () => {
    const files = range(0, 200).map((number) => ({ number, size: Math.floor(number / 7) % 3 === 0 ? 60 : 1 }));
    const found = find(await look(await treeOf(files), { rows: rowsOf(200) }), 'TM-E03');
    expect(found?.evidence).toContain('alternate');
  });

  it('are not guessed where sizes run into each other, or single files stand out', async () => {
    const smooth = range(0, 120).map((number) => ({ number, size: 1.03 ** number }));
    expect(find(await look(await treeOf(smooth), { rows: rowsOf(120) }), 'TM-E03')).toBeUndefined();
    const single = range(0, 120).map((number) => ({ number, size: number === 0 || number === 119 ? 100 : 1 }));
    expect(find(await look(await treeOf(single), { rows: rowsOf(120) }), 'TM-E03')).toBeUndefined();
  });
});

describe('holes', () => {
  it('of whole batches are clusters, and no second writer, where the files behind them came right after', async () => {
    const host = await treeOf([...range(0, 100), ...range(180, 240), ...range(248, 420)].map((number) => ({ number })));
    // One file each second, in order.
    const order = [...range(0, 100), ...range(180, 240), ...range(248, 420)];
    const report = await look(host, { rows: rowsOf(430), files: timed(host, (number) => order.indexOf(number)) });
    expect(report.frontiers).toEqual([{ from: 0, to: 430, next: 420 }]);
    expect(report.missing).toMatchObject({ failed: 88, 'never-started': 10 });
    expect(find(report, 'TM-S08')?.evidence).toContain('2 clusters of 8 to 80 rows, as when whole batches fail: 100-179, 240-247');
    expect(sums(report).missing).toBe(98);
  });

  it('as long are the room between two writers, where both began at once', async () => {
    const order = [...range(0, 100), ...range(180, 420)];
    const host = await treeOf(order.map((number) => ({ number })));
    const times = (number: number): number => (number < 100 ? number * 2 : number - 180);
    const report = await look(host, { rows: rowsOf(430), files: timed(host, times) });
    expect(report.frontiers).toEqual([
      { from: 0, to: 180, next: 100 },
      { from: 180, to: 430, next: 420 },
    ]);
    expect(report.missing).toMatchObject({ failed: 0, 'never-started': 90 });
  });
});

describe('files without token ids', () => {
  const lengthOf = (row: number): number => 3 + ((row * row * 7 + row * 3) % 11);
  const rows = range(0, 90).map((row) => idsOf(row, lengthOf(row)));
  const files = (list: readonly number[]) => list.map((row, number) => ({ number, ids: idsOf(row, lengthOf(row)), withoutIds: true }));

  it('are matched by the sequence of lengths, which is said and proves nothing', async () => {
    const report = await look(await treeOf(files(range(0, 80))), { rows });
    expect(report.verdicts.find((group) => group.verdict === 'sound')).toMatchObject({ reason: 'unprovable', count: 80 });
    expect(find(report, 'TM-D05')?.evidence).toContain('80 are as long as their row, 0 longer');
    expect(report.totals).toMatchObject({ sound: 80, missing: 10 });
    expect(find(report, 'TM-S11')).toBeUndefined();
  });

  it('are told from a shifted dataset all the same', async () => {
    const report = await look(await treeOf(files(range(0, 80).map((row) => (row < 30 ? row : row + 1)))), { rows });
    const [first] = report.verdicts.find((group) => group.reason === 'dataset-shift')?.holds ?? [];
    // One length more may be equal by chance.
    expect(first?.[0]).toBeGreaterThanOrEqual(30);
    expect(first?.[0]).toBeLessThan(33);
    expect(first?.[2]).toBe((first?.[0] ?? 0) + 1);
    expect(exitOf(report)).toBe(4);
  });

  it('have no row at all without a dataset, and a single one is a file with a tensor missing', async () => {
    const none = await look(await treeOf(files(range(0, 20))), { rows: null });
    expect(none.totals.sound).toBe(20);
    expect(find(none, 'TM-D05')?.evidence).toContain('no dataset');
    expect(exitOf(none)).toBe(4);
    const single = await look(await treeOf(range(0, 20).map((number) => ({ number, withoutIds: number === 7 }))), { rows: rowsOf(20) });
    expect(single.verdicts.find((group) => group.verdict === 'poisoned')).toMatchObject({ reason: 'shape', ranges: [[7, 8]] });
    expect(find(single, 'TM-D05')).toBeUndefined();
  });
});

describe('without a dataset', () => {
  it('there is no percentage, nothing left to do, and never exit 0', async () => {
    const report = await look(await treeOf(range(0, 30).map((number) => ({ number }))), { rows: null });
    expect(report.dataset).toBeNull();
    expect(report.placement).toBeNull();
    expect(report.plan.extract).toMatchObject({ tokens: null, bytes: null });
    expect(find(report, 'TM-D01')).toBeDefined();
    expect(exitOf(report)).toBe(4);
  });
});
