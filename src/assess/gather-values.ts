import type { TensorInfo } from '../format/tensors.ts';
import type { StoredSample } from '../store/store.ts';

/** Read at a time, so that a sample of any length costs a few MB. A multiple of the page size. */
const PIECE_BYTES = 4 * 1024 * 1024;
const PAGE_BYTES = 4096;

export type ValuesSeen =
  | { readonly kind: 'good' }
  /** A float type that we do not decode: the values stay unread. */
  | { readonly kind: 'unknown'; readonly detail: string }
  | { readonly kind: 'bad'; readonly reason: 'nan' | 'inf' | 'zero'; readonly detail: string }
  /** Whole pages of the file are zero and no row boundary explains it: bytes that never reached the disk. */
  | { readonly kind: 'zero-pages'; readonly detail: string };

/** Exponent mask and mantissa mask of a float of 16 or 32 bits. */
const FLOATS: Readonly<Record<string, { readonly bytes: 2 | 4; readonly exponent: number; readonly mantissa: number }>> = {
  BF16: { bytes: 2, exponent: 0x7f80, mantissa: 0x007f },
  F16: { bytes: 2, exponent: 0x7c00, mantissa: 0x03ff },
  F32: { bytes: 4, exponent: 0x7f800000, mantissa: 0x007fffff },
};

/** Reads all state tensors: NaN, infinities, rows of zeros, page-aligned holes. The first tensor that is bad decides. */
export async function scanValues(sample: StoredSample, stateTensors: readonly string[]): Promise<ValuesSeen> {
  const width = Math.min(...stateTensors.map((name) => sample.tensors.get(name)?.shape.at(-1) ?? Number.POSITIVE_INFINITY));
  for (const name of stateTensors) {
    const tensor = sample.tensors.get(name);
    if (tensor === undefined || tensor.bytes === 0) continue;
    if (!tensor.contiguous) return { kind: 'unknown', detail: `${name} is not contiguous` };
    const seen = await scanTensor(sample, tensor, width);
    if (seen.kind !== 'good') return seen;
  }
  return { kind: 'good' };
}

/** @param width elements of one layer's state of one token: a tensor's row holds one or several */
async function scanTensor(sample: StoredSample, tensor: TensorInfo, width: number): Promise<ValuesSeen> {
  const float = FLOATS[tensor.dtype];
  if (float === undefined) return { kind: 'unknown', detail: `${tensor.name} is ${tensor.dtype}` };
  const rowElements = Number.isFinite(width) && width > 0 ? width : (tensor.shape.at(-1) ?? 1);
  const scan = { zeroFrom: 0, zeroRows: 0, firstZeroRow: -1, longestHole: 0, holeFrom: 0 };
  const holeBytes = PAGE_BYTES / float.bytes;
  let element = 0;
  for (let at = 0; at < tensor.bytes; at += PIECE_BYTES) {
    const bytes = await sample.source.read(tensor.fileOffset + at, Math.min(PIECE_BYTES, tensor.bytes - at));
    const values = elementsOf(bytes, float.bytes);
    for (let i = 0; i < values.length; i += 1, element += 1) {
      const bits = values[i] ?? 0;
      if ((bits & float.exponent) === float.exponent) {
        const reason = (bits & float.mantissa) === 0 ? 'inf' : 'nan';
        return { kind: 'bad', reason, detail: `${tensor.name} holds ${reason === 'inf' ? 'an infinity' : 'NaN'} at element ${element}` };
      }
      if ((bits & (float.exponent | float.mantissa)) !== 0) {
        if (element - scan.zeroFrom >= Math.min(rowElements, holeBytes)) closeRun(scan, element, rowElements, tensor, float.bytes);
        scan.zeroFrom = element + 1;
      }
    }
  }
  closeRun(scan, element, rowElements, tensor, float.bytes);
  if (scan.zeroRows * rowElements === element) return { kind: 'bad', reason: 'zero', detail: `${tensor.name} is all zero` };
  if (scan.zeroRows > 0) {
    const detail = `${scan.zeroRows} rows of ${tensor.name} are all zero, the first at ${scan.firstZeroRow}`;
    // A run that ends in the middle of a row was not written by an engine, which writes rows.
    if (scan.longestHole > 0)
      return {
        kind: 'zero-pages',
        detail: `${tensor.name} has ${scan.longestHole} zero bytes from ${scan.holeFrom} of the file, whole pages`,
      };
    return { kind: 'bad', reason: 'zero', detail };
  }
  if (scan.longestHole > 0) {
    return {
      kind: 'zero-pages',
      detail: `${tensor.name} has ${scan.longestHole} zero bytes from ${scan.holeFrom} of the file, whole pages`,
    };
  }
  return { kind: 'good' };
}

/** A run of zeros `[zeroFrom, end)` has ended: does it cover rows, and is it whole pages of the file that no row explains? */
function closeRun(
  scan: { zeroFrom: number; zeroRows: number; firstZeroRow: number; longestHole: number; holeFrom: number },
  end: number,
  rowElements: number,
  tensor: TensorInfo,
  elementBytes: number,
): void {
  const first = Math.ceil(scan.zeroFrom / rowElements);
  const last = Math.floor(end / rowElements);
  if (last > first) {
    scan.zeroRows += last - first;
    if (scan.firstZeroRow < 0) scan.firstZeroRow = first;
  }
  const ragged = scan.zeroFrom % rowElements !== 0 || end % rowElements !== 0;
  const from = Math.ceil((tensor.fileOffset + scan.zeroFrom * elementBytes) / PAGE_BYTES) * PAGE_BYTES;
  const to = Math.floor((tensor.fileOffset + end * elementBytes) / PAGE_BYTES) * PAGE_BYTES;
  if (ragged && to - from > scan.longestHole) {
    scan.longestHole = to - from;
    scan.holeFrom = from;
  }
}

function elementsOf(bytes: Uint8Array, elementBytes: 2 | 4): Uint16Array | Uint32Array {
  const whole = bytes.byteOffset % elementBytes === 0 ? bytes : Uint8Array.from(bytes);
  const count = Math.floor(whole.byteLength / elementBytes);
  return elementBytes === 2
    ? new Uint16Array(whole.buffer, whole.byteOffset, count)
    : new Uint32Array(whole.buffer, whole.byteOffset, count);
}
