import { z } from 'zod';
import { TidemarkError } from '../core/errors.ts';
import type { Prompts } from '../dataset/dataset.ts';
import type { FileReader, Host } from '../host/host.ts';
import { settingsPath } from './folder.ts';
import { writeDurably } from './hold.ts';
import type { Sampling } from './sampling.ts';

const FORMAT = 'tidemark.generate/1';
const BYTES_MOST = 1024 * 1024;

const recordSchema = z.strictObject({
  format: z.literal(FORMAT),
  prompts: z.strictObject({ count: z.number(), fingerprint: z.string() }),
  model: z.string(),
  sampling: z.strictObject({
    temperature: z.number(),
    topP: z.number(),
    maxTokens: z.number(),
    seed: z.number(),
    extra: z.record(z.string(), z.unknown()),
  }),
});

/** What all answers of one output have in common. Servers and limits are not in it. */
export type GenerationRecord = z.output<typeof recordSchema>;

export function recordFor(prompts: Prompts, model: string, { temperature, topP, maxTokens, seed, extra }: Sampling): GenerationRecord {
  return {
    format: FORMAT,
    prompts: { count: prompts.count, fingerprint: prompts.fingerprint },
    model,
    sampling: { temperature, topP, maxTokens, seed, extra: { ...extra } },
  };
}

/** Null when nothing was begun here. Rejects with `format-refused` for another version. */
export async function readRecord(files: FileReader, folder: string): Promise<GenerationRecord | null> {
  const where = settingsPath(folder);
  const bytes = await files.readSmall(where, BYTES_MOST);
  if (bytes === null) return null;
  let value: unknown = null;
  try {
    value = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    // Told below, like any other text that is not ours.
  }
  const parsed = recordSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const found: unknown = typeof value === 'object' && value !== null && 'format' in value ? value.format : undefined;
  const why =
    found === FORMAT
      ? (parsed.error.issues[0]?.message ?? 'it does not fit')
      : `its format is ${JSON.stringify(found) ?? 'unknown'}, and this tidemark reads ${FORMAT}`;
  throw new TidemarkError('format-refused', `${where} cannot be used: ${why}`, {
    where,
    hint: 'give another output, or the version that wrote it',
  });
}

/** Written once, under the first lock. */
export async function writeRecord(host: Host, folder: string, record: GenerationRecord, number: number): Promise<void> {
  const path = settingsPath(folder);
  const temporary = `${path}.${number}.tmp`;
  await writeDurably(host, temporary, Buffer.from(`${JSON.stringify(record, null, 2)}\n`, 'utf8'));
  await host.files.rename(temporary, path);
  await host.files.syncDirectory(folder);
}

/** @throws TidemarkError `run-mismatch`, naming every field that differs: answers made in two ways are never mixed in one output */
export function refuseOther(output: string, here: GenerationRecord, asked: GenerationRecord): void {
  const flatHere = flat(here, '');
  const flatAsked = flat(asked, '');
  const keys = [...new Set([...flatHere.keys(), ...flatAsked.keys()])];
  const differences = keys
    .filter((key) => flatHere.get(key) !== flatAsked.get(key))
    .map((key) => `${key}: ${flatHere.get(key) ?? 'nothing'} here, ${flatAsked.get(key) ?? 'nothing'} asked`);
  if (differences.length === 0) return;
  throw new TidemarkError(
    'run-mismatch',
    `${output} was begun in another way, and nothing was written. It differs in\n  ${differences.join('\n  ')}`,
    {
      where: output,
      hint: 'give another output, or the settings that this one was begun with',
    },
  );
}

/** Dotted names and JSON values, keys in order, so that equal things look equal. */
function flat(value: unknown, name: string): Map<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return new Map([[name, JSON.stringify(value) ?? 'nothing']]);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return new Map(entries.flatMap(([key, child]) => [...flat(child, name === '' ? key : `${name}.${key}`)]));
}
