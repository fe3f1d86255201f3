import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type IndexRange, rangesOf } from '../core/ranges.ts';
import type { Report } from '../core/report.ts';
import { VERDICT_KINDS } from '../core/verdict.ts';
import { evenBounds, folderBounds, rowParts } from './row-parts.ts';

/** Only what is looked at here. */
const reportOf = (parts: Pick<Report, 'verdicts'> | Pick<Report, 'folders' | 'totals'>): Report => parts as Report;

describe('parts of the rows', () => {
  it('hold each row once, whatever the verdicts are', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(VERDICT_KINDS.length - 1), { minLength: 1, maxLength: 300 }),
        fc.integer({ min: 1, max: 40 }),
        (kinds, most) => {
          const verdicts = VERDICT_KINDS.map((verdict, kind) => {
            const ranges = rangesOf(kinds.flatMap((one, row) => (one === kind ? [row] : [])));
            return { verdict, reason: 'checked' as const, ranges, count: 0 };
          });
          const bounds = evenBounds(kinds.length, most);
          for (const part of rowParts(reportOf({ verdicts }), bounds)) {
            for (const [at, kind] of VERDICT_KINDS.entries())
              expect(part.counts[kind]).toBe(kinds.slice(part.from, part.to).filter((one) => one === at).length);
            const first = kinds.findIndex((one, row) => row >= part.from && row < part.to && VERDICT_KINDS[one] !== 'sound');
            expect(part.unsound[0]?.range[0]).toBe(first === -1 ? undefined : first);
            expect(part.unsound.length).toBeLessThanOrEqual(5);
          }
        },
      ),
    );
  });

  it('are of a round size, few, and cover all rows', () => {
    expect(evenBounds(1500, 60).slice(0, 2)).toEqual([
      [0, 50],
      [50, 100],
    ]);
    for (const rows of [1, 7, 60, 61, 6000, 37_312, 1_000_000, 123_456_789]) {
      const bounds = evenBounds(rows, 60);
      expect(bounds.length).toBeLessThanOrEqual(60);
      expect(bounds[0]?.[0]).toBe(0);
      expect(bounds.at(-1)?.[1]).toBe(rows);
      expect(bounds.every(([from], at) => at === 0 || from === bounds[at - 1]?.[1])).toBe(true);
    }
  });

  it('are the folders only where these divide the rows', () => {
    const of = (rows: number, ...ranges: IndexRange[]): IndexRange[] | null =>
      folderBounds(
        reportOf({
          folders: ranges.map(([from, to]) => ({ from, to })) as unknown as Report['folders'],
          totals: { rows } as Report['totals'],
        }),
      );
    expect(of(15, [0, 10], [10, 20])).toEqual([
      [0, 10],
      [10, 15],
    ]);
    expect(of(25, [0, 10], [10, 20])).toBeNull();
    expect(of(20, [0, 10], [5, 20])).toBeNull();
    expect(of(20, [10, 20], [0, 10])).toBeNull();
  });
});
