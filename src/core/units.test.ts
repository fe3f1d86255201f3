import { expect, it } from 'vitest';
import { counted, formatBytes, formatCount, formatRate, formatSeconds, plural } from './units.ts';

it('formats bytes', () => {
  expect([0, 999, 1000, 999_499, 999_500, 1_234_567, 99_950_000, 2_360_000_000_000].map(formatBytes)).toEqual([
    '0 B',
    '999 B',
    '1.00 kB',
    '999 kB',
    '1.00 MB',
    '1.23 MB',
    '100 MB',
    '2.36 TB',
  ]);
});

it('formats durations', () => {
  expect([0.25, 41, 200, 120, 1800, 17_340, 86_400 * 2 + 10_800].map(formatSeconds)).toEqual([
    '250 ms',
    '41 s',
    '3 min 20 s',
    '2 min',
    '30 min',
    '4 h 49 min',
    '2 d 3 h',
  ]);
});

it('formats counts', () => {
  expect([0, 999, 1000, 37_312, 1_000_000].map(formatCount)).toEqual(['0', '999', '1 000', '37 312', '1 000 000']);
});

it('counts one as one', () => {
  expect([0, 1, 2, 18_421].map((count) => counted(count, 'row'))).toEqual(['0 rows', '1 row', '2 rows', '18 421 rows']);
  expect([1, 2].map((count) => counted(count, 'process hangs', 'processes hang'))).toEqual(['1 process hangs', '2 processes hang']);
  expect([0, 1, 2].map((count) => plural(count, 'is', 'are'))).toEqual(['are', 'is', 'are']);
});

it('formats a pace', () => {
  expect([1234.5, 99.96, 2.333, 1.1, 0.21, 0.09, 0.0009].map(formatRate)).toEqual([
    '1 235/s',
    '100/s',
    '2.33/s',
    '1.1/s',
    '0.21/s',
    '5.4/min',
    '3.24/h',
  ]);
});
