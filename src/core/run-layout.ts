import type { IndexRange } from './ranges.ts';

/** What states are stored in. */
export const STATES_DTYPES = ['BF16', 'F16', 'F32'] as const;
export type StatesDtype = (typeof STATES_DTYPES)[number];

/** The container that a layout's files are in; `torch-gzip` is a torch zip inside one gzip stream. */
export const CODECS = ['torch-zip', 'torch-gzip', 'safetensors'] as const;
export type Codec = (typeof CODECS)[number];

/** One axis of a stored tensor: 1, tokens, width, some layers side by side, or a number of layers. */
export const AXES = ['1', 'tokens', 'width', 'layers x width', 'layers'] as const;
export type Axis = (typeof AXES)[number];

/** `all` holds auxiliary layers and the last one. */
export const TENSOR_ROLES = ['ids', 'mask', 'auxiliary', 'last', 'all'] as const;
export type TensorRole = (typeof TENSOR_ROLES)[number];

/** Dtypes that ids and masks are written in. */
export const INTEGER_DTYPES = ['I64', 'I32', 'I16', 'U8', 'BOOL', 'F32'] as const;

/** A tensor of every file of a run. */
export interface StoredTensor {
  readonly name: string;
  readonly role: TensorRole;
  readonly axes: readonly Axis[];
  readonly dtype: (typeof INTEGER_DTYPES)[number] | StatesDtype;
}

/** The form of an adopted tree, as docs/on-disk.md has it. */
export interface RunTree {
  readonly pattern: string;
  readonly codec: Codec;
  readonly ranges: readonly IndexRange[];
  readonly tensors: readonly StoredTensor[];
  readonly names: readonly string[];
  /** SHA-256 of `paths.log`; null where the path follows from the row. */
  readonly paths: string | null;
}

/** How a run's files are named and made; part of its identity. */
export interface RunLayout {
  readonly name: string;
  readonly extension: string;
  /** Rows a folder; 0 where folders have no size. */
  readonly groupSize: number;
  /** Absent where tidemark itself began the run, or could have. */
  readonly tree?: RunTree;
}

/** Rows a shard where folders say nothing, or are so small that each would cost a lease and a journal for a few rows. */
const SHARD_ROWS = 2000;
const SHARD_ROWS_LEAST = 100;

/** Shards are ranges of rows and no folders; in a run of tidemark's own the two are the same. */
export function shardRowsOf({ groupSize, tree }: RunLayout): number {
  return tree === undefined || groupSize >= SHARD_ROWS_LEAST ? groupSize : SHARD_ROWS;
}
