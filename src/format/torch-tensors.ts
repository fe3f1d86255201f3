import { quote, refused, torn } from './damage.ts';
import type { PickleTensor, PickleValue } from './pickle-values.ts';
import { rowMajorStrides } from './strides.ts';
import { DTYPE_BYTES, elementCount, type TensorInfo } from './tensors.ts';

/** A value of a saved object that is no tensor. */
type Scalar = null | boolean | number | bigint | string | Uint8Array;
export type PlainValue = Scalar | readonly Scalar[];

export interface SavedObject {
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  readonly values: ReadonlyMap<string, PlainValue>;
}

/** A record's data in the file. */
export interface RecordSpan {
  readonly offset: number;
  readonly bytes: number;
}

const DEPTH_MAX = 32;
/** Shared lists unfold at each place they stand, so a small pickle could name endlessly many values. */
const VISITS_MAX = 200_000;

/**
 * Names every tensor and plain value of an unpickled object. A dict's keys and a list's positions make the
 * name, joined by `/`; the tensors of a flat dict have their keys for names, and a lone tensor has the empty
 * name. A list of plain values only is one value.
 *
 * @param recordOf the record that holds a storage, by the storage's key
 * @throws DamageFound when a storage is missing or of another size, or a tensor reaches beyond it
 */
export function tensorsOf(root: PickleValue, recordOf: (key: string) => RecordSpan | undefined): SavedObject {
  const tensors = new Map<string, TensorInfo>();
  const values = new Map<string, PlainValue>();
  let visits = 0;
  const claim = (name: string): void => {
    if (tensors.has(name) || values.has(name)) refused('hostile', `data.pkl has two values named ${quote(name)}`);
  };
  const visit = (value: PickleValue, name: string, depth: number): void => {
    visits += 1;
    if (visits > VISITS_MAX) refused('hostile', `data.pkl holds more than ${VISITS_MAX} values`);
    if (depth > DEPTH_MAX) refused('hostile', `data.pkl nests more than ${DEPTH_MAX} deep`);
    if (isScalar(value)) {
      claim(name);
      values.set(name, value);
      return;
    }
    switch (value.kind) {
      case 'tensor':
        claim(name);
        tensors.set(name, locate(value, name, recordOf));
        return;
      case 'dict':
        for (const [key, item] of lastOfEach(value.entries)) visit(item, depth === 0 ? key : `${name}/${key}`, depth + 1);
        return;
      case 'list':
      case 'tuple': {
        const items: readonly PickleValue[] = value.items;
        visits += items.length;
        const plain = items.filter(isScalar);
        if (plain.length === items.length) {
          claim(name);
          values.set(name, plain);
          return;
        }
        items.forEach((item, index) => {
          visit(item, depth === 0 ? `${index}` : `${name}/${index}`, depth + 1);
        });
        return;
      }
      case 'global':
      case 'storage':
        refused('hostile', `data.pkl holds a ${value.kind} as the value ${quote(name)}`);
    }
  };
  visit(root, '', 0);
  return { tensors, values };
}

function isScalar(value: PickleValue): value is Scalar {
  return value === null || typeof value !== 'object' || value instanceof Uint8Array;
}

/** A key that comes twice keeps its last value, as in Python. */
function lastOfEach(entries: readonly (readonly [PickleValue, PickleValue])[]): Map<string, PickleValue> {
  const last = new Map<string, PickleValue>();
  const kinds = new Map<string, string>();
  for (const [key, item] of entries) {
    if (typeof key !== 'string' && typeof key !== 'number') refused('hostile', 'data.pkl has a key that is neither text nor a number');
    const name = `${key}`;
    if ((kinds.get(name) ?? typeof key) !== typeof key) refused('hostile', `data.pkl has the key ${quote(name)} as text and as a number`);
    kinds.set(name, typeof key);
    last.set(name, item);
  }
  return last;
}

/** Proves that the tensor lies inside its storage, and says where in the file. */
function locate(tensor: PickleTensor, name: string, recordOf: (key: string) => RecordSpan | undefined): TensorInfo {
  const { storage, dtype, shape, stride } = tensor;
  const where = `tensor ${quote(name)}`;
  const record = recordOf(storage.key);
  if (record === undefined) torn('structure', `${where} is in storage ${quote(storage.key)}, which the file does not have`);
  const elementBytes = DTYPE_BYTES[dtype];
  const storageBytes = storage.elements * (storage.dtype === null ? 1 : DTYPE_BYTES[storage.dtype]);
  if (storageBytes !== record.bytes)
    torn('structure', `storage ${quote(storage.key)} has ${record.bytes} bytes in place of ${storageBytes}`);
  // An axis of no length makes none of the tensor, whatever the others would overflow to.
  const elements = shape.includes(0) ? 0 : elementCount(shape);
  let last = tensor.offset;
  shape.forEach((length, axis) => {
    last += (length - 1) * (stride[axis] ?? 0);
  });
  const inside = elements === 0 ? tensor.offset * elementBytes <= storageBytes : (last + 1) * elementBytes <= storageBytes;
  if (!inside) torn('structure', `${where} reaches beyond its storage`);
  // An expanded tensor repeats elements: a few bytes could stand for any amount of memory.
  if (elements * elementBytes > storageBytes) refused('hostile', `${where} repeats the elements of its storage`);
  const dense = rowMajorStrides(shape);
  return {
    name,
    dtype,
    shape,
    stride,
    contiguous: elements === 0 || shape.every((length, axis) => length === 1 || stride[axis] === dense[axis]),
    fileOffset: record.offset + tensor.offset * elementBytes,
    bytes: elements * elementBytes,
    record: `data/${storage.key}`,
  };
}
