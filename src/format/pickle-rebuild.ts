import { Buffer } from 'node:buffer';
import { quote, refused, torn } from './damage.ts';
import type { PickleGlobal, PickleStorage, PickleTensor, PickleTuple, PickleValue } from './pickle-values.ts';
import type { Dtype } from './tensors.ts';

/** More axes than torch itself allows in most places; a shape is never longer. */
const AXES_MAX = 64;

function isKind<K extends 'list' | 'tuple' | 'dict' | 'global' | 'storage' | 'tensor'>(
  value: PickleValue | undefined,
  kind: K,
): value is Extract<PickleValue, { kind: K }> {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === kind;
}

function isCount(value: PickleValue | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function counts(value: PickleValue | undefined, what: string): readonly number[] {
  if (!isKind(value, 'tuple') || value.items.length > AXES_MAX)
    torn('structure', `data.pkl: a tensor's ${what} is no tuple of up to ${AXES_MAX}`);
  const items: number[] = [];
  for (const item of value.items) {
    if (!isCount(item)) torn('structure', `data.pkl: a tensor's ${what} holds something that is no count`);
    items.push(item);
  }
  return items;
}

/** `('storage', torch.LongStorage, '0', 'cpu', 4096)`: torch's persistent id of a storage. */
export function storageOf(id: PickleValue): PickleStorage {
  if (!isKind(id, 'tuple') || id.items.length !== 5) torn('structure', 'data.pkl: a persistent id is no storage of five parts');
  const [tag, type, key, location, elements] = id.items;
  if (tag !== 'storage' || !isKind(type, 'global') || type.meaning.is !== 'storage')
    torn('structure', 'data.pkl: a persistent id is no storage');
  if (typeof key !== 'string' || typeof location !== 'string') torn('structure', 'data.pkl: a storage has no key');
  if (!isCount(elements)) torn('structure', `data.pkl: storage ${quote(key)} has no size`);
  return { kind: 'storage', dtype: type.meaning.dtype, key, elements };
}

function tensorOf(args: PickleTuple, typed: boolean): PickleTensor {
  const [storage, offset, shape, stride, , , last] = args.items;
  const least = typed ? 7 : 6;
  if (args.items.length < least || args.items.length > least + 1) torn('structure', `data.pkl: a tensor of ${args.items.length} parts`);
  if (!isKind(storage, 'storage')) torn('structure', 'data.pkl: a tensor without a storage');
  if (!isCount(offset)) torn('structure', 'data.pkl: a tensor without an offset');
  let dtype: Dtype | null = storage.dtype;
  if (typed) {
    if (!isKind(last, 'global') || last.meaning.is !== 'dtype') torn('structure', 'data.pkl: a tensor without a dtype');
    dtype = last.meaning.dtype;
  }
  if (dtype === null) torn('structure', 'data.pkl: a tensor without a dtype');
  const axes = { shape: counts(shape, 'shape'), stride: counts(stride, 'stride') };
  if (axes.shape.length !== axes.stride.length) torn('structure', 'data.pkl: a tensor with another number of strides than axes');
  return { kind: 'tensor', storage, dtype, offset, ...axes };
}

/** What torch's unpickler would get from calling the global, for the few that only arrange data. */
export function rebuild(global: PickleGlobal, args: PickleValue): PickleValue {
  if (!isKind(args, 'tuple')) torn('structure', `data.pkl: ${global.name} without arguments`);
  const first = args.items[0];
  switch (global.meaning.is) {
    case 'rebuild-tensor':
      return tensorOf(args, false);
    case 'rebuild-tensor-typed':
      return tensorOf(args, true);
    case 'rebuild-parameter':
      if (!isKind(first, 'tensor')) torn('structure', 'data.pkl: a parameter without a tensor');
      return first;
    case 'ordered-dict':
      // Older pickles give the items as one list of pairs; torch's give none and set them afterwards.
      if (args.items.length > 0) refused('hostile', 'data.pkl: an OrderedDict with arguments, which torch.save does not write');
      return { kind: 'dict', entries: [] };
    case 'size':
      if (!isKind(first, 'tuple')) torn('structure', 'data.pkl: a torch.Size without its tuple');
      return first;
    case 'encode':
      if (typeof first !== 'string' || args.items[1] !== 'latin1' || args.items.length !== 2) {
        refused('hostile', 'data.pkl: _codecs.encode for something other than bytes');
      }
      if ([...first].some((character) => character.charCodeAt(0) > 0xff)) torn('structure', 'data.pkl: bytes beyond 255');
      return new Uint8Array(Buffer.from(first, 'latin1'));
    case 'storage':
    case 'dtype':
      return refused('hostile', `data.pkl calls ${global.name}, which torch.save does not write`);
  }
}
