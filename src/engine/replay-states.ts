import type { LayerBoundary } from '../core/layers.ts';
import { DTYPE_BYTES } from '../format/tensors.ts';

export type FloatDtype = 'BF16' | 'F16' | 'F32';

/** Fills `out` with the states of rows `[from, to)`: finite, never zero, of magnitude 0.25 to 4, different for each layer. */
export function fillStates(
  out: Uint8Array,
  of: {
    readonly inputIds: Uint32Array;
    readonly from: number;
    readonly to: number;
    readonly layers: readonly LayerBoundary[];
    readonly width: number;
    readonly dtype: FloatDtype;
    readonly seed: number;
  },
): void {
  const { layers, width, dtype } = of;
  const words =
    dtype === 'F32'
      ? new Uint32Array(out.buffer, out.byteOffset, out.length / 4)
      : new Uint16Array(out.buffer, out.byteOffset, out.length / 2);
  let at = 0;
  for (let row = of.from; row < of.to; row++) {
    for (const layer of layers) {
      let state = mix(mix(mix(of.seed ^ 0x7469_6465, of.inputIds[row] ?? 0), row), layer);
      for (let i = 0; i < width; i++) {
        // A linear congruential step a value: the high bits are good enough for test data, and it is fast.
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
        words[at++] = bitsOf(state, dtype);
      }
    }
  }
}

/** Sign, two bits of exponent around that of 1.0, and the mantissa: no zero, no infinity, no NaN can come out. */
function bitsOf(random: number, dtype: FloatDtype): number {
  const sign = random >>> 31;
  const exponent = (random >>> 29) & 3;
  switch (dtype) {
    case 'BF16':
      return (sign << 15) | ((125 + exponent) << 7) | ((random >>> 22) & 0x7f);
    case 'F16':
      return (sign << 15) | ((13 + exponent) << 10) | ((random >>> 19) & 0x3ff);
    case 'F32':
      return ((sign << 31) | ((125 + exponent) << 23) | ((random >>> 6) & 0x7f_ffff)) >>> 0;
  }
}

function mix(state: number, value: number): number {
  let h = Math.imul(state ^ value, 0x85eb_ca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2_ae35);
  return (h ^ (h >>> 16)) + 0x9e37_79b9;
}

const bits: Readonly<Record<FloatDtype, Readonly<Record<'nan' | 'infinity' | 'zero', number>>>> = {
  BF16: { nan: 0x7fc0, infinity: 0x7f80, zero: 0 },
  F16: { nan: 0x7e00, infinity: 0x7c00, zero: 0 },
  F32: { nan: 0x7fc0_0000, infinity: 0x7f80_0000, zero: 0 },
};

/** Overwrites one row and slot (or, with null, all of them) among rows `[from, to)`: zeros whole, the others in the middle value of each. */
export function spoil(
  rows: Uint8Array,
  how: {
    readonly value: 'nan' | 'infinity' | 'zero';
    readonly row: number | null;
    readonly slot: number | null;
    readonly from: number;
    readonly to: number;
    readonly slots: number;
    readonly width: number;
    readonly dtype: FloatDtype;
  },
): void {
  const { width, slots } = how;
  const view = new DataView(rows.buffer, rows.byteOffset, rows.byteLength);
  const bytes = DTYPE_BYTES[how.dtype];
  const pattern = bits[how.dtype][how.value];
  for (let row = how.from; row < how.to; row++) {
    if (how.row !== null && how.row !== row) continue;
    for (let slot = 0; slot < slots; slot++) {
      if (how.slot !== null && how.slot !== slot) continue;
      const start = ((row - how.from) * slots + slot) * width;
      const [first, end] = how.value === 'zero' ? [0, width] : [width >> 1, (width >> 1) + 1];
      for (let i = first; i < end; i++) {
        if (bytes === 4) view.setUint32((start + i) * 4, pattern, true);
        else view.setUint16((start + i) * 2, pattern, true);
      }
    }
  }
}
