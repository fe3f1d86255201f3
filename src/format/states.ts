import { assert } from '../core/assert.ts';
import { TidemarkError } from '../core/errors.ts';
import { bf16ToFloat32, f16ToFloat32, roundToBf16 } from './bf16.ts';
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

/** Bytes of the engine's tensor that one piece covers; what a sample costs in memory is a few of these, whatever its length. */
const PIECE_BYTES = 4 * 1024 * 1024;

/**
 * The auxiliary states of a sample as the drafters read them: [tokens, (layers - 1) * width], bf16, the
 * chosen layers side by side.
 * @throws TidemarkError `capture-bad` at the first value that is not finite or the first row of zeros
 */
export function auxiliaryStates(states: StateRows): AsyncGenerator<Uint8Array> {
  return bf16Pieces(states, 0, states.layers - 1, null);
}

/**
 * The last hidden state, [tokens, width], bf16; after the target's final norm when one is given.
 * @throws TidemarkError `capture-bad` as above
 */
export function lastState(states: StateRows, norm: FinalNorm | null): AsyncGenerator<Uint8Array> {
  return bf16Pieces(states, states.layers - 1, states.layers, norm);
}

/** Layer slots `[first, end)` of every row: taken out, normed, rounded to nearest even, checked. */
async function* bf16Pieces(states: StateRows, first: number, end: number, norm: FinalNorm | null): AsyncGenerator<Uint8Array> {
  const { tokens, layers, width, dtype } = states;
  assert(norm === null || end - first === 1, 'only the last state is normed');
  const rowElements = (end - first) * width;
  const pieceRows = Math.max(1, Math.floor(PIECE_BYTES / (layers * width * DTYPE_BYTES[dtype])));
  const floats = new Float32Array(Math.min(pieceRows, tokens) * rowElements);
  const rounded = new Uint16Array(floats.length);
  for (let from = 0; from < tokens; from += pieceRows) {
    const to = Math.min(tokens, from + pieceRows);
    const bytes = await states.readRows(from, to);
    const values = floats.subarray(0, (to - from) * rowElements);
    takeSlots(bytes, dtype, layers * width, first * width, rowElements, values);
    if (norm !== null) applyFinalNorm(norm, values, width);
    const out = rounded.subarray(0, values.length);
    roundToBf16(values, out);
    refuseBadRows(out, width, from, first, end - first);
    yield new Uint8Array(out.buffer, out.byteOffset, out.byteLength);
  }
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

/**
 * A decoder's residual stream is never exactly zero over a whole row, and never infinite: either is an
 * engine's fault (vllm-project/vllm#46301, #45734), and a drafter trains on both without complaint.
 */
function refuseBadRows(values: Uint16Array, width: number, firstRow: number, firstSlot: number, slots: number): void {
  for (let start = 0; start < values.length; start += width) {
    let any = 0;
    for (let at = start; at < start + width; at += 1) {
      const bits = values[at] as number;
      any |= bits & 0x7fff;
      if ((bits & 0x7f80) === 0x7f80) {
        const kind = (bits & 0x007f) === 0 ? 'infinite' : 'not a number';
        throw badRow(`a value that is ${kind}`, start / width);
      }
    }
    if (any === 0) throw badRow('nothing but zeros', start / width);
  }
  function badRow(what: string, group: number): TidemarkError {
    const row = firstRow + Math.floor(group / slots);
    return new TidemarkError('capture-bad', `layer slot ${firstSlot + (group % slots)} has ${what} in row ${row}`);
  }
}
