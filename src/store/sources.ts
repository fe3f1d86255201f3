import { assert } from '../core/assert.ts';
import type { Axis } from '../core/run-layout.ts';
import type { Dtype, TensorSource } from '../format/tensors.ts';
import type { Form, TensorForm } from './form.ts';
import type { SampleStates } from './store.ts';

/** The tensors of a new file of a form, in its order. Tensors that only some versions of a tool write are left out. */
export function sourcesOf(form: Form, sample: SampleStates): TensorSource[] {
  const tokens = sample.inputIds.length;
  const { width, auxiliaryLayers: auxiliary, dtype } = sample;
  const shape = (wanted: TensorForm, layers: number): number[] => wanted.axes.map((axis) => lengthOf(axis, tokens, width, layers));
  // Where each auxiliary layer has a tensor of its own, they come in the order of the layers.
  let layer = 0;
  const states = (wanted: TensorForm, first: number, end: number): TensorSource => ({
    name: wanted.name,
    dtype,
    shape: shape(wanted, end - first),
    pieces: () => sample.slots(first, end),
  });
  return form
    .filter((wanted) => wanted.optional !== true)
    .map((wanted) => {
      const integers = wanted.dtype ?? 'I64';
      switch (wanted.role) {
        case 'ids':
          return { name: wanted.name, dtype: integers, shape: shape(wanted, 1), pieces: () => [integerBytes(sample.inputIds, integers)] };
        case 'mask':
          return { name: wanted.name, dtype: integers, shape: shape(wanted, 1), pieces: () => [integerBytes(sample.lossMask, integers)] };
        case 'auxiliary': {
          if (wanted.axes.includes('layers x width') || wanted.axes.includes('layers')) return states(wanted, 0, auxiliary);
          const at = layer++;
          assert(at < auxiliary, 'as many layers as the form has tensors for');
          return states(wanted, at, at + 1);
        }
        case 'last':
          return states(wanted, auxiliary, auxiliary + 1);
        case 'all':
          return states(wanted, 0, auxiliary + 1);
      }
      throw new RangeError(`a tensor for ${String(wanted.role)}`);
    });
}

function lengthOf(axis: Axis, tokens: number, width: number, layers: number): number {
  switch (axis) {
    case '1':
      return 1;
    case 'tokens':
      return tokens;
    case 'width':
      return width;
    case 'layers x width':
      return layers * width;
    case 'layers':
      return layers;
  }
}

function integerBytes(values: Uint32Array | Uint8Array, dtype: Dtype): Uint8Array {
  const view = integersOf(values, dtype);
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

function integersOf(values: Uint32Array | Uint8Array, dtype: Dtype): ArrayBufferView {
  switch (dtype) {
    case 'I64':
      return BigInt64Array.from(values, BigInt);
    case 'I32':
      assert(
        values.every((value) => value <= 0x7fffffff),
        'ids of 31 bits',
      );
      return Int32Array.from(values);
    case 'I16':
      assert(
        values.every((value) => value <= 0x7fff),
        'ids of 15 bits',
      );
      return Int16Array.from(values);
    case 'F32':
      return Float32Array.from(values);
    case 'U8':
    case 'BOOL':
      assert(
        values.every((value) => value <= 0xff),
        'ids of 8 bits',
      );
      return Uint8Array.from(values);
    default:
      throw new RangeError(`integers as ${dtype}`);
  }
}
