import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bf16ToFloat32, f16ToFloat32, roundToBf16, roundToF16 } from './bf16.ts';

interface Format {
  readonly name: string;
  readonly exponentBits: number;
  readonly mantissaBits: number;
  readonly round: (values: Float32Array, out: Uint16Array) => void;
  readonly widen: (values: Uint16Array, out: Float32Array) => void;
}

const FORMATS: readonly Format[] = [
  { name: 'bf16', exponentBits: 8, mantissaBits: 7, round: roundToBf16, widen: bf16ToFloat32 },
  { name: 'f16', exponentBits: 5, mantissaBits: 10, round: roundToF16, widen: f16ToFloat32 },
];

/** The value of a bit pattern, from the definition: exact in a double. */
function exactValue(bits: number, { exponentBits, mantissaBits }: Format): number {
  const sign = bits >>> 15 === 0 ? 1 : -1;
  const exponent = (bits >>> mantissaBits) & (2 ** exponentBits - 1);
  const mantissa = bits & (2 ** mantissaBits - 1);
  const bias = 2 ** (exponentBits - 1) - 1;
  if (exponent === 2 ** exponentBits - 1) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * mantissa * 2 ** (1 - bias - mantissaBits);
  return sign * (1 + mantissa * 2 ** -mantissaBits) * 2 ** (exponent - bias);
}

/** The nearest pattern by trying all of them: ties to the even one. The infinity counts as the next power of two. */
function nearest(value: number, format: Format): number {
  const infinity = (2 ** format.exponentBits - 1) << format.mantissaBits;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude === Number.POSITIVE_INFINITY) return sign | infinity;
  let low = 0;
  let high = infinity;
  const magnitudeOf = (bits: number): number => (bits === infinity ? 2 ** (2 ** (format.exponentBits - 1)) : exactValue(bits, format));
  while (high - low > 1) {
    const middle = (low + high) >>> 1;
    if (magnitudeOf(middle) <= magnitude) low = middle;
    else high = middle;
  }
  const below = magnitude - magnitudeOf(low);
  const above = magnitudeOf(high) - magnitude;
  return sign | (below < above || (below === above && low % 2 === 0) ? low : high);
}

describe.each(FORMATS)('$name', (format) => {
  const round = (value: number): number => {
    const out = new Uint16Array(1);
    format.round(Float32Array.of(value), out);
    return out[0] as number;
  };

  test('every pattern widens to its value and rounds back to itself', () => {
    const all = Uint16Array.from({ length: 0x10000 }, (_, bits) => bits);
    const wide = new Float32Array(all.length);
    format.widen(all, wide);
    const back = new Uint16Array(all.length);
    format.round(wide, back);
    for (const bits of all) {
      const value = exactValue(bits, format);
      if (!Object.is(wide[bits], value)) expect.fail(`0x${bits.toString(16)} widens to ${wide[bits]} and not to ${value}`);
      if (Number.isNaN(value) ? !Number.isNaN(exactValue(back[bits] as number, format)) : back[bits] !== bits) {
        expect.fail(`0x${bits.toString(16)} comes back as 0x${back[bits]?.toString(16)}`);
      }
    }
  });

  test('rounds to the nearest, ties to even', () => {
    const anyBits = fc.nat(0xffffffff).map((bits) => new Float32Array(Uint32Array.of(bits).buffer)[0] as number);
    const values = fc.oneof(
      anyBits,
      fc.float({ noNaN: true }),
      fc.float({ min: -1, max: 1, noNaN: true }),
      fc.constantFrom(65504, 65519, 65520, 2 ** -24, 2 ** -25),
    );
    fc.assert(
      fc.property(values, (value) => {
        const single = Math.fround(value);
        if (Number.isNaN(single)) expect(exactValue(round(single), format)).toBeNaN();
        else expect(round(single)).toBe(nearest(single, format));
      }),
      { seed: 2, numRuns: 3000 },
    );
  });

  test('rounds the neighbours of every midpoint', () => {
    const bits = new Uint32Array(1);
    const single = new Float32Array(bits.buffer);
    for (let low = 0; low < 0x7fff; low += 7) {
      const middle = (exactValue(low, format) + exactValue(low + 1, format)) / 2;
      if (!Number.isFinite(middle)) continue;
      single[0] = middle;
      const at = bits[0] as number;
      for (const near of [at - 1, at, at + 1].filter((near) => near >= 0)) {
        bits[0] = near;
        const value = single[0] as number;
        if (round(value) !== nearest(value, format)) expect.fail(`${value} rounds to 0x${round(value).toString(16)}`);
      }
    }
  });

  test('a NaN stays one and results fit', () => {
    const nan = new Float32Array(Uint32Array.of(0x7f800001, 0xff800001, 0x7fffffff).buffer);
    const out = new Uint16Array(3);
    format.round(nan, out);
    for (const bits of out) expect(exactValue(bits, format)).toBeNaN();
    expect(() => format.round(new Float32Array(2), out)).toThrow('as many results as values');
  });
});
