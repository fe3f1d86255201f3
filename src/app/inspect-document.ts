import type { Level } from '../core/verdict.ts';

/** Levels that one file can be read to; its name alone says nothing. */
export const INSPECT_LEVELS = ['structure', 'identity', 'checksum', 'content'] as const satisfies readonly Level[];
export type InspectLevel = (typeof INSPECT_LEVELS)[number];

export type FileForm = 'torch-zip' | 'torch-legacy' | 'safetensors' | 'gzip' | 'unknown';

/** The words of docs/report.md, and `refused` for what is not opened at all. */
export interface InspectVerdict {
  readonly kind: 'sound' | 'torn' | 'corrupt' | 'poisoned' | 'unreadable' | 'refused';
  readonly reason: string;
  readonly detail: string | null;
}

export interface InspectedValues {
  readonly elements: number;
  /** Of the finite values; null where there is none. */
  readonly min: number | null;
  readonly max: number | null;
  /** Root of the mean square; null for integers. */
  readonly rms: number | null;
  readonly zeros: number;
  readonly nan: number;
  readonly inf: number;
  /** A row is one token's state of one layer; null for tensors that are no states. */
  readonly rows: number | null;
  readonly zeroRows: number | null;
  readonly firstZeroRow: number | null;
  readonly zeroRowsAtEnd: number | null;
  /** Whole zero pages of the file, as bytes `[from, to)`: at most the first 32 runs. */
  readonly zeroPages: readonly (readonly [from: number, to: number])[];
}

export interface InspectedTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly stride: readonly number[];
  readonly contiguous: boolean;
  /** The storage, where the format has such a thing; several tensors may share one. */
  readonly record: string | null;
  readonly offset: number;
  readonly bytes: number;
  /** Only at the content level. */
  readonly values: InspectedValues | null;
  /** Why the values were not read at that level. */
  readonly unread: string | null;
}

export interface InspectedRecord {
  readonly name: string;
  readonly offset: number | null;
  readonly bytes: number;
  /** CRC-32 as the file states it, eight hex digits; null where none was computed. */
  readonly stored: string | null;
  /** CRC-32 of the bytes that are there; null until the checksum level. */
  readonly computed: string | null;
}

/** `tidemark inspect --json`, version 1 (docs/inspect.md). Sizes are bytes, times ISO 8601 in UTC. */
export interface Inspection {
  readonly schema: 'tidemark.inspect/1';
  readonly path: string;
  readonly inspectedAt: string;
  readonly level: InspectLevel;
  readonly bytes: number;
  readonly allocatedBytes: number;
  readonly modifiedAt: string;
  readonly form: FileForm;
  /** What was made of the first bytes of a file of an unknown form. */
  readonly looksLike: string | null;
  readonly writer: { readonly guess: string; readonly source: string } | null;
  /** The folder inside the zip: the name that the file was saved under, without its extension. */
  readonly archive: string | null;
  readonly verdict: InspectVerdict;
  readonly proved: readonly string[];
  readonly notProved: readonly string[];
  readonly tensors: readonly InspectedTensor[];
  readonly values: readonly { readonly name: string; readonly value: unknown }[];
  readonly metadata: readonly { readonly name: string; readonly value: string }[];
  readonly records: readonly InspectedRecord[];
  /** Of the stored ids (docs/on-disk.md, "Identity of a row"); from the identity level on. */
  readonly identity: {
    readonly tensor: string;
    readonly tokens: number;
    readonly identity: string;
    /** Without right padding; null where the file has no mask. */
    readonly stripped: { readonly tokens: number; readonly identity: string } | null;
  } | null;
  /** CRC-32 of the whole file, as journals keep it; from the checksum level on. */
  readonly crc32: string | null;
}

/** What the reader of one form found, before it becomes the document. */
export type Findings = Pick<
  Inspection,
  'writer' | 'archive' | 'verdict' | 'proved' | 'notProved' | 'tensors' | 'values' | 'metadata' | 'records' | 'identity' | 'crc32'
>;

export const NOTHING_FOUND: Omit<Findings, 'verdict'> = {
  writer: null,
  archive: null,
  proved: [],
  notProved: [],
  tensors: [],
  values: [],
  metadata: [],
  records: [],
  identity: null,
  crc32: null,
};

export function hex32(value: number): string {
  return value.toString(16).padStart(8, '0');
}
