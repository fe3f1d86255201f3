import { roundToBf16 } from '../format/bf16.ts';
import { writeSafetensors } from '../format/safetensors-writer.ts';
import type { Dtype, TensorSource } from '../format/tensors.ts';
import type { Host } from '../host/host.ts';
import type { LayerStates } from './model.ts';

/** The captured rows of one prompt, as they will lie in its file. */
export interface Capture {
  readonly tokenIds: readonly number[];
  readonly layerCount: number;
  readonly hiddenSize: number;
  /** [row][layer][hidden]; the row count is its length over the other two, and equals the ids' count when all is well. */
  readonly values: Float32Array;
}

export type CaptureDtype = 'float32' | 'bfloat16';

/** A finished capture on its way to its name. */
export interface CaptureFile {
  readonly path: string;
  readonly mode: number;
  readonly tensors: readonly TensorSource[];
}

/** Brings a capture to its path; rejects with the host's error. */
export type PublishCapture = (file: CaptureFile) => Promise<void>;

/** Interleaves the wanted boundaries token by token: the one copy, after which the batch's tensors can go. */
export function packCapture(tokenIds: readonly number[], states: LayerStates, layerIds: readonly number[], hiddenSize: number): Capture {
  const values = new Float32Array(states.tokenCount * layerIds.length * hiddenSize);
  layerIds.forEach((id, slot) => {
    const layer = states.layer(id);
    for (let token = 0; token < states.tokenCount; token++) {
      values.set(layer.subarray(token * hiddenSize, (token + 1) * hiddenSize), (token * layerIds.length + slot) * hiddenSize);
    }
  });
  return { tokenIds, layerCount: layerIds.length, hiddenSize, values };
}

/** `hidden_states` [rows, layers, hidden] and `token_ids` [ids], as vLLM's connector names them. */
export function captureTensors(capture: Capture, dtype: CaptureDtype): readonly TensorSource[] {
  const rowLength = capture.layerCount * capture.hiddenSize;
  const stored = storedAs(capture.values, dtype);
  const tokenIds = BigInt64Array.from(capture.tokenIds, (id) => BigInt(id));
  return [
    {
      name: 'hidden_states',
      dtype: stored.dtype,
      shape: [capture.values.length / rowLength, capture.layerCount, capture.hiddenSize],
      pieces: () => [stored.bytes],
    },
    { name: 'token_ids', dtype: 'I64', shape: [tokenIds.length], pieces: () => [bytesOf(tokenIds)] },
  ];
}

function storedAs(values: Float32Array, dtype: CaptureDtype): { readonly dtype: Dtype; readonly bytes: Uint8Array } {
  if (dtype === 'float32') return { dtype: 'F32', bytes: bytesOf(values) };
  const rounded = new Uint16Array(values.length);
  roundToBf16(values, rounded);
  return { dtype: 'BF16', bytes: bytesOf(rounded) };
}

function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/**
 * As safetensors 0.8.0 and later write: a temporary sibling, then a rename, and no sync. The file appears whole or not at
 * all; whoever must survive a power loss syncs it, as the commit path does.
 */
export function createPublisher(host: Host): PublishCapture {
  return async ({ path, mode, tensors }) => {
    const temporary = `${path}.${randomHex(host, 4)}.tmp`;
    try {
      await writeWhole(host, temporary, mode, tensors);
      await host.files.rename(temporary, path);
    } catch (error) {
      await host.files.unlink(temporary).catch(() => undefined);
      throw error;
    }
  };
}

async function writeWhole(host: Host, path: string, mode: number, tensors: readonly TensorSource[]): Promise<void> {
  const file = await host.files.create(path, mode);
  try {
    for await (const piece of writeSafetensors(tensors)) await file.write(piece);
  } finally {
    await file.close();
  }
}

export function randomHex(host: Host, bytes: number): string {
  return Array.from(host.randomBytes(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
