import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { countOf, type IndexRange, indicesOf, rangesOf } from '../core/ranges.ts';
import { type PlanFacts, planOf, without } from './planner.ts';

const nothing: PlanFacts = {
  groups: [],
  finalFailures: [],
  poisonedTwice: [],
  suspect: [],
  unrecorded: [],
  blockers: [],
  tokensOf: null,
  bytesPerToken: null,
  rates: [],
};

describe('the plan', () => {
  const groups: PlanFacts['groups'] = [
    { verdict: 'sound', reason: 'checked', ranges: [[0, 10]], count: 10 },
    { verdict: 'torn', reason: 'empty', ranges: [[10, 12]], count: 2 },
    { verdict: 'poisoned', reason: 'nan', ranges: [[12, 14]], count: 2 },
    { verdict: 'drifted', reason: 'other-row', ranges: [[14, 15]], count: 1 },
    { verdict: 'unreadable', reason: 'timeout', ranges: [[15, 16]], count: 1 },
    { verdict: 'missing', reason: 'failed', ranges: [[16, 18]], count: 2 },
    { verdict: 'missing', reason: 'accepted', ranges: [[18, 19]], count: 1 },
    { verdict: 'missing', reason: 'never-started', ranges: [[19, 30]], count: 11 },
  ];

  it('extracts what is missing and what is set aside, and nothing that only a person may touch', () => {
    const facts = { ...nothing, groups, finalFailures: [[16, 17]] as IndexRange[], poisonedTwice: [[13, 14]] as IndexRange[] };
    const plan = planOf(facts, { retryFailed: false });
    expect(plan.extract.ranges).toEqual([
      [10, 13],
      [17, 18],
      [19, 30],
    ]);
    expect(plan.steps.map((step) => [step.what, step.count])).toEqual([
      ['decide', 2],
      ['set-aside', 3],
      ['extract', 15],
    ]);
    expect(planOf(facts, { retryFailed: true }).extract.count).toBe(16);
  });

  it('costs as much as the known files and rates say, and nothing where none is known', () => {
    const rates = [
      { perSecond: 1.09, source: 'plateau' },
      { perSecond: 0.21, source: 'whole run' },
    ];
    const plan = planOf({ ...nothing, groups, tokensOf: () => 10, bytesPerToken: 3.5, rates }, { retryFailed: false });
    expect(plan.extract).toMatchObject({ count: 17, tokens: 170, bytes: 595 });
    expect(plan.extract.seconds?.map(Math.round)).toEqual([16, 81]);
    expect(planOf({ ...nothing, groups }, { retryFailed: false }).extract).toMatchObject({ tokens: null, bytes: null, seconds: null });
  });

  it('takes ranges out of ranges as sets do', () => {
    const sets = fc.uniqueArray(fc.nat(40)).map((rows) => rangesOf([...rows].sort((a, b) => a - b)));
    fc.assert(
      fc.property(sets, sets, (ranges, holes) => {
        const gone = new Set(indicesOf(holes));
        const left = [...indicesOf(ranges)].filter((row) => !gone.has(row));
        expect([...indicesOf(without(ranges, holes))]).toEqual(left);
        expect(countOf(without(ranges, holes))).toBe(left.length);
      }),
    );
  });
});
