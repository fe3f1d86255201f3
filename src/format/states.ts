import { assert } from '../core/assert.ts';
import { TidemarkError } from '../core/errors.ts';
import type { StatesDtype } from '../core/run-layout.ts';
import { bf16ToFloat32, f16ToFloat32, roundToBf16, roundToF16 } from './bf16.ts';
import { applyFinalNorm, type FinalNorm } from './norm.ts';
import { DTYPE_BYTES, type Dtype } from './tensors.ts';

/** The residual stream of one sample as an engine hands it over: row-major [tokens, layers, width]. */
export interface StateRows {
  readonly tokens: number;
  readonly layers: number;
  readonly width: number;
  readonly dtype: Dtype;
  /** Bytes of rows `[from, to)`, valid until the next call. */
  readRows(from: number, to: number): Promise<Uint8Array>;
}

/** Which layer slots of every row are wanted, and how. */
export interface WantedSlots {
  /** Slots `[first, end)`, side by side; the last of all is the last hidden state. */
  readonly first: number;
  readonly end: number;
  readonly dtype: StatesDtype;
  /** The target's final norm, for the last hidden state; null leaves it as the engine gave it. */
  readonly norm: FinalNorm | null;
}

/** Bytes of the engine's tensor that one piece covers; what a sample costs in memory is a few of these, whatever its length. */
const PIECE_BYTES = 4 * 1024 * 1024;

/**
 * Layer slots of a sample, [tokens, slots * width]: taken out, the last state normed where that is asked, rounded to nearest even,
 * checked.
 * @throws TidemarkError `capture-bad` at the first value that is not finite, or too large for the dtype, or the first row of zeros
 */
export async function* stateSlots(states: StateRows, wanted: WantedSlots): AsyncGenerator<Uint8Array> {
  const { tokens, layers, width } = states;
  const { first, end, norm } = wanted;
  assert(first >= 0 && first < end && end <= layers, 'slots of the capture');
  const slots = end - first;
  const rowElements = slots * width;
  const pieceRows = Math.max(1, Math.floor(PIECE_BYTES / (layers * width * DTYPE_BYTES[states.dtype])));
  const floats = new Float32Array(Math.min(pieceRows, tokens) * rowElements);
  const rounder = rounderOf(wanted.dtype, floats.length);
  for (let from = 0; from < tokens; from += pieceRows) {
    const to = Math.min(tokens, from + pieceRows);
    const bytes = await states.readRows(from, to);
    const values = floats.subarray(0, (to - from) * rowElements);
    takeSlots(bytes, states.dtype, layers * width, first * width, rowElements, values);
    if (norm !== null && end === layers) normLastSlot(norm, values, slots, width);
    refuseBadRows(values, wanted, width, from);
    yield rounder(values);
  }
}

function normLastSlot(norm: FinalNorm, values: Float32Array, slots: number, width: number): void {
  if (slots === 1) {
    applyFinalNorm(norm, values, width);
    return;
  }
  for (let end = slots * width; end <= values.length; end += slots * width) applyFinalNorm(norm, values.subarray(end - width, end), width);
}

/** Rounds into a buffer of its own, whose bytes stay valid until the next call. */
function rounderOf(dtype: StatesDtype, most: number): (values: Float32Array) => Uint8Array {
  if (dtype === 'F32') return (values) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const rounded = new Uint16Array(most);
  const round = dtype === 'BF16' ? roundToBf16 : roundToF16;
  return (values) => {
    const out = rounded.subarray(0, values.length);
    round(values, out);
    return new Uint8Array(out.buffer, out.byteOffset, out.byteLength);
  };
}

/** Copies `count` elements from `offset` of every row of `stride` elements, as float32. */
function takeSlots(bytes: Uint8Array, dtype: Dtype, stride: number, offset: number, count: number, out: Float32Array): void {
  const rows = out.length / count;
  switch (dtype) {
    case 'F32': {
      const source = new Float32Array(...aligned(bytes, 4));
      for (let row = 0; row < rows; row += 1) out.set(source.subarray(row * stride + offset, row * stride + offset + count), row * count);
      return;
    }
    case 'BF16':
    case 'F16': {
      const source = new Uint16Array(...aligned(bytes, 2));
      const widen = dtype === 'BF16' ? bf16ToFloat32 : f16ToFloat32;
      for (let row = 0; row < rows; row += 1) {
        widen(source.subarray(row * stride + offset, row * stride + offset + count), out.subarray(row * count, (row + 1) * count));
      }
      return;
    }
    default:
      throw new TidemarkError('capture-bad', `the engine's states are ${dtype}; float32, bfloat16 and float16 are understood`);
  }
}

function aligned(bytes: Uint8Array, elementBytes: number): [ArrayBufferLike, number, number] {
  const whole = bytes.byteOffset % elementBytes === 0 ? bytes : Uint8Array.from(bytes);
  return [whole.buffer, whole.byteOffset, whole.byteLength / elementBytes];
}

/** The float32 bits from which a value rounds to an infinity; half of the smallest that is told from zero rounds to zero. */
const LIMITS: Readonly<Record<StatesDtype, { readonly infinite: number; readonly zero: number; readonly name: string }>> = {
  BF16: { infinite: 0x7f7f8000, zero: 0x8000, name: 'bfloat16' },
  F16: { infinite: 0x477ff000, zero: 0x33000000, name: 'float16 (its largest is 65504)' },
  F32: { infinite: 0x7f800000, zero: 0, name: 'float32' },
};

/**
 * A decoder's residual stream is never exactly zero over a whole row, and never infinite: either is an
 * engine's fault (vllm-project/vllm#46301, #45734), and a drafter trains on both without complaint. A finite value that the stored
 * dtype has no room for would become an infinity by our own rounding, and is refused by name.
 */
function refuseBadRows(values: Float32Array, wanted: WantedSlots, width: number, firstRow: number): void {
  const bits = new Int32Array(values.buffer, values.byteOffset, values.length);
  const { infinite, zero, name } = LIMITS[wanted.dtype];
  for (let start = 0; start < bits.length; start += width) {
    let largest = 0;
    for (let at = start; at < start + width; at += 1) {
      const magnitude = (bits[at] as number) & 0x7fffffff;
      if (magnitude > largest) largest = magnitude;
    }
    if (largest > 0x7f800000) throw badRow('a value that is not a number', start / width);
    if (largest === 0x7f800000) throw badRow('a value that is infinite', start / width);
    if (largest >= infinite) throw badRow(`a value beyond ${name}`, start / width);
    if (largest <= zero) throw badRow('nothing but zeros', start / width);
  }
  function badRow(what: string, group: number): TidemarkError {
    const slots = wanted.end - wanted.first;
    const row = firstRow + Math.floor(group / slots);
    const hint = what.includes('float16') ? { hint: 'store such states as bfloat16 or float32: states.dtype' } : {};
    return new TidemarkError('capture-bad', `layer slot ${wanted.first + (group % slots)} has ${what} in row ${row}`, hint);
  }
}
