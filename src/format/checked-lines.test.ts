import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeLine, parseLines } from './checked-lines.ts';

const lines = (values: readonly unknown[]): Uint8Array => Buffer.concat(values.map(encodeLine));

describe('checked lines', () => {
  it('gives back what was written', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), (values) => {
        const read = parseLines(lines(values));
        expect(read.values).toEqual(JSON.parse(JSON.stringify(values)));
        expect(read.tail).toBe('clean');
      }),
    );
  });

  it('drops a tail that was cut anywhere, and keeps every whole line before it', () => {
    const values = [{ kind: 'commit', row: 1 }, { kind: 'commit', row: 2, text: 'ü\n' }, { kind: 'close' }];
    const whole = lines(values);
    const ends = values.map((_, index) => lines(values.slice(0, index + 1)).length);
    for (let cut = 0; cut < whole.length; cut += 1) {
      const read = parseLines(whole.subarray(0, cut));
      const kept = ends.filter((end) => end <= cut).length;
      expect(read.values).toHaveLength(kept);
      expect(read.tail).toBe(cut === 0 || ends.includes(cut) ? 'clean' : 'torn');
    }
  });

  it('trusts nothing behind a changed byte', () => {
    const values = [{ row: 1 }, { row: 2 }, { row: 3 }];
    const whole = lines(values);
    const second = encodeLine(values[0]).length;
    const third = lines(values.slice(0, 2)).length;
    for (let at = second; at < third; at += 1) {
      for (const bit of [1, 4, 64]) {
        const damaged = Uint8Array.from(whole);
        damaged[at] = (damaged[at] ?? 0) ^ bit;
        expect(parseLines(damaged).values).toEqual([{ row: 1 }]);
      }
    }
  });

  it('answers for any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(parseLines(bytes).validBytes).toBeLessThanOrEqual(bytes.length);
      }),
    );
  });
});
