import { join } from 'node:path';
import { isTidemarkError, messageOf, TidemarkError } from '../core/errors.ts';
import type { ConversationEncoder } from '../dataset/dataset.ts';
import { parseJsonLine, printable } from '../dataset/jsonl.ts';
import { DATASET_PURPOSE } from '../dataset/open-dataset.ts';
import { openRecords } from '../dataset/open-records.ts';
import { parseRow } from '../dataset/row.ts';
import { type ModelConfig, parseModelConfig } from '../engine/model-config.ts';
import type { FileReader, Http } from '../host/host.ts';

const MODEL_CONFIG_BYTES_MOST = 16 * 1024 * 1024;
/** Read of a dataset to say what it is like: enough for some hundred long rows, read in a moment from any disk. */
const SAMPLE_BYTES = 8 * 1024 * 1024;
const SAMPLE_ROWS = 200;
const SERVER_TIMEOUT_MS = 3000;
const SERVER_BYTES_MOST = 1024 * 1024;

/** What a model's config.json says of its shape; rejects with `model` where it does not, or where its norm is unknown to us. */
export async function readModelShape(files: FileReader, folder: string): Promise<ModelConfig> {
  const where = join(folder, 'config.json');
  const real = await files.realPath(where);
  const bytes = real === null ? null : await files.readSmall(real, MODEL_CONFIG_BYTES_MOST);
  if (bytes !== null) return parseModelConfig(bytes, where);
  throw new TidemarkError('model', `the model ${folder} has no config.json`, {
    where,
    hint: "set target.model (or --model) to the model's folder, the one with config.json",
  });
}

/** What the first rows of a dataset are like. */
export interface DatasetSample {
  readonly bytes: number;
  readonly rows: number;
  /** False when the count is taken from the mean length of the first rows. */
  readonly counted: boolean;
  readonly forms: readonly string[];
  readonly sampled: number;
  readonly problems: number;
  readonly firstProblem: string | null;
  readonly longestTokens: number;
  readonly meanTokens: number;
}

/** Null when there is no such file; rejects with `dataset` when it is something else. @param encoder null leaves conversations uncounted in tokens */
export async function sampleDataset(files: FileReader, path: string, encoder: ConversationEncoder | null): Promise<DatasetSample | null> {
  if ((await files.realPath(path)) === null) return null;
  const file = await openRecords(files, path, DATASET_PURPOSE);
  try {
    const forms = new Set<string>();
    const tokens: number[] = [];
    let rows = 0;
    let readBytes = 0;
    let problems = 0;
    let firstProblem: string | null = null;
    let counted = true;
    for await (const records of file.records()) {
      for (const record of records) {
        rows += 1;
        readBytes = record.readBytes;
        if (rows > SAMPLE_ROWS) continue;
        const parsed = record.value();
        const row = parsed.ok
          ? parseRow(parsed.value, { encoder, maxTokens: null })
          : { kind: 'problem' as const, message: parsed.message };
        if (parsed.ok) forms.add(formOf(parsed.value));
        if (row.kind === 'row') tokens.push(row.inputIds.length);
        if (row.kind === 'problem') {
          problems += 1;
          firstProblem ??= `${file.form === 'parquet' ? 'row' : 'line'} ${record.line}: ${row.message}`;
        }
      }
      if (rows >= SAMPLE_ROWS && readBytes >= SAMPLE_BYTES && readBytes < file.stat.bytes) {
        counted = false;
        break;
      }
    }
    return {
      bytes: file.stat.bytes,
      rows: counted ? rows : Math.round(file.stat.bytes / (readBytes / rows)),
      counted,
      forms: [...forms],
      sampled: Math.min(rows, SAMPLE_ROWS),
      problems,
      firstProblem,
      longestTokens: Math.max(0, ...tokens),
      meanTokens: tokens.length === 0 ? 0 : Math.round(tokens.reduce((sum, count) => sum + count, 0) / tokens.length),
    };
  } finally {
    await file.close();
  }
}

function formOf(value: unknown): string {
  const row = objectOf(value);
  const form = ['input_ids', 'messages', 'conversations'].find((name) => row[name] !== undefined && row[name] !== null);
  if (form !== 'input_ids') return form ?? 'no known form';
  return row.loss_mask === undefined || row.loss_mask === null ? 'input_ids' : 'input_ids and loss_mask';
}

/** What a server says of itself, or why it does not. */
export type ServerFacts =
  | {
      readonly reached: true;
      readonly models: readonly { readonly id: string; readonly maxTokens: number | null }[];
      readonly version: string | null;
    }
  | { readonly reached: false; readonly why: string };

export async function askServer(http: Http, url: string, signal: AbortSignal | undefined): Promise<ServerFacts> {
  const ask = async (path: string): Promise<Readonly<Record<string, unknown>> | number> => {
    const request = { method: 'GET', url: url + path, timeoutMs: SERVER_TIMEOUT_MS, mostBytes: SERVER_BYTES_MOST } as const;
    const answer = await http.request(signal === undefined ? request : { ...request, signal });
    const parsed = parseJsonLine(answer.body);
    return answer.status === 200 && parsed.ok ? objectOf(parsed.value) : answer.status;
  };
  try {
    const list = await ask('/v1/models');
    if (typeof list === 'number') return { reached: false, why: `GET /v1/models was answered with ${list} and no model list` };
    const models = (Array.isArray(list.data) ? (list.data as readonly unknown[]) : []).map(objectOf).map((model) => ({
      id: typeof model.id === 'string' ? printable(model.id, 120) : 'unnamed',
      maxTokens: wholeOf(model.max_model_len),
    }));
    const version = await ask('/version').catch(() => 0);
    return {
      reached: true,
      models,
      version: typeof version === 'object' && typeof version.version === 'string' ? printable(version.version, 40) : null,
    };
  } catch (error) {
    if (isTidemarkError(error, 'interrupted')) throw error;
    return { reached: false, why: printable(messageOf(error), 160) };
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Readonly<Record<string, unknown>>) : {};
}

function wholeOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : null;
}
