import { describe, expect, it } from 'vitest';
import { groupNames } from './name-ranges.ts';

describe('names as ranges', () => {
  it('folds names that differ in their last number', () => {
    const names = ['data_2.ckpt', 'data_0.ckpt', 'data_1.ckpt', 'data_7.ckpt', 'truth.json'];
    expect(groupNames(names)).toEqual({
      ranges: [
        {
          pattern: 'data_{n}.ckpt',
          ranges: [
            [0, 3],
            [7, 8],
          ],
          count: 4,
        },
      ],
      names: ['truth.json'],
    });
  });

  it('tells padded numbers from plain ones, and never takes two names for one', () => {
    expect(groupNames(['part-00001', 'part-00002', 'part-12', 'part-13', 'part-99999'])).toEqual({
      ranges: [
        { pattern: 'part-{n:5}', ranges: [[1, 3]], count: 2 },
        {
          pattern: 'part-{n}',
          ranges: [
            [12, 14],
            [99999, 100000],
          ],
          count: 3,
        },
      ],
      names: [],
    });
  });

  it('leaves alone what stands alone: other text, one of its kind, hashes, line breaks', () => {
    const names = ['a1b2', 'x_7.tmp', '12345678901234567890', 'two\nlines_3', 'two\nlines_4', 'data_5.ckpt.tidemark-L3.2.tmp'];
    const { ranges, names: alone } = groupNames(names);
    expect(ranges).toEqual([{ pattern: 'two\nlines_{n}', ranges: [[3, 5]], count: 2 }]);
    expect(alone).toEqual(['12345678901234567890', 'a1b2', 'data_5.ckpt.tidemark-L3.2.tmp', 'x_7.tmp']);
  });
});
