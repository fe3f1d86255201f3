/** Dtypes by their safetensors names, each with its bytes per element. */
export const DTYPE_BYTES = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
  I16: 2,
  U16: 2,
  F16: 2,
  BF16: 2,
  I32: 4,
  U32: 4,
  F32: 4,
  I64: 8,
  U64: 8,
  F64: 8,
  C64: 8,
  C128: 16,
} as const satisfies Record<string, number>;

export type Dtype = keyof typeof DTYPE_BYTES;

/** Where a tensor's elements lie in its file. Row-major and contiguous when `contiguous` is true. */
export interface TensorInfo {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  /** In elements, as torch counts. */
  readonly stride: readonly number[];
  readonly contiguous: boolean;
  /** Byte offset of the first element in the file. */
  readonly fileOffset: number;
  /** Bytes of the tensor's own elements (product of shape times element size). */
  readonly bytes: number;
  /** The storage or record that holds it (`data/2`), where the format has such a thing. */
  readonly record: string | null;
}

/** A tensor to be written, whose bytes come in pieces so that no sample needs to fit in memory. */
export interface TensorSource {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  /** Yields exactly product(shape) * element size bytes, little-endian, row-major. A piece is only valid until the next one is asked for. */
  pieces(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/** A value beside the tensors: some tools keep a sample's name in its file. */
export interface TextEntry {
  readonly name: string;
  readonly text: string;
}

/** What a writer knows when the last piece is out. */
export interface WrittenFile {
  readonly bytes: number;
  /** CRC-32 of the whole file. */
  readonly crc32: number;
  /** CRC-32 of each record, by name, where the container has records. */
  readonly records: readonly { readonly name: string; readonly bytes: number; readonly crc32: number }[];
}

/** How a file fails a check; the words are those of core/verdict.ts, kept apart so that format knows no rows. */
export interface Damage {
  readonly kind: 'torn' | 'corrupt' | 'refused';
  readonly reason: 'empty' | 'truncated' | 'zero-filled' | 'structure' | 'trailing-bytes' | 'checksum' | 'hostile' | 'legacy' | 'version';
  readonly detail: string;
}

/** The outcome of opening a sample file: its tensors, or why not. Damage is data, so it is returned and not thrown. */
export type Parsed<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly damage: Damage };

export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, length) => product * length, 1);
}
