import type { Dtype } from './tensors.ts';
import { STORAGE_CLASSES, TORCH_DTYPES } from './torch-dtypes.ts';

/** What a pickle holds, as data. Lists and dicts may be shared or hold themselves: walk them with a limit. */
export type PickleValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PickleList
  | PickleTuple
  | PickleDict
  | PickleGlobal
  | PickleStorage
  | PickleTensor;

export interface PickleList {
  readonly kind: 'list';
  readonly items: PickleValue[];
}

export interface PickleTuple {
  readonly kind: 'tuple';
  readonly items: readonly PickleValue[];
}

/** In the order of the pickle; a key may come twice, and then the later one counts. */
export interface PickleDict {
  readonly kind: 'dict';
  readonly entries: (readonly [PickleValue, PickleValue])[];
}

/** A name of the allow-list. It stands for what it does to data; nothing is imported or called. */
type GlobalMeaning =
  | { readonly is: 'rebuild-tensor' | 'rebuild-tensor-typed' | 'rebuild-parameter' | 'ordered-dict' | 'size' | 'encode' }
  | { readonly is: 'storage'; readonly dtype: Dtype | null }
  | { readonly is: 'dtype'; readonly dtype: Dtype };

export interface PickleGlobal {
  readonly kind: 'global';
  readonly name: string;
  readonly meaning: GlobalMeaning;
}

export interface PickleStorage {
  readonly kind: 'storage';
  /** null: untyped, its elements are bytes. */
  readonly dtype: Dtype | null;
  /** The record `data/<key>` holds its bytes. */
  readonly key: string;
  readonly elements: number;
}

export interface PickleTensor {
  readonly kind: 'tensor';
  readonly storage: PickleStorage;
  readonly dtype: Dtype;
  /** Offset, shape and stride count elements of `dtype`. */
  readonly offset: number;
  readonly shape: readonly number[];
  readonly stride: readonly number[];
}

/**
 * Every global that a dict of tensors needs (torch 1.6 to 2.13), and no other. A pickle that names
 * anything else is refused, because unpickling it elsewhere would run that code.
 */
export const ALLOWED_GLOBALS: ReadonlyMap<string, PickleGlobal> = new Map(
  [
    ['torch._utils._rebuild_tensor_v2', { is: 'rebuild-tensor' }] as const,
    ['torch._utils._rebuild_tensor_v3', { is: 'rebuild-tensor-typed' }] as const,
    ['torch._utils._rebuild_parameter', { is: 'rebuild-parameter' }] as const,
    ['collections.OrderedDict', { is: 'ordered-dict' }] as const,
    ['torch.Size', { is: 'size' }] as const,
    // How protocol 2 writes a bytes object.
    ['_codecs.encode', { is: 'encode' }] as const,
    ['torch.storage.UntypedStorage', { is: 'storage', dtype: null }] as const,
    ...[...STORAGE_CLASSES].map(([dtype, name]) => [`torch.${name}`, { is: 'storage', dtype }] as const),
    ...[...TORCH_DTYPES].map(([name, dtype]) => [`torch.${name}`, { is: 'dtype', dtype }] as const),
  ].map(([name, meaning]) => [name, { kind: 'global', name, meaning }]),
);
