import type { FileStat } from '../host/host.ts';
import type { ParsedLine, Place } from './jsonl.ts';

/** How a file of rows is packed, told by its bytes and not by its name. */
export type FileForm = 'jsonl' | 'jsonl.gz' | 'jsonl.zst' | 'parquet';

/** One record of a file of rows: a line of JSONL, or a row of a table. */
export interface FileRecord {
  /** As a person counts: lines of the text, or rows of the table, from 1. */
  readonly line: number;
  /** Reads the record again, see `RecordFile.read`. */
  readonly place: Place;
  /** Of the file itself, read when this record was: for progress. */
  readonly readBytes: number;
  /** Roughly its size as text: how long it takes to use it. */
  readonly textBytes: number;
  /** Total: what is wrong with the record comes back in words. Valid until the next records are asked for. */
  value(): ParsedLine;
  /** The record as text, for a fingerprint; of a table its columns that matter, as JSON. */
  text(): Uint8Array;
}

/** An open file of rows. Everything it throws is a `TidemarkError`: `dataset` when the file is damaged. */
export interface RecordFile {
  readonly form: FileForm;
  readonly realPath: string;
  readonly stat: FileStat;
  /** All records in order, streamed. */
  records(): AsyncGenerator<readonly FileRecord[]>;
  /** One record again. JSONL reads it straight from the file; the packed forms read forwards and go back only when they must. */
  read(place: Place): Promise<ParsedLine>;
  close(): Promise<void>;
}

/** How messages name the file, how another one is given, and the columns of which a table must have one. */
export interface RecordPurpose {
  readonly noun: string;
  readonly how: string;
  readonly columns: readonly string[];
}
