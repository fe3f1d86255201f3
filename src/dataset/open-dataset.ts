import { TidemarkError } from '../core/errors.ts';
import { rowIdentity } from '../core/identity.ts';
import { RowTableBuilder } from '../format/row-table.ts';
import type { FileReader, ReadableFile } from '../host/host.ts';
import type { ConversationEncoder, Dataset, Row, RowProblem } from './dataset.ts';
import { type JsonlLine, jsonlPieces, LINE_BYTES_MOST, LineIndex, parseJsonLine } from './jsonl.ts';
import { openJsonl, quoted } from './jsonl-file.ts';
import { type ParsedRow, parseRow } from './row.ts';

const DATASET = { noun: 'dataset', how: 'set dataset: in tidemark.yaml, or give --dataset FILE' };
const PROBLEMS_KEPT = 100;
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
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: ScanProgress) => void;
}

/**
 * Opens a JSONL file and scans it once, in order. In memory stay 12 bytes a row and the row table's 64.
 * Rejects with `dataset` when there is no such file, it is something else, or no row of it can be used.
 */
export async function openDataset(files: FileReader, path: string, options: OpenDatasetOptions): Promise<Dataset> {
  const file = await openJsonl(files, path, DATASET);
  try {
    return await scan(file, path, options);
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function scan(file: ReadableFile, path: string, options: OpenDatasetOptions): Promise<Dataset> {
  const table = new RowTableBuilder();
  const lines = new LineIndex();
  const problems: RowProblem[] = [];
  let problemCount = 0;
  const breatheBytes = options.encoder === null ? BREATHE_BYTES.ids : BREATHE_BYTES.conversations;
  let breathed = 0;

  for await (const piece of jsonlPieces(file)) {
    for (const line of piece) {
      const index = lines.rows;
      const row = rowOf(line, options, path);
      lines.add(line.start, line.bytes);
      if (row.kind === 'row') table.add(rowIdentity(row.inputIds, row.lossMask));
      else {
        table.add(null);
        problemCount += 1;
        if (problems.length < PROBLEMS_KEPT) problems.push({ index, line: line.line, message: row.message });
      }
      if (line.start - breathed >= breatheBytes) {
        breathed = line.start;
        options.onProgress?.({ rows: lines.rows, bytes: line.start + line.bytes, totalBytes: file.size });
        await new Promise((resolve) => setImmediate(resolve));
        options.signal?.throwIfAborted();
      }
    }
    options.signal?.throwIfAborted();
  }
  options.onProgress?.({ rows: lines.rows, bytes: file.size, totalBytes: file.size });
  refuseUnusable(path, lines.rows, problemCount, problems[0]);
  return {
    path,
    rows: lines.rows,
    problems,
    problemCount,
    table: table.build(),
    read: async (index) => readRow(file, path, index, lines.at(index), options),
    close: () => file.close(),
  };
}

type RowOrProblem = Exclude<ParsedRow, { kind: 'needs-encoder' }>;

function rowOf(line: Omit<JsonlLine, 'line'> & { readonly line?: number }, options: OpenDatasetOptions, path: string): RowOrProblem {
  if (line.text === null) return { kind: 'problem', message: `longer than ${LINE_BYTES_MOST / 1024 / 1024} MiB (${line.bytes} bytes)` };
  const parsed = parseJsonLine(line.text);
  if (!parsed.ok) return { kind: 'problem', message: parsed.message };
  const row = parseRow(parsed.value, options);
  if (row.kind !== 'needs-encoder') return row;
  const where = line.line === undefined ? path : `${path}:${line.line}`;
  const why = options.encoderProblem ?? 'there is no tokenizer to turn it into ids';
  throw new TidemarkError('dataset', `${where} is a conversation without input_ids, and ${why}`, {
    where,
    hint: 'set target.model in tidemark.yaml (or --model FOLDER) to the folder with tokenizer.json and tokenizer_config.json',
  });
}

async function readRow(
  file: ReadableFile,
  path: string,
  index: number,
  at: { readonly start: number; readonly bytes: number },
  options: OpenDatasetOptions,
): Promise<Row> {
  const text = at.bytes > LINE_BYTES_MOST ? null : await file.read(at.start, at.bytes);
  const row = rowOf({ ...at, text }, options, path);
  if (row.kind === 'row') return { index, id: row.id, inputIds: row.inputIds, lossMask: row.lossMask };
  throw new TidemarkError('dataset', `row ${index} of ${path} has no sample: ${row.message}`, { where: `${path} row ${index}` });
}

function refuseUnusable(path: string, rows: number, problemCount: number, first: RowProblem | undefined): void {
  if (rows === 0) {
    throw new TidemarkError('dataset', `the dataset ${path} has no row: it is empty, or only blank lines`, {
      where: path,
      hint: `ls -l ${quoted(path)}; expected a JSONL file, one row a line`,
    });
  }
  if (first === undefined || problemCount < rows) return;
  const rest = rows === 1 ? 'its only row cannot be used' : `none of its ${rows} rows can be used, and the first says`;
  throw new TidemarkError('dataset', `the dataset ${path} has nothing to extract: ${rest}: ${first.message}`, {
    where: `${path}:${first.line}`,
    hint: `sed -n ${first.line}p ${quoted(path)} | cut -c 1-300; each line must hold input_ids, messages or conversations`,
  });
}
