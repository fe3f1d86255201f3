import { describe, expect, it } from 'vitest';
import { driftOf } from './drift.ts';
import { kindOfForeign } from './extras.ts';
import { frontiersOf, missingReasoner } from './frontiers.ts';
import { readTimes } from './times.ts';

describe('frontiers', () => {
  const has =
    (...ranges: [number, number][]) =>
    (row: number) =>
      ranges.some(([from, to]) => row >= from && row < to);

  it('sees one writer with failures behind it, and two where a long stretch is empty', () => {
    expect(frontiersOf(has([0, 50], [51, 300]), 1000, 64)).toEqual([{ from: 0, to: 1000, next: 300 }]);
    expect(frontiersOf(has([0, 300], [500, 700]), 1000, 64)).toEqual([
      { from: 0, to: 500, next: 300 },
      { from: 500, to: 1000, next: 700 },
    ]);
    expect(frontiersOf(has(), 10, 64)).toEqual([{ from: 0, to: 10, next: 0 }]);
    expect(frontiersOf(has([200, 300]), 400, 64)).toEqual([
      { from: 0, to: 200, next: 0 },
      { from: 200, to: 400, next: 300 },
    ]);
  });

  it('tells in flight, failed and never started apart', () => {
    const reason = missingReasoner({
      frontiers: [{ from: 0, to: 1000, next: 300 }],
      concurrency: 64,
      running: false,
      hasTemporary: () => false,
    });
    expect(reason(100, 'none')).toEqual({ reason: 'failed', inferred: true });
    expect(reason(235, 'none')).toEqual({ reason: 'failed', inferred: true });
    expect(reason(236, 'none')).toEqual({ reason: 'in-flight', inferred: true });
    expect(reason(299, 'failed')).toEqual({ reason: 'failed', inferred: false });
    expect(reason(300, 'none')).toEqual({ reason: 'never-started', inferred: false });
    expect(reason(301, 'accepted')).toEqual({ reason: 'accepted', inferred: false });
  });
});

describe('times', () => {
  const start = Date.UTC(2026, 2, 14);
  const now = Date.UTC(2026, 2, 20);

  it('keeps the pace while files came apart from the pace with the pauses', () => {
    const busy = Array.from({ length: 1000 }, (_, at) => start + at * 1000 + (at >= 500 ? 3_600_000 : 0));
    const seen = readTimes(Float64Array.from(busy), now, 'test');
    expect(seen?.rates.map((rate) => Number(rate.perSecond.toFixed(2)))).toEqual([1, 0.22]);
    const even = readTimes(Float64Array.from(busy.slice(0, 500)), now, 'test');
    expect(even?.rates).toHaveLength(1);
  });

  it('believes no times that are those of a copy or of a wrong clock', () => {
    const copied = Float64Array.from({ length: 5000 }, (_, at) => start + at * 0.1);
    expect(readTimes(copied, now, 'test')?.implausible).toContain('copy');
    expect(readTimes(Float64Array.of(start, now + 86_400_000), now, 'test')?.implausible).toContain('future');
    expect(readTimes(Float64Array.of(0, 1), now, 'test')?.implausible).toContain('1970');
    expect(readTimes(new Float64Array(16).fill(start), now, 'test')?.implausible).toBe(
      '16 of 16 files are dated 2026-03-14T00:00:00.000Z: the times were set, by a copy or an archive',
    );
    // A run that was unpacked with one time for all, and went on for a while.
    const unpacked = Float64Array.from({ length: 200 }, (_, at) => start + Math.max(0, at - 110) * 1000);
    expect(readTimes(unpacked, now, 'test')?.implausible).toMatch(/^111 of 200 files are dated 2026-03-14/);
    expect(readTimes(new Float64Array(), now, 'test')).toBeNull();
  });

  it('believes those of few files, of whole seconds, and of a clock that is minutes off', () => {
    expect(readTimes(new Float64Array(15).fill(start), now, 'test')?.implausible).toBeNull();
    const whole = Float64Array.from({ length: 400 }, (_, at) => start + Math.floor(at / 20) * 1000);
    expect(readTimes(whole, now, 'test')?.implausible).toBeNull();
    expect(readTimes(Float64Array.of(start, now + 4 * 60_000), now, 'test')?.implausible).toBeNull();
  });
});

describe('drift', () => {
  const rows = 20;
  const id = (row: number): string => `id${row}`;
  const table = {
    rows,
    root: '',
    at: (row: number) => ({ identity: id(row), stripped: id(row), mask: '', tokens: 1, strippedTokens: 1, lossTokens: 1 }),
    isDropped: () => false,
  };

  it('names a shift by where it begins and how far it goes', () => {
    const drift = driftOf(new Map([[4, 'gone'], ...Array.from({ length: 15 }, (_, at): [number, string] => [5 + at, id(4 + at)])]), table);
    expect(drift.shifts).toEqual([{ from: 5, to: 20, by: -1, count: 15 }]);
    expect(drift.shifted.has(4)).toBe(true);
    expect(drift.holds.get(10)).toBe(9);
  });

  it('calls two exchanged files no shift', () => {
    const drift = driftOf(
      new Map([
        [3, id(7)],
        [7, id(3)],
      ]),
      table,
    );
    expect(drift.shifts).toEqual([]);
    expect([...drift.shifted]).toEqual([]);
  });
});

it('tells foreign names apart', () => {
  expect(kindOfForeign('', '.nfs000000000a3c1b4400000012')).toBe('temp');
  expect(kindOfForeign('rows_0-5', '.tmpAb3xYz')).toBe('temp');
  expect(kindOfForeign('rows_0-5', 'data_7.ckpt.lock')).toBe('lock');
  expect(kindOfForeign('rows_0-5', 'data_7.ckpt~')).toBe('backup');
  expect(kindOfForeign('rows_0-5', 'data_07.ckpt')).toBe('off-pattern');
  expect(kindOfForeign('lost+found', '#12')).toBe('lost+found');
  expect(kindOfForeign('', 'notes.txt')).toBe('other');
});
