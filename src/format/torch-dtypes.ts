import type { Dtype } from './tensors.ts';

/** torch's storage classes by the dtype of their elements; dtypes missing here have none (torch stores them untyped). */
export const STORAGE_CLASSES: ReadonlyMap<Dtype, string> = new Map<Dtype, string>([
  ['BOOL', 'BoolStorage'],
  ['U8', 'ByteStorage'],
  ['I8', 'CharStorage'],
  ['I16', 'ShortStorage'],
  ['F16', 'HalfStorage'],
  ['BF16', 'BFloat16Storage'],
  ['I32', 'IntStorage'],
  ['F32', 'FloatStorage'],
  ['I64', 'LongStorage'],
  ['F64', 'DoubleStorage'],
  ['C64', 'ComplexFloatStorage'],
  ['C128', 'ComplexDoubleStorage'],
]);

/** The dtype objects that torch's `_rebuild_tensor_v3` names beside an untyped storage. */
export const TORCH_DTYPES: ReadonlyMap<string, Dtype> = new Map<string, Dtype>([
  ['bool', 'BOOL'],
  ['uint8', 'U8'],
  ['int8', 'I8'],
  ['int16', 'I16'],
  ['uint16', 'U16'],
  ['int32', 'I32'],
  ['uint32', 'U32'],
  ['int64', 'I64'],
  ['uint64', 'U64'],
  ['float16', 'F16'],
  ['bfloat16', 'BF16'],
  ['float32', 'F32'],
  ['float64', 'F64'],
  ['complex64', 'C64'],
  ['complex128', 'C128'],
  ['float8_e4m3fn', 'F8_E4M3'],
  ['float8_e5m2', 'F8_E5M2'],
]);
