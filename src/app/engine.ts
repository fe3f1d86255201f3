import { resolve } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import type { Host } from '../host/host.ts';
import { type EngineOptions, type RunningEngine, runEngine } from '../serve/engine-command.ts';
import { VERSION } from './version.ts';

export type { RunningEngine } from '../serve/engine-command.ts';

/** What the command line says, as typed; null where nothing was said. */
export interface EngineFlags {
  readonly model: string;
  readonly port: string;
  readonly address: string;
  readonly allowRemote: boolean;
  readonly staging: string | null;
  readonly layers: string | null;
  readonly dtype: 'float32' | 'bfloat16';
  readonly threads: string;
  readonly maxQueued: string;
  readonly misbehave: readonly string[];
}

/** The embedded engine as its own process: serves until `signal` aborts. */
export function startEngine(
  host: Host,
  flags: EngineFlags,
  cwd: string,
  signal: AbortSignal,
  log: (line: string) => void,
): Promise<RunningEngine> {
  const options: EngineOptions = {
    modelDirectory: resolve(cwd, flags.model),
    address: flags.address,
    allowRemote: flags.allowRemote,
    port: wholeNumber('--port', flags.port, 0, 65_535),
    staging: flags.staging === null ? null : resolve(cwd, flags.staging),
    ...(flags.layers === null ? {} : { layerIds: flags.layers.split(',').map((part) => wholeNumber('--layers', part.trim(), 0, 1000)) }),
    dtype: flags.dtype,
    threadCount: wholeNumber('--threads', flags.threads, 1, 256),
    queuedMost: wholeNumber('--max-queued', flags.maxQueued, 1, 100_000),
    misbehave: flags.misbehave,
    version: VERSION,
    log,
  };
  return runEngine(options, host, signal);
}

function wholeNumber(flag: string, text: string, least: number, most: number): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new TidemarkError('usage', `${flag} must be a whole number from ${least} to ${most}, not ${JSON.stringify(text)}`, {
    hint: 'tidemark help engine',
  });
}
