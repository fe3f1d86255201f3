import { resolve } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { openPrompts } from '../dataset/open-prompts.ts';
import { type GenerateSummary, generate } from '../generate/generate.ts';
import type { GenerateProgress } from '../generate/options.ts';
import type { Host } from '../host/host.ts';
import { parseDurationMs } from './config-units.ts';

export type { GenerateSummary } from '../generate/generate.ts';
export type { GenerateProgress } from '../generate/options.ts';

/** What the command line says, as typed. */
export interface GenerationFlags {
  readonly prompts: string;
  readonly output: string;
  readonly urls: readonly string[];
  readonly model: string | null;
  readonly temperature: string;
  readonly topP: string;
  readonly maxTokens: string;
  readonly seed: string;
  readonly inFlight: string;
  readonly timeout: string;
  readonly attempts: string;
  readonly acceptFailures: boolean;
  readonly takeOver: boolean;
}

/** Failed conversations in a row after which the servers are called sick. */
const CONSECUTIVE_FAILURES = 16;
const DRAIN_MS = 60_000;

/** Stage 1: the target answers the prompts of a file. */
export async function runGeneration(
  host: Host,
  flags: GenerationFlags,
  cwd: string,
  signal: AbortSignal,
  onProgress: (progress: GenerateProgress) => void,
): Promise<GenerateSummary> {
  const timeoutMs = parseDurationMs(flags.timeout);
  if (timeoutMs === null || timeoutMs === 0) throw wrong('--timeout', flags.timeout, 'a duration with its unit, such as 120s or 2m');
  const options = {
    output: resolve(cwd, flags.output),
    urls: flags.urls.map(rootUrl),
    model: flags.model,
    sampling: {
      temperature: decimal('--temperature', flags.temperature, 0, 2),
      topP: decimal('--top-p', flags.topP, 0, 1),
      maxTokens: whole('--max-tokens', flags.maxTokens, 1, 10_000_000),
      seed: whole('--seed', flags.seed, 0, 2 ** 31 - 1),
      extra: {},
    },
    inFlight: whole('--in-flight', flags.inFlight, 1, 1024),
    timeoutMs,
    attempts: whole('--attempts', flags.attempts, 1, 100),
    consecutiveFailures: CONSECUTIVE_FAILURES,
    acceptFailures: flags.acceptFailures,
    takeOver: flags.takeOver,
    drainMs: DRAIN_MS,
    signal,
    onProgress,
  };
  const prompts = await openPrompts(host.files, resolve(cwd, flags.prompts), signal);
  try {
    return await generate(host, prompts, options);
  } finally {
    await prompts.close();
  }
}

function rootUrl(text: string): string {
  if (!URL.canParse(text) || !/^https?:/.test(text)) throw wrong('--url', text, 'a URL such as http://127.0.0.1:8000');
  return text.replace(/\/+$/, '').replace(/\/v1$/, '');
}

function whole(flag: string, text: string, least: number, most: number): number {
  const value = /^\d{1,12}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw wrong(flag, text, `a whole number from ${least} to ${most}`);
}

function decimal(flag: string, text: string, least: number, most: number): number {
  const value = /^\d{1,6}(\.\d{1,6})?$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw wrong(flag, text, `a number from ${least} to ${most}`);
}

function wrong(flag: string, text: string, wanted: string): TidemarkError {
  return new TidemarkError('usage', `${flag} must be ${wanted}, not ${JSON.stringify(text)}`, { hint: 'tidemark help generate' });
}
