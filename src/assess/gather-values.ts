import type { TensorInfo } from '../format/tensors.ts';
import { type FloatReport, floatScanner, isScannable, type ZeroRun, zeroPageScanner } from '../format/values.ts';
import type { StoredSample } from '../store/store.ts';

/** Read at a time, so that a sample of any length costs a few MB. */
const PIECE_BYTES = 4 * 1024 * 1024;

export type ValuesSeen =
  | { readonly kind: 'good' }
  /** A float type that is not decoded, or a tensor not stored in one piece: the values stay unread. */
  | { readonly kind: 'unknown'; readonly detail: string }
  | { readonly kind: 'bad'; readonly reason: 'nan' | 'inf' | 'zero'; readonly detail: string }
  /** Whole pages of the file are zero in a tensor that is not: bytes that never reached the disk, or that nobody computed. */
  | { readonly kind: 'zero-pages'; readonly detail: string };

/** Reads all state tensors: NaN, infinities, rows of zeros, pages of zeros. The first tensor that is bad decides. */
export async function scanValues(sample: StoredSample, stateTensors: readonly string[]): Promise<ValuesSeen> {
  const width = Math.min(...stateTensors.map((name) => sample.tensors.get(name)?.shape.at(-1) ?? Number.POSITIVE_INFINITY));
  for (const name of stateTensors) {
    const tensor = sample.tensors.get(name);
    if (tensor === undefined || tensor.bytes === 0) continue;
    const seen = await scanTensor(sample, tensor, width);
    if (seen.kind !== 'good') return seen;
  }
  return { kind: 'good' };
}

/** @param width elements of one layer's state of one token: a tensor's row holds one of these, or several side by side */
async function scanTensor(sample: StoredSample, tensor: TensorInfo, width: number): Promise<ValuesSeen> {
  const { name, dtype } = tensor;
  if (!isScannable(dtype)) return { kind: 'unknown', detail: `${name} is ${dtype}` };
  if (!tensor.contiguous) return { kind: 'unknown', detail: `${name} is not stored in one piece` };
  const last = tensor.shape.at(-1) ?? 1;
  const rowElements = last % width === 0 ? width : last;
  const floats = floatScanner(dtype, rowElements);
  const pages = zeroPageScanner(tensor.fileOffset);
  for (let at = 0; at < tensor.bytes; at += PIECE_BYTES) {
    const bytes = await sample.source.read(tensor.fileOffset + at, Math.min(PIECE_BYTES, tensor.bytes - at));
    floats.push(bytes);
    pages.push(bytes);
  }
  return judgeTensor(name, last / rowElements, floats.report(), pages.runs());
}

function judgeTensor(name: string, slots: number, seen: FloatReport, holes: readonly ZeroRun[]): ValuesSeen {
  const row = (at: number | null): string => {
    const slot = slots > 1 ? `, layer slot ${(at ?? 0) % slots}` : '';
    return `token ${Math.floor((at ?? 0) / slots)}${slot}`;
  };
  if (seen.nan > 0) return { kind: 'bad', reason: 'nan', detail: `${name} holds ${seen.nan} NaN, first at element ${seen.firstNan}` };
  if (seen.inf > 0)
    return { kind: 'bad', reason: 'inf', detail: `${name} holds ${seen.inf} infinities, first at element ${seen.firstInf}` };
  if (seen.allZero) return { kind: 'bad', reason: 'zero', detail: `${name} is all zero` };
  const hole = holes[0];
  if (hole !== undefined) {
    return {
      kind: 'zero-pages',
      detail: `${name} has ${holes.length === 1 ? 'a run' : 'runs'} of zero pages, first at bytes ${hole.from}-${hole.to} of the file`,
    };
  }
  if (seen.zeroRows > 0) {
    return { kind: 'bad', reason: 'zero', detail: `${name} has ${seen.zeroRows} rows of zeros, first at ${row(seen.firstZeroRow)}` };
  }
  return { kind: 'good' };
}
