import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import { rowIdentity } from '../core/identity.ts';
import { RowTableBuilder } from '../format/row-table.ts';
import type { FileReader } from '../host/host.ts';
import type { ConversationEncoder, Dataset, Row, RowProblem } from './dataset.ts';
import { LineIndex, type ParsedLine, type Place } from './jsonl.ts';
import { openRecords } from './open-records.ts';
import { quoted } from './quoted.ts';
import type { FileForm, RecordFile } from './records.ts';
import { type ParsedRow, parseRow } from './row.ts';
import { type IndexedRows, keepRows, loadRows, type RowIndexKey, type RowIndexStore } from './row-index.ts';

/** How a dataset is named in messages, and what a table must have to be one. */
export const DATASET_PURPOSE = {
  noun: 'dataset',
  how: 'set dataset: in tidemark.yaml, or give --dataset FILE',
  columns: ['input_ids', 'messages', 'conversations'],
};
const PROBLEMS_KEPT = 100;
const TOKENIZER_HINT = 'set target.model in tidemark.yaml (or --model FOLDER) to the folder with tokenizer.json and tokenizer_config.json';
/** The scan lets other work of the process run after so many bytes of text: some 20 ms of parsing ids, or of tokenising. */
const BREATHE_BYTES = { ids: 1024 * 1024, conversations: 16 * 1024 };

export interface ScanProgress {
  readonly rows: number;
  readonly bytes: number;
  readonly totalBytes: number;
}

export interface OpenDatasetOptions {
  /** Null when rows carry `input_ids`; a conversation is then an error that names `target.model`. */
  readonly encoder: ConversationEncoder | null;
  /** Why there is no encoder, for that error: a model folder without a chat template is fine until a conversation comes. */
  readonly encoderProblem?: string;
  /** Rows with more tokens are dropped (their index stays); null keeps all. */
  readonly maxTokens: number | null;
  /**
   * Where the findings of a scan are kept, so that the same file is not scanned again. Default null: every opening scans. It is trusted
   * only for a file whose size, times and inode are the same; a row is hashed again when it is read in any case.
   */
  readonly rowIndex?: RowIndexStore | null;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: ScanProgress) => void;
}

/**
 * Opens a dataset (JSONL, plain, gzip or zstd, or Parquet) and scans it once, in order. In memory stay 12 bytes a row, the row table's 64,
 * and for the packed forms some 32 MiB. Rejects with `dataset` when there is no such file, it is something else or damaged, or no row
 * of it can be used.
 */
export async function openDataset(files: FileReader, path: string, options: OpenDatasetOptions): Promise<Dataset> {
  const { encoder, maxTokens, rowIndex = null } = options;
  const openedAt = rowIndex?.now() ?? 0;
  const file = await openRecords(files, path, DATASET_PURPOSE);
  try {
    const key: RowIndexKey = {
      realPath: file.realPath,
      stat: file.stat,
      form: file.form,
      tokenizer: encoder?.tokenizerDigest ?? null,
      template: encoder?.templateDigest ?? null,
      maxTokens,
    };
    const kept = rowIndex === null ? null : await loadRows(rowIndex, key);
    const found = kept ?? (await scan(file, path, options));
    if (kept === null) {
      refuseUnusable(path, file.form, found);
      if (rowIndex !== null) await keepRows(rowIndex, key, openedAt, found);
    } else options.onProgress?.({ rows: kept.table.rows, bytes: file.stat.bytes, totalBytes: file.stat.bytes });
    const { table, places, problems, problemCount } = found;
    return {
      path,
      rows: table.rows,
      problems,
      problemCount,
      table,
      read: async (index) => readRow(file, path, index, places.at(index), options),
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Told from a dataset that is damaged: this one only lacks what makes ids of its conversations. */
export function needsTokenizer(error: unknown): error is TidemarkError {
  return isTidemarkError(error, 'dataset') && error.hint === TOKENIZER_HINT;
}

/** How many rows a dataset has, whatever is in them. Rejects as `openDataset` does. */
export async function countRows(files: FileReader, path: string, signal?: AbortSignal): Promise<number> {
  const file = await openRecords(files, path, DATASET_PURPOSE);
  try {
    let rows = 0;
    for await (const records of file.records()) {
      signal?.throwIfAborted();
      rows += records.length;
    }
    return rows;
  } finally {
    await file.close();
  }
}

async function scan(file: RecordFile, path: string, options: OpenDatasetOptions): Promise<IndexedRows> {
  const table = new RowTableBuilder();
  const places = new LineIndex();
  const problems: RowProblem[] = [];
  let problemCount = 0;
  const breatheBytes = options.encoder === null ? BREATHE_BYTES.ids : BREATHE_BYTES.conversations;
  let unbreathed = 0;
  const totalBytes = file.stat.bytes;

  for await (const records of file.records()) {
    for (const record of records) {
      const index = places.rows;
      const row = rowOf(record.value(), options, whereOf(path, file.form, record.line));
      places.add(record.place.start, record.place.bytes);
      if (row.kind === 'row') table.add(rowIdentity(row.inputIds, row.lossMask));
      else {
        table.add(row.dropped === true ? 'dropped' : null);
        problemCount += 1;
        if (problems.length < PROBLEMS_KEPT) problems.push({ index, line: record.line, message: row.message });
      }
      unbreathed += record.textBytes;
      if (unbreathed >= breatheBytes) {
        unbreathed = 0;
        options.onProgress?.({ rows: places.rows, bytes: record.readBytes, totalBytes });
        await new Promise((resolve) => setImmediate(resolve));
        options.signal?.throwIfAborted();
      }
    }
    options.signal?.throwIfAborted();
  }
  options.onProgress?.({ rows: places.rows, bytes: totalBytes, totalBytes });
  return { table: table.build(), places, problems, problemCount };
}

type RowOrProblem = Exclude<ParsedRow, { kind: 'needs-encoder' }>;

function rowOf(parsed: ParsedLine, options: OpenDatasetOptions, where: string): RowOrProblem {
  if (!parsed.ok) return { kind: 'problem', message: parsed.message };
  const row = parseRow(parsed.value, options);
  if (row.kind !== 'needs-encoder') return row;
  const why = options.encoderProblem ?? 'there is no tokenizer to turn it into ids';
  throw new TidemarkError('dataset', `${where} is a conversation without input_ids, and ${why}`, {
    where,
    hint: TOKENIZER_HINT,
  });
}

async function readRow(file: RecordFile, path: string, index: number, place: Place, options: OpenDatasetOptions): Promise<Row> {
  const row = rowOf(await file.read(place), options, path);
  if (row.kind === 'row') return { index, id: row.id, inputIds: row.inputIds, lossMask: row.lossMask };
  throw new TidemarkError('dataset', `row ${index} of ${path} has no sample: ${row.message}`, { where: `${path} row ${index}` });
}

/** @param line as `FileRecord` counts: from 1 */
function whereOf(path: string, form: FileForm, line: number): string {
  return form === 'parquet' ? `${path} row ${line - 1}` : `${path}:${line}`;
}

/** The command that shows one record. */
function showing(path: string, form: FileForm, line: number): string {
  const name = quoted(path);
  switch (form) {
    case 'jsonl':
      return `sed -n ${line}p ${name} | cut -c 1-300`;
    case 'jsonl.gz':
      return `gzip -dc ${name} | sed -n ${line}p | cut -c 1-300`;
    case 'jsonl.zst':
      return `zstd -dc ${name} | sed -n ${line}p | cut -c 1-300`;
    case 'parquet':
      return `duckdb -c "FROM ${name} LIMIT 1 OFFSET ${line - 1}"`;
  }
}

function refuseUnusable(path: string, form: FileForm, { table: { rows }, problems: [first], problemCount }: IndexedRows): void {
  if (rows === 0) {
    const what = form === 'parquet' ? 'it is an empty table' : 'it is empty, or only blank lines';
    throw new TidemarkError('dataset', `the dataset ${path} has no row: ${what}`, {
      where: path,
      hint: `ls -l ${quoted(path)}; expected rows, one a line (or one a row of Parquet)`,
    });
  }
  if (first === undefined || problemCount < rows) return;
  const rest = rows === 1 ? 'its only row cannot be used' : `none of its ${rows} rows can be used, and the first says`;
  throw new TidemarkError('dataset', `the dataset ${path} has nothing to extract: ${rest}: ${first.message}`, {
    where: whereOf(path, form, first.line),
    hint: `${showing(path, form, first.line)}; each row must hold input_ids, messages or conversations`,
  });
}
