import type { RandomAccess } from '../core/random-access.ts';
import { bf16ToFloat32, f16ToFloat32 } from '../format/bf16.ts';
import { DTYPE_BYTES, type TensorInfo } from '../format/tensors.ts';

/** Names of the last state where a file has it apart, and of what holds it as its last layer, over all layouts. */
const APART = ['hidden_state', 'target_last_hidden_states', 'target_hiddens', 'target', 'hidden_states/3', 'hidden_states'];

/** Where a place's last state lies: `fileOffset + place * strideBytes`, `width` elements. */
export interface LastState {
  readonly dtype: 'BF16' | 'F16' | 'F32';
  readonly width: number;
  readonly fileOffset: number;
  readonly strideBytes: number;
}

/**
 * Told by shape, since layouts give one name to different things: [T, H] and [1, T, H] are the last state, [T, n, H] has it in its
 * last slot (speculators, vLLM). A text says why there is none.
 */
export function lastStateOf(tensors: ReadonlyMap<string, TensorInfo>, tokens: number, width: number): LastState | string {
  for (const name of APART) {
    const tensor = tensors.get(name);
    if (tensor === undefined) continue;
    const shape = tensor.shape.length === 3 && tensor.shape[0] === 1 && tokens !== 1 ? tensor.shape.slice(1) : tensor.shape;
    const slots = shape.length === 3 ? (shape[1] ?? 0) : 1;
    if (shape.length < 2 || shape.length > 3 || shape[0] !== tokens || shape.at(-1) !== width || slots === 0) continue;
    const { dtype, fileOffset } = tensor;
    // A view of a larger tensor, as a careless writer saves it, has its rows apart; within a row values must lie together.
    const stride = tensor.stride.slice(tensor.shape.length - shape.length);
    if (stride.at(-1) !== 1 && width !== 1) return `${name} is not stored in one piece`;
    if (dtype !== 'BF16' && dtype !== 'F16' && dtype !== 'F32') return `${name} is ${dtype}`;
    const size = DTYPE_BYTES[dtype];
    const slotBytes = shape.length === 3 ? (stride[1] ?? width) * size : 0;
    return { dtype, width, fileOffset: fileOffset + (slots - 1) * slotBytes, strideBytes: (stride[0] ?? width) * size };
  }
  return `none of its tensors is a last state of ${tokens} tokens, ${width} wide`;
}

/** The states of some places as float32, one after the other. Ascending places read a stream once. */
export async function readStates(source: RandomAccess, last: LastState, places: readonly number[]): Promise<Float32Array> {
  const { dtype, width, fileOffset, strideBytes } = last;
  const out = new Float32Array(places.length * width);
  for (const [at, place] of places.entries()) {
    const bytes = Uint8Array.from(await source.read(fileOffset + place * strideBytes, width * DTYPE_BYTES[dtype]));
    const state = out.subarray(at * width, (at + 1) * width);
    if (dtype === 'F32') state.set(new Float32Array(bytes.buffer));
    else if (dtype === 'BF16') bf16ToFloat32(new Uint16Array(bytes.buffer), state);
    else f16ToFloat32(new Uint16Array(bytes.buffer), state);
  }
  return out;
}
