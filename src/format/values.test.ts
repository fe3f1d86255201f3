import { Buffer } from 'node:buffer';
import { describe, expect, test } from 'vitest';
import { seeded } from '../../test/support/scenes/emit.ts';
import { bf16ToFloat32, f16ToFloat32 } from './bf16.ts';
import {
  type FloatReport,
  floatScanner,
  isScannable,
  ROWS_NAMED_MAX,
  type ScannableDtype,
  scanFloats,
  zeroPageScanner,
  zeroPages,
} from './values.ts';

const DTYPES: readonly ScannableDtype[] = ['BF16', 'F16', 'F32'];

function floats(dtype: ScannableDtype, bytes: Uint8Array): Float32Array {
  const own = new Uint8Array(bytes);
  if (dtype === 'F32') return new Float32Array(own.buffer);
  const bits = new Uint16Array(own.buffer);
  const out = new Float32Array(bits.length);
  (dtype === 'BF16' ? bf16ToFloat32 : f16ToFloat32)(bits, out);
  return out;
}

/** The same report, one float at a time. */
function slowly(values: Float32Array, rowElements: number): FloatReport {
  const at = (test: (value: number) => boolean): number[] => [...values.keys()].filter((k) => test(values[k] as number));
  const nan = at(Number.isNaN);
  const inf = at((value) => Math.abs(value) === Number.POSITIVE_INFINITY);
  const rows = Array.from({ length: values.length / rowElements }, (_, row) => values.subarray(row * rowElements, (row + 1) * rowElements));
  const zero = rows.map((row) => row.every((value) => value === 0));
  const bad = [...rows.keys()].filter((row) => rows[row]?.some((value) => !Number.isFinite(value)));
  return {
    elements: values.length,
    nan: nan.length,
    firstNan: nan[0] ?? null,
    inf: inf.length,
    firstInf: inf[0] ?? null,
    allZero: rows.length > 0 && zero.every(Boolean),
    rows: rows.length,
    zeroRows: zero.filter(Boolean).length,
    firstZeroRow: zero.includes(true) ? zero.indexOf(true) : null,
    zeroRowsAtEnd: rows.length - 1 - zero.lastIndexOf(false),
    nonFiniteRows: bad.length,
    nonFiniteRowNumbers: bad.slice(0, ROWS_NAMED_MAX),
  };
}

describe.each(DTYPES)('%s values', (dtype) => {
  test('are reported as a slow reader sees them, however they are cut', () => {
    const random = seeded(5);
    const width = dtype === 'F32' ? 4 : 2;
    const patterns = {
      BF16: [0x7f80, 0xff80, 0x7fc0, 0x7f81, 0x7f7f, 0x8000],
      F16: [0x7c00, 0xfc00, 0x7e01, 0x7bff, 0x8000],
      F32: [0x7f800000, 0xff800000, 0x7f800001, 0x7f7fffff, 0x80000000],
    };
    for (let round = 0; round < 400; round += 1) {
      const rowElements = 1 + random(9);
      const bytes = Buffer.alloc((1 + random(12)) * rowElements * width);
      // Some rows stay zero; some elements are one of the patterns at the edge.
      for (let at = 0; at < bytes.length; at += width) {
        if (random(3) === 0) continue;
        const edge = patterns[dtype][random(patterns[dtype].length)] ?? 0;
        bytes.writeUIntLE(random(6) === 0 ? edge : random(0x3c00), at, width);
      }
      if (random(3) === 0) bytes.fill(0, random(bytes.length / width) * width);
      const expected = slowly(floats(dtype, bytes), rowElements);
      const scanner = floatScanner(dtype, rowElements);
      for (let from = 0; from < bytes.length; ) {
        const to = Math.min(bytes.length, from + random(25));
        scanner.push(bytes.subarray(from, to));
        from = to;
      }
      expect(scanner.report(), `round ${round}`).toEqual(expected);
      // An odd place in memory, as a view into a larger read has.
      const odd = Buffer.alloc(bytes.length + 1 + (round % 3)).subarray(1 + (round % 3));
      odd.set(bytes);
      expect(scanFloats(dtype, odd, rowElements)).toEqual(expected);
    }
  });

  test('the largest finite value is no fault, and no values are not all zero', () => {
    const largest = { BF16: 'ff7f7f7f', F16: 'ff7b', F32: 'ffff7f7f' }[dtype];
    const bytes = Buffer.from(dtype === 'BF16' ? '7f7f' : largest, 'hex');
    expect(scanFloats(dtype, bytes)).toMatchObject({ nan: 0, inf: 0, allZero: false, nonFiniteRows: 0 });
    expect(scanFloats(dtype, new Uint8Array(0))).toMatchObject({ elements: 0, rows: 0, allZero: false, firstZeroRow: null });
  });

  test('a tensor that ends inside a row is a broken belief', () => {
    const scanner = floatScanner(dtype, 3);
    scanner.push(new Uint8Array(8));
    expect(() => scanner.report()).toThrow('whole row');
  });
});

test('only float formats of hidden states are scanned', () => {
  expect(isScannable('BF16')).toBe(true);
  expect(isScannable('I64')).toBe(false);
});

describe('zero pages', () => {
  test('are whole, aligned in the file, and joined', () => {
    const bytes = Buffer.alloc(10 * 4096, 1);
    bytes.fill(0, 100, 4095); // the page before the first boundary, and one byte short of it
    bytes.fill(0, 4096 * 2 - 64, 4096 * 5 - 64);
    bytes[4096 * 7] = 0;
    // The bytes begin 64 bytes into a page.
    expect(zeroPages(bytes, 4096 * 3 + 64)).toEqual([{ from: 4096 * 5, to: 4096 * 8 }]);
    expect(zeroPages(Buffer.alloc(4095), 0)).toEqual([]);
    expect(zeroPages(Buffer.alloc(4096 * 2), 1)).toEqual([{ from: 4096, to: 8192 }]);
    // A last page that is not full counts only where the file ends.
    expect(zeroPages(Buffer.alloc(4096 * 2), 100, true)).toEqual([{ from: 4096, to: 8292 }]);
    expect(zeroPages(Buffer.alloc(100), 8192, true)).toEqual([{ from: 8192, to: 8292 }]);
    expect(zeroPages(Buffer.alloc(60), 8192, true)).toEqual([]);
  });

  test('are found wherever the pieces are cut', () => {
    const random = seeded(11);
    for (let round = 0; round < 200; round += 1) {
      const bytes = Buffer.alloc(4096 * 6, 7);
      for (let k = 0; k < 3; k += 1) bytes.fill(0, random(bytes.length), random(bytes.length));
      const offset = random(9000);
      const expected = zeroPages(bytes, offset);
      const scanner = zeroPageScanner(offset);
      for (let from = 0; from < bytes.length; ) {
        const to = Math.min(bytes.length, from + 1 + random(6000));
        scanner.push(bytes.subarray(from, to));
        from = to;
      }
      expect(scanner.runs()).toEqual(expected);
    }
  });
});
