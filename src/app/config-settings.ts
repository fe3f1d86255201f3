import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { TidemarkError } from '../core/errors.ts';
import { STATES_DTYPES } from '../core/run-layout.ts';
import type { Settings } from '../core/settings.ts';
import { runLayoutSchema } from '../ledger/run-layout-schema.ts';

export const SETTINGS_FORMAT = 'tidemark.settings/1';

const count = z.number().int().min(1);
const path = z.string().refine((text) => isAbsolute(text) && !text.includes('\0'), { error: 'expected an absolute path' });
const ascending = (list: readonly number[]): boolean => list.every((layer, at) => at === 0 || layer > (list[at - 1] ?? 0));

/** The resolved settings as `.tidemark/settings.json` holds them. Written by tidemark, but never trusted: they name what is deleted. */
const settingsSchema = z.strictObject({
  format: z.literal(SETTINGS_FORMAT),
  output: path,
  dataset: z.strictObject({ path }),
  target: z.strictObject({ model: path, revision: z.string().nullable() }),
  engine: z.strictObject({
    kind: z.literal('vllm'),
    urls: z.array(z.url({ protocol: /^https?$/ })).min(1),
    staging: path,
    inFlight: count,
    timeoutMs: count,
  }),
  states: z.strictObject({
    auxiliaryLayers: z.array(z.number().int().min(0)).min(1).refine(ascending, { error: 'expected ascending layers' }),
    dtype: z.enum(STATES_DTYPES),
    // Settings of the first starts do not have it: they knew no other.
    lastState: z.enum(['pre-norm', 'post-norm', 'none']).default('post-norm'),
    maxTokens: count.nullable(),
  }),
  layout: runLayoutSchema,
  limits: z.strictObject({
    attempts: count,
    failureSamples: z.number().int().min(0),
    failureShare: z.number().min(0).max(1),
    consecutiveFailures: count,
    reserveBytes: z.number().int().min(0),
  }),
  fileMode: z.number().int().min(0).max(0o777),
});

/** What is written to `settings.json`. */
export function settingsDocument(settings: Settings): Settings & { readonly format: typeof SETTINGS_FORMAT } {
  return { format: SETTINGS_FORMAT, ...settings };
}

/**
 * Reads `settings.json`'s value back. Rejects with `format-refused`: an unknown version is never guessed at.
 * @param where the file's path, for messages
 */
export function parseSettings(value: unknown, where: string): Settings {
  const format: unknown = typeof value === 'object' && value !== null && 'format' in value ? value.format : undefined;
  if (format !== SETTINGS_FORMAT) {
    const found = typeof format === 'string' ? `is of format ${JSON.stringify(format.slice(0, 60))}` : 'names no format';
    throw refused(where, `it ${found}, and this tidemark reads ${SETTINGS_FORMAT}`);
  }
  const parsed = settingsSchema.safeParse(value);
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.map(String).join('.') || 'it'}: ${issue.message}`);
    throw refused(where, problems.slice(0, 5).join('; '));
  }
  const { format: _, ...settings } = parsed.data;
  return settings;
}

function refused(where: string, why: string): TidemarkError {
  return new TidemarkError('format-refused', `the settings ${where} cannot be used: ${why}`, {
    where,
    hint: 'give the configuration again with --config FILE',
  });
}
