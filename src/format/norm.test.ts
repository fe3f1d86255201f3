import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyFinalNorm, type FinalNorm, type NormKind } from './norm.ts';

// Made with numpy in float64 from the definitions, then rounded to float32; epsilon 1e-5. The second row has a mean far
// above its deviation, where mean(x²) - mean² would lose most digits.
const rows = [0.5, -1.25, 3, 0.0078125, -2.5, 1, 100.5, 100.25, 99.75, 101, 98.5, 100];
const weight = Float32Array.of(0.75, 1.5, -0.25, 2, 1, 0.125);
const bias = Float32Array.of(0.5, -0.5, 0, 1, -1, 0.25);
const golden: Readonly<Record<NormKind, readonly number[]>> = {
  rms: [
    0.21613071858882904, -1.0806536674499512, -0.4322614371776581, 0.009005446918308735, -1.4408714771270752, 0.07204357534646988,
    0.7537272572517395, 1.50370454788208, -0.24936746060848236, 2.0199389457702637, 0.9849702715873718, 0.12499622255563736,
  ],
  'rms-plus-one': [
    0.5043050050735474, -1.8010894060134888, 1.2967844009399414, 0.013508169911801815, -2.8817429542541504, 0.6483922004699707,
    1.7586969137191772, 2.506174325942993, 0.7481024265289307, 3.0299084186553955, 1.9699405431747437, 1.124966025352478,
  ],
  layer: [
    0.6619648933410645, -1.6930097341537476, -0.41516438126564026, 0.863054096698761, -2.5176918506622314, 0.3131117522716522,
    0.9824466705322266, -0.01755335181951523, 0.0804077759385109, 3.5730488300323486, -2.9297866821289062, 0.25,
  ],
};

/** The definitions, one value at a time and all in float64. */
function slowly({ kind, epsilon, weight: w, bias: b }: FinalNorm, x: readonly number[]): number[] {
  const mean = kind === 'layer' ? x.reduce((sum, value) => sum + value, 0) / x.length : 0;
  const square = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  return x.map((value, i) => {
    const scale = (w[i] ?? 0) + (kind === 'rms-plus-one' ? 1 : 0);
    return ((value - mean) / Math.sqrt(square + epsilon)) * scale + (b?.[i] ?? 0);
  });
}

/** Two roundings to float32: a few parts in 2^24 of the largest term. */
function expectNear(found: ArrayLike<number>, wanted: readonly number[], scale: number): void {
  expect(found.length).toBe(wanted.length);
  for (let i = 0; i < wanted.length; i++) {
    expect(Math.abs((found[i] ?? Number.NaN) - (wanted[i] ?? Number.NaN))).toBeLessThanOrEqual(scale * 2 ** -22);
  }
}

describe('applyFinalNorm', () => {
  it.each(['rms', 'rms-plus-one', 'layer'] as const)('%s gives the golden values', (kind) => {
    const values = Float32Array.from(rows);
    applyFinalNorm({ kind, epsilon: 1e-5, weight, bias: kind === 'layer' ? bias : null }, values, 6);
    expectNear(values, golden[kind], 4);
  });

  it('agrees with the definition for any width, also one that is not a multiple of four', () => {
    const float = fc.float({ noNaN: true, noDefaultInfinity: true, min: -1000, max: 1000 });
    const cases = fc.integer({ min: 1, max: 37 }).chain((width) =>
      fc.record({
        kind: fc.constantFrom<NormKind>('rms', 'rms-plus-one', 'layer'),
        width: fc.constant(width),
        weight: fc.array(fc.float({ noNaN: true, min: -4, max: 4 }), { minLength: width, maxLength: width }),
        row: fc.array(float, { minLength: width, maxLength: width }),
      }),
    );
    fc.assert(
      fc.property(cases, ({ kind, width, weight: w, row }) => {
        const norm: FinalNorm = { kind, epsilon: 1e-6, weight: Float32Array.from(w), bias: null };
        const values = Float32Array.from(row);
        applyFinalNorm(norm, values, width);
        expectNear(values, slowly(norm, row), 5 * Math.sqrt(width));
      }),
      { numRuns: 500 },
    );
  });

  it('gives a row the same bits alone and among others', () => {
    const norm: FinalNorm = { kind: 'rms', epsilon: 1e-5, weight, bias: null };
    const together = Float32Array.from(rows);
    applyFinalNorm(norm, together, 6);
    const alone = Float32Array.from(rows.slice(6));
    applyFinalNorm(norm, alone, 6);
    expect([...together.subarray(6)]).toEqual([...alone]);
  });

  it('passes NaN and infinity on, so that the check behind it sees them', () => {
    const norm: FinalNorm = { kind: 'rms', epsilon: 1e-5, weight: Float32Array.of(1, 1), bias: null };
    const values = Float32Array.of(Number.NaN, 1, Number.POSITIVE_INFINITY, 1, 3, 4);
    applyFinalNorm(norm, values, 2);
    expect(values[0]).toBeNaN();
    expect(values[2]).toBeNaN();
    expect(values[5]).toBeCloseTo(4 / Math.sqrt(12.5), 5);
  });

  it('refuses a weight of another width and a bias where there is none', () => {
    expect(() => applyFinalNorm({ kind: 'rms', epsilon: 1e-5, weight, bias: null }, new Float32Array(8), 4)).toThrow(/assertion/);
    expect(() => applyFinalNorm({ kind: 'rms', epsilon: 1e-5, weight, bias }, new Float32Array(6), 6)).toThrow(/assertion/);
  });
});
