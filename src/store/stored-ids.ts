import type { Parsed, TensorInfo } from '../format/tensors.ts';
import { decodeIntegers, IDS_BYTES_MAX, structure } from './integers.ts';
import type { Layout } from './store.ts';

const ID_MOST = 0xffffffff;

export interface StoredIds {
  readonly inputIds: Uint32Array;
  readonly lossMask: Uint8Array | null;
}

/** The tensors that say which row a file is of; the mask is absent where the layout or this file has none. */
export function idTensors(
  layout: Layout,
  tensors: ReadonlyMap<string, TensorInfo>,
): Parsed<{ readonly ids: TensorInfo; readonly mask: TensorInfo | null }> {
  const ids = tensors.get(layout.idsTensor);
  const mask = layout.maskTensor === null ? null : (tensors.get(layout.maskTensor) ?? null);
  if (ids === undefined) return structure(`it has no tensor ${layout.idsTensor}`);
  for (const tensor of mask === null ? [ids] : [ids, mask]) {
    if (!tensor.contiguous) return structure(`${tensor.name} is not stored in one piece`);
    if (tensor.bytes > IDS_BYTES_MAX) return structure(`${tensor.name} claims ${tensor.bytes} bytes`);
  }
  return { ok: true, value: { ids, mask } };
}

/** @param mask null where there is none */
export function decodeIds(
  ids: { readonly tensor: TensorInfo; readonly bytes: Uint8Array },
  mask: { readonly tensor: TensorInfo; readonly bytes: Uint8Array } | null,
): Parsed<StoredIds> {
  const inputIds = decodeIntegers(ids.bytes, ids.tensor, ID_MOST);
  if (!inputIds.ok) return inputIds;
  if (mask === null) return { ok: true, value: { inputIds: inputIds.value, lossMask: null } };
  const lossMask = decodeIntegers(mask.bytes, mask.tensor, 1);
  if (!lossMask.ok) return lossMask;
  return { ok: true, value: { inputIds: inputIds.value, lossMask: Uint8Array.from(lossMask.value) } };
}
