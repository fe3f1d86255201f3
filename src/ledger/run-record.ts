import { createHash } from 'node:crypto';
import { z } from 'zod';
import { TidemarkError } from '../core/errors.ts';
import type { RunIdentity } from '../core/settings.ts';
import { encodeDocument, parseDocument } from '../format/checked-document.ts';
import type { FileReader } from '../host/host.ts';
import type { RunRecord } from './ledger.ts';
import { memoryPath } from './paths.ts';
import { runLayoutSchema } from './run-layout-schema.ts';

const FORMAT = 'tidemark.run/1';
const OTHER_VERSION_HINT = 'go on with the tidemark that wrote it';

/** As many as a row table may have: a survey takes memory for each, also where the table itself is gone. */
const MOST_ROWS = 100_000_000;

const identitySchema = z.object({
  dataset: z.object({ rows: z.int().min(0).max(MOST_ROWS), root: z.string() }),
  target: z.object({ name: z.string(), revision: z.string().nullable(), digest: z.string() }),
  tokenizer: z.object({ tokenizer: z.string(), template: z.string() }).nullable(),
  truncation: z.object({ maxTokens: z.int().positive().nullable(), policy: z.literal('drop') }),
  layers: z.object({ convention: z.literal('boundary/1'), auxiliary: z.array(z.int().nonnegative()), last: z.int().positive() }),
  lastState: z.object({ stored: z.enum(['pre-norm', 'post-norm', 'none']), norm: z.string() }),
  dtype: z.string(),
  layout: runLayoutSchema,
  shardRows: z.int().positive(),
});

const runSchema = z.strictObject({
  format: z.literal(FORMAT),
  id: z.string().regex(/^[0-9a-f]{32}$/),
  folderId: z.string().regex(/^[0-9a-f]{32}$/),
  createdAt: z.iso.datetime(),
  identity: identitySchema,
});

/** The run id: SHA-256 of the identity's canonical JSON, cut to 128 bits. */
export function runIdOf(identity: RunIdentity): string {
  return createHash('sha256').update(canonicalJson(identity)).digest('hex').slice(0, 32);
}

/**
 * `run.json` of a folder; null when the folder is no run of ours.
 * @throws TidemarkError `format-refused` when it is there and is not one of this version
 */
export async function readRunRecord(files: FileReader, folder: string): Promise<RunRecord | null> {
  const path = memoryPath(folder, 'run.json');
  const bytes = await files.readSmall(path, 1024 * 1024);
  if (bytes === null) return null;
  const refuse = (why: string): TidemarkError =>
    new TidemarkError('format-refused', `${path} is not a run record of this version: ${why}`, {
      where: path,
      hint: `move ${memoryPath(folder)} aside and assess the files alone: tidemark assess ${folder} --dataset FILE`,
    });
  const document = parseDocument(bytes);
  if (!document.ok) throw refuse(document.why);
  const { value } = document;
  const format: unknown = isObject(value) ? value.format : undefined;
  if (typeof format === 'string' && /^tidemark\.run\/\d+$/.test(format) && format !== FORMAT) {
    throw new TidemarkError('format-refused', `${path} is of format ${format}, and this tidemark reads ${FORMAT}`, {
      where: path,
      hint: OTHER_VERSION_HINT,
    });
  }
  const parsed = runSchema.safeParse(value);
  if (!parsed.success)
    throw refuse(
      parsed.error.issues
        .slice(0, 3)
        .map((issue) => `${issue.path.join('.') || 'it'}: ${issue.message}`)
        .join('; '),
    );
  if (runIdOf(parsed.data.identity) !== parsed.data.id) throw refuse('its id is not the digest of its identity');
  return parsed.data;
}

/** Told from a damaged record, because a newer one must be left to its own tidemark. */
export function isOtherVersion(error: unknown): boolean {
  return error instanceof TidemarkError && error.hint === OTHER_VERSION_HINT;
}

export function encodeRunRecord(
  identity: RunIdentity,
  folderId: string,
  createdAt: string,
): { readonly record: RunRecord; readonly bytes: Uint8Array } {
  const record: RunRecord = { format: FORMAT, id: runIdOf(identity), folderId, createdAt, identity };
  return { record, bytes: encodeDocument(record) };
}

/** The fields in which two identities differ, as `layers.auxiliary: [1,9,17] here, [1,9,18] asked`. The dataset may have grown. */
export function identityDifferences(here: RunIdentity, asked: RunIdentity): string[] {
  const differences: string[] = [];
  const walk = (path: string, a: unknown, b: unknown): void => {
    if (isObject(a) && isObject(b)) {
      for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) walk(path === '' ? key : `${path}.${key}`, a[key], b[key]);
    } else if (canonicalJson(a) !== canonicalJson(b)) {
      differences.push(`${path}: ${canonicalJson(a)} here, ${canonicalJson(b)} asked`);
    }
  };
  walk('', here, asked);
  return differences;
}

/** Keys sorted, no white space: equal values have equal texts. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (isObject(value)) {
    const parts = Object.keys(value)
      .sort()
      .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key])}`);
    return `{${parts.join(',')}}`;
  }
  return JSON.stringify(value) ?? 'null';
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
