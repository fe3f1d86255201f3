import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../test/support/seeded-random.ts';
import { type HeadPosition, judgePositions, outliersOf, SHIFTS } from './head-statistics.ts';

const random = seededRandom(5);
const noise = (): number => (random.fraction() - 0.5) * 2;

interface Made {
  readonly files?: number;
  /** Mean log-probability by shift; -8 where not named. */
  readonly stored?: Readonly<Record<number, number>>;
  readonly normed?: Readonly<Record<number, number>>;
  readonly undone?: number | null;
  readonly entropy?: number;
}

function positions({ files = 20, stored = {}, normed = {}, undone = null, entropy = 1 }: Made, prefix = 'file'): HeadPosition[] {
  const scores = (by: Readonly<Record<number, number>>) => ({
    logProbs: SHIFTS.map((shift) => (by[shift] ?? -8) + noise()),
    shuffled: -8 + noise(),
    top1: true,
    entropy,
  });
  return Array.from({ length: files * 8 }, (_, at) => ({
    path: `${prefix}${Math.floor(at / 8)}`,
    stored: scores(stored),
    normed: scores(normed),
    undone,
    zero: false,
    finite: true,
  }));
}

describe('the judgement', () => {
  it.each([
    ['states behind the norm', { stored: { 0: -1 }, normed: { 0: -3 } }, { verdict: 'post-norm', shift: 0 }],
    ['states before it', { stored: { 0: -5 }, normed: { 0: -1 } }, { verdict: 'pre-norm', shift: 0 }],
    ['a tie, which says nothing against them', { stored: { 0: -1 }, normed: { 0: -1 } }, { verdict: 'post-norm', shift: 0 }],
    ['a tie whose size tells', { stored: { 0: -1 }, normed: { 0: -1 }, undone: 3 }, { verdict: 'pre-norm', shift: 0 }],
    ['a shift', { stored: { 2: -1 }, normed: { 2: -1 }, undone: 1 }, { verdict: 'shifted', shift: 2, norm: 'post-norm' }],
    ['nothing', {}, { verdict: 'does-not-predict' }],
    ['a distribution that is far too sure', { stored: { 0: -6 }, entropy: 0.1 }, { verdict: 'does-not-predict' }],
    ['hard text, honestly', { stored: { 0: -4 }, entropy: 3.5 }, { verdict: 'post-norm' }],
  ] as const)('tells %s', (_, made, wanted) => {
    expect(judgePositions(positions(made))).toMatchObject(wanted);
  });

  it('says nothing of no positions but that they predict nothing', () => {
    expect(judgePositions([])).toMatchObject({ verdict: 'does-not-predict' });
  });

  it('finds the file among many that is unlike them', () => {
    const good = { stored: { 0: -1 }, normed: { 0: -3 } };
    const all = [...positions(good), ...positions({ files: 1 }, 'bad'), ...positions({ files: 1, stored: { [-1]: -1 } }, 'late')];
    const judged = judgePositions(all);
    expect(judged.verdict).toBe('post-norm');
    expect(outliersOf(all, judged).map(({ path, verdict, shift }) => [path, verdict, shift])).toEqual([
      ['bad0', 'does-not-predict', 0],
      ['late0', 'shifted', -1],
    ]);
  });

  it('accuses no file of good ones, whatever the seed', () => {
    for (let round = 0; round < 50; round += 1) {
      const all = positions({ stored: { 0: -2 }, normed: { 0: -2.1 }, entropy: 1.8 });
      const judged = judgePositions(all);
      expect(judged).toMatchObject({ verdict: 'post-norm', shift: 0 });
      expect(outliersOf(all, judged)).toEqual([]);
    }
  });
});
