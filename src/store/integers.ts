import type { Damage, Parsed, TensorInfo } from '../format/tensors.ts';

/** Ids of a sample that we are ready to hold: sixteen million tokens, 128 MB. A longer record is no sample of a model that exists. */
export const IDS_BYTES_MAX = 16 * 1024 * 1024 * 8;

/**
 * All elements of an integer tensor, each from 0 to `most`. A mask may be floats, 0 or 1, as some trainers keep it.
 * @param bytes the tensor's own, row-major
 */
export function decodeIntegers(bytes: Uint8Array, tensor: TensorInfo, most: number): Parsed<Uint32Array> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read = integerReader(tensor.dtype, view);
  if (read === null) return structure(`${tensor.name} is ${tensor.dtype}, not an integer type`);
  const values = new Uint32Array(bytes.length / read.bytes);
  for (let place = 0; place < values.length; place += 1) {
    const value = read.at(place * read.bytes);
    if (!(value >= 0 && value <= most && Number.isInteger(value))) return structure(`${tensor.name} holds ${value} at place ${place}`);
    values[place] = value;
  }
  return { ok: true, value: values };
}

function integerReader(dtype: TensorInfo['dtype'], view: DataView): { readonly bytes: number; at(offset: number): number } | null {
  switch (dtype) {
    case 'I64':
      // Two halves: a BigInt for each id would cost more than all the rest.
      return { bytes: 8, at: (offset) => view.getUint32(offset, true) + view.getInt32(offset + 4, true) * 0x100000000 };
    case 'I32':
      return { bytes: 4, at: (offset) => view.getInt32(offset, true) };
    case 'I16':
      return { bytes: 2, at: (offset) => view.getInt16(offset, true) };
    case 'U8':
    case 'BOOL':
      return { bytes: 1, at: (offset) => view.getUint8(offset) };
    case 'F32':
      return { bytes: 4, at: (offset) => view.getFloat32(offset, true) };
    default:
      return null;
  }
}

export function structure(detail: string): { ok: false; damage: Damage } {
  return { ok: false, damage: { kind: 'torn', reason: 'structure', detail } };
}
