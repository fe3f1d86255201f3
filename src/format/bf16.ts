/**
 * Conversions between float32 and the two 16-bit float formats, as typed arrays of bit patterns.
 * Every function fills `out`, which must be as long as the input, and allocates nothing.
 */
import { assert } from '../core/assert.ts';

// Files hold little-endian numbers and these loops view them in place: a big-endian host would read other values.
assert(new Uint8Array(Uint16Array.of(1).buffer)[0] === 1, 'the host is little-endian');

/** float32 to bfloat16 bits, round to nearest, ties to even. A NaN stays a NaN (quiet, sign and high payload kept). */
export function roundToBf16(values: Float32Array, out: Uint16Array): void {
  assert(values.length === out.length, 'as many results as values');
  const bits = new Int32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < bits.length; i += 1) {
    const word = bits[i] as number;
    // Adding the rounding bias to a NaN could carry it over into an infinity.
    if ((word & 0x7fffffff) > 0x7f800000) out[i] = (word >>> 16) | 0x40;
    else out[i] = ((word + 0x7fff + ((word >>> 16) & 1)) | 0) >>> 16;
  }
}

/** bfloat16 bits to float32, exactly. */
export function bf16ToFloat32(values: Uint16Array, out: Float32Array): void {
  assert(values.length === out.length, 'as many results as values');
  const bits = new Int32Array(out.buffer, out.byteOffset, out.length);
  for (let i = 0; i < bits.length; i += 1) bits[i] = (values[i] as number) << 16;
}

/** float32 to float16 bits, round to nearest, ties to even; beyond 65,519.99 it is an infinity. A NaN stays a NaN. */
export function roundToF16(values: Float32Array, out: Uint16Array): void {
  assert(values.length === out.length, 'as many results as values');
  const bits = new Int32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < bits.length; i += 1) {
    const word = bits[i] as number;
    const sign = (word >>> 16) & 0x8000;
    const magnitude = word & 0x7fffffff;
    if (magnitude > 0x7f800000) out[i] = sign | 0x7e00 | ((magnitude >>> 13) & 0x3ff);
    else if (magnitude >= 0x47800000) out[i] = sign | 0x7c00;
    else if (magnitude >= 0x38800000) out[i] = sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13);
    else if (magnitude < 0x33000000) out[i] = sign;
    else out[i] = sign | subnormalF16(magnitude);
  }
}

/** For 2^-25 <= |value| < 2^-14, where float16 has fewer bits the smaller the value is. */
function subnormalF16(magnitude: number): number {
  const shift = 126 - (magnitude >>> 23);
  const mantissa = (magnitude & 0x7fffff) | 0x800000;
  const rest = mantissa & ((1 << shift) - 1);
  const half = mantissa >>> shift;
  const middle = 1 << (shift - 1);
  return rest > middle || (rest === middle && (half & 1) === 1) ? half + 1 : half;
}

let f16Table: Int32Array | undefined;

/** The float32 bits of each float16 (256 KiB, made on first use: a lookup beats taking subnormals apart). */
function tableOfF16(): Int32Array {
  if (f16Table !== undefined) return f16Table;
  const table = new Int32Array(0x10000);
  const one = new Float32Array(1);
  const oneBits = new Int32Array(one.buffer);
  for (let half = 0; half < table.length; half += 1) {
    const sign = (half & 0x8000) << 16;
    const exponent = (half >>> 10) & 0x1f;
    const mantissa = half & 0x3ff;
    if (exponent === 0x1f) table[half] = sign | 0x7f800000 | (mantissa << 13);
    else if (exponent !== 0) table[half] = sign | ((exponent + 112) << 23) | (mantissa << 13);
    else {
      one[0] = mantissa * 2 ** -24;
      table[half] = sign | (oneBits[0] as number);
    }
  }
  f16Table = table;
  return table;
}

/** float16 bits to float32, exactly. */
export function f16ToFloat32(values: Uint16Array, out: Float32Array): void {
  assert(values.length === out.length, 'as many results as values');
  const table = tableOfF16();
  const bits = new Int32Array(out.buffer, out.byteOffset, out.length);
  for (let i = 0; i < bits.length; i += 1) bits[i] = table[values[i] as number] as number;
}
