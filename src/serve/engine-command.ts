import { TidemarkError } from '../core/errors.ts';
import { defaultAuxiliaryLayers, type LayerBoundary } from '../core/layers.ts';
import type { Host } from '../host/host.ts';
import { type CaptureDtype, createPublisher } from './capture.ts';
import { createHonesty, createMisbehaviour, parseMisbehaviour } from './misbehaviour.ts';
import { loadModel } from './model.ts';
import type { ModelFacts } from './model-facts.ts';
import { createEngineServer, type EngineServer } from './server.ts';
import { loadText } from './text.ts';

/** `tidemark engine`: each default and what another choice costs. */
export interface EngineOptions {
  /** A folder with config.json, model.onnx, tokenizer.json and tokenizer_config.json. */
  readonly modelDirectory: string;
  /** Default: the folder's last name. */
  readonly servedName?: string;
  /** Default 127.0.0.1. An address that other machines reach also needs `allowRemote`: the engine knows no passwords. */
  readonly address?: string;
  /** Default false. */
  readonly allowRemote?: boolean;
  /** Default 0, which takes a free port. */
  readonly port?: number;
  /** Absolute folder for captures, made when missing. Default null: no extraction. */
  readonly staging?: string | null;
  /** Default EAGLE-3's three and the last state, `[2, N/2, N-3, N]`. */
  readonly layerIds?: readonly LayerBoundary[];
  /** Default float32, what the model computes; bfloat16 (nearest, ties to even) halves the bytes. */
  readonly dtype?: CaptureDtype;
  /** Default: the model's own. A smaller one refuses longer prompts with 400. */
  readonly contextLength?: number;
  /** Default 2. */
  readonly threadCount?: number;
  /** Default 8. Rows of one step; the bits do not depend on it. */
  readonly batchMost?: number;
  /** Default 16. */
  readonly runningMost?: number;
  /** Default 256, running and waiting. One more is a 503. */
  readonly queuedMost?: number;
  /** Default none; see misbehaviour.ts. */
  readonly misbehave?: readonly string[];
  /** Default 10,000: how long running requests may take to finish after the stop signal. */
  readonly drainMs?: number;
  /** What `/version` says. */
  readonly version: string;
  /** For `--misbehave link-path` only. */
  readonly symlink?: (target: string, path: string) => Promise<void>;
  log(line: string): void;
}

export interface RunningEngine {
  readonly url: string;
  /** Resolves when everything is let go of, after the signal; rejects when that failed. */
  readonly closed: Promise<void>;
}

/** Loads the model and serves it until `signal` aborts. Nothing is touched before the options are known to be good. */
export async function runEngine(options: EngineOptions, host: Host, signal: AbortSignal): Promise<RunningEngine> {
  const faults = parseMisbehaviour(options.misbehave ?? []);
  const address = options.address ?? '127.0.0.1';
  if (!isLoopback(address) && options.allowRemote !== true) {
    throw new TidemarkError('usage', `${address} can be reached by other machines and the engine knows no passwords`, {
      hint: 'add --allow-remote, or leave --address out',
    });
  }
  const staging = options.staging ?? null;
  if (staging !== null && !staging.startsWith('/')) {
    throw new TidemarkError('usage', 'the staging folder must be an absolute path: clients get it as it is', { where: staging });
  }
  const publish = createPublisher(host);
  const tools = { host, publish, staging, kill: () => void process.kill(process.pid, 'SIGKILL'), symlink: options.symlink ?? null };
  const misbehaviour = faults.length === 0 ? createHonesty(publish) : createMisbehaviour(faults, tools);

  const text = await loadText(host, options.modelDirectory);
  const model = await loadModel(host, { directory: options.modelDirectory, threadCount: options.threadCount ?? 2 });
  try {
    const server = createEngineServer({
      host,
      model,
      text,
      staging,
      misbehaviour,
      options: {
        servedName: options.servedName ?? lastName(options.modelDirectory),
        version: options.version,
        contextLength: checkContextLength(options.contextLength, model.facts),
        layerIds: checkLayerIds(options.layerIds, model.facts),
        dtype: options.dtype ?? 'float32',
        batchMost: options.batchMost ?? 8,
        runningMost: options.runningMost ?? 16,
        queuedMost: options.queuedMost ?? 256,
        loopbackOnly: isLoopback(address),
        log: options.log,
      },
    });
    if (staging !== null) await host.files.makeDirectory(staging);
    signal.throwIfAborted();
    const url = await listen(server, address, options.port ?? 0);
    const closed = aborted(signal).then(async () => {
      const inTime = await server.drain(options.drainMs ?? 10_000);
      if (!inTime) options.log('requests that still ran were cut off');
      await model.release();
    });
    return { url, closed };
  } catch (error) {
    await model.release();
    throw error;
  }
}

async function listen(server: EngineServer, address: string, port: number): Promise<string> {
  try {
    return await server.app.listen({ host: address, port });
  } catch (error) {
    await server.app.close();
    throw new TidemarkError(
      'usage',
      `cannot listen on ${address}, port ${port}: ${error instanceof Error ? error.message : String(error)}`,
      {
        hint: 'choose another --port; 0 takes any that is free',
        cause: error,
      },
    );
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

function isLoopback(address: string): boolean {
  return address === 'localhost' || address === '::1' || /^127(\.\d{1,3}){3}$/.test(address);
}

function lastName(directory: string): string {
  return directory.split('/').findLast((part) => part !== '') ?? 'model';
}

function checkContextLength(wanted: number | undefined, facts: ModelFacts): number {
  if (wanted === undefined) return facts.contextLength;
  if (Number.isInteger(wanted) && wanted >= 2 && wanted <= facts.contextLength) return wanted;
  throw new TidemarkError('usage', `the context length must be 2 to ${facts.contextLength} for this model, not ${wanted}`);
}

/** Ascending and unique, so that the order of the file's axis is beyond doubt. */
function checkLayerIds(wanted: readonly LayerBoundary[] | undefined, facts: ModelFacts): readonly LayerBoundary[] {
  if (wanted === undefined) {
    return [...new Set([...defaultAuxiliaryLayers(facts.layerCount), facts.layerCount])].filter((id) => id >= 0).sort((a, b) => a - b);
  }
  const fits = wanted.every(
    (id, index) => Number.isInteger(id) && id >= 0 && id <= facts.layerCount && (index === 0 || id > (wanted[index - 1] ?? id)),
  );
  if (wanted.length > 0 && fits) return wanted;
  throw new TidemarkError('usage', `layer ids must ascend within 0 to ${facts.layerCount} for this model, not ${wanted.join(',')}`);
}
