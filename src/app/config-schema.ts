import { z } from 'zod';
import { parseBytes, parseDurationMs, parseFileMode } from './config-units.ts';

// Each leaf's message completes the sentence "KEY must be …".

function count(from: number, to: number) {
  const error = `a whole number from ${from} to ${to}`;
  return z.number({ error }).int({ error }).min(from, { error }).max(to, { error });
}

function read<T>(parse: (text: string) => T | null, error: string) {
  return z.string({ error }).transform((text, context): T => {
    const value = parse(text);
    if (value !== null) return value;
    context.addIssue({ code: 'custom', message: error });
    return z.NEVER;
  });
}

function oneOf<const T extends readonly [string, ...string[]]>(values: T) {
  return z.enum(values, { error: values.length === 1 ? `${values[0]}, the only one there is so far` : `one of ${values.join(', ')}` });
}

/** `~` is the shell's to expand; taken as it stands it would make a folder of that name. */
const path = read((text) => (/^$|^~(\/|$)|\0/.test(text) ? null : text), 'a path, written out (~ is not expanded)');

/** The server's root; `/v1`, as OpenAI clients want it, and slashes at the end are cut off. */
const url = read((text) => {
  if (!URL.canParse(text)) return null;
  const { protocol, username, password, search, hash, origin, pathname } = new URL(text);
  if (!/^https?:$/.test(protocol) || username + password + search + hash !== '') return null;
  return origin + pathname.replace(/\/+$/, '').replace(/\/v1$/, '');
}, 'a URL such as http://127.0.0.1:8000, without user name or query');

const urlsError = 'a list of URLs, each once, such as [http://127.0.0.1:8000]';
const urls = z
  .array(url, { error: urlsError })
  .min(1, { error: urlsError })
  .refine((list) => new Set(list).size === list.length, { error: urlsError });

const layersError = 'a list of boundary numbers, ascending and each once, such as [2, 4, 5]';
const layers = z
  .array(z.number({ error: layersError }).int({ error: layersError }).min(0, { error: layersError }).max(1000, { error: layersError }), {
    error: layersError,
  })
  .min(1, { error: layersError })
  .refine((list) => list.every((layer, at) => at === 0 || layer > (list[at - 1] ?? 0)), { error: layersError });

const text = z.string({ error: 'text or null' }).min(1, { error: 'text or null' });
const share = { error: 'a share from 0 to 1, such as 0.001' };

function section<T extends z.ZodRawShape>(shape: T) {
  return z.strictObject(shape, { error: (issue) => (issue.code === 'invalid_type' ? 'a section with keys of its own' : undefined) });
}

/**
 * `tidemark.yaml`, as written. Every key may be left out here: a flag may give it, or it has a default (`DEFAULTS` in
 * config.ts).
 */
export const configSchema = section({
  output: path.exactOptional(),
  dataset: path.exactOptional(),
  target: section({ model: path.exactOptional(), revision: text.nullable().exactOptional() }).exactOptional(),
  engine: section({
    kind: oneOf(['vllm']).exactOptional(),
    urls: urls.exactOptional(),
    staging: path.exactOptional(),
    inFlight: count(1, 1024).exactOptional(),
    timeout: read((value) => parseDurationMs(value) || null, 'a duration with its unit, such as 120s or 2m').exactOptional(),
  }).exactOptional(),
  states: section({
    auxiliaryLayers: layers.nullable().exactOptional(),
    dtype: oneOf(['bfloat16', 'float16', 'float32']).exactOptional(),
    maxTokens: count(1, 100_000_000).nullable().exactOptional(),
  }).exactOptional(),
  layout: section({
    name: oneOf(['specforge']).exactOptional(),
    extension: oneOf(['ckpt', 'pt']).exactOptional(),
    groupSize: count(1, 1_000_000).exactOptional(),
  }).exactOptional(),
  limits: section({
    attempts: count(1, 100).exactOptional(),
    failureSamples: count(0, 1_000_000_000).exactOptional(),
    failureShare: z.number(share).min(0, share).max(1, share).exactOptional(),
    consecutiveFailures: count(1, 1_000_000).exactOptional(),
    reserve: read(parseBytes, 'a size with its unit, such as 1GiB or 500MB').exactOptional(),
  }).exactOptional(),
  fileMode: read(parseFileMode, 'permission bits in quotes, such as "0644", with the owner allowed to read').exactOptional(),
});

export type ConfigDocument = z.output<typeof configSchema>;

/** Every key path that a configuration may have: `output`, `engine`, `engine.urls` and so on. */
export const CONFIG_KEYS: readonly string[] = keysOf(configSchema, '');

function keysOf(schema: z.ZodType, prefix: string): string[] {
  const inner = schema instanceof z.ZodExactOptional ? (schema.unwrap() as z.ZodType) : schema;
  if (!(inner instanceof z.ZodObject)) return [];
  return Object.entries(inner.shape as Record<string, z.ZodType>).flatMap(([key, child]) => [
    prefix + key,
    ...keysOf(child, `${prefix}${key}.`),
  ]);
}
