import { assert } from '../core/assert.ts';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import type { LastStateNorm, LayerBoundary } from '../core/layers.ts';
import { DTYPE_BYTES } from '../format/tensors.ts';
import type { Clock } from '../host/host.ts';
import type { Capture, CaptureRequest, Engine } from './engine.ts';
import { type FloatDtype, fillStates, spoil } from './replay-states.ts';

/** What one capture does instead of working. */
type ReplayFailure =
  | { readonly kind: 'error'; readonly code: ErrorCode; readonly message?: string }
  /** No answer until the signal fires. */
  | { readonly kind: 'hang' }
  /** The capture succeeds, and its values are bad: in one row and layer slot, or (null) in all. */
  | { readonly kind: 'values'; readonly value: 'nan' | 'infinity' | 'zero'; readonly row: number | null; readonly slot: number | null };

export interface ReplayOptions {
  /** Boundary numbers, ascending, the last state's included. */
  readonly layers: readonly LayerBoundary[];
  readonly width: number;
  /** Default `BF16`. */
  readonly dtype?: FloatDtype;
  /** Default `pre-norm`. */
  readonly lastStateNorm?: LastStateNorm;
  /** Time that each capture takes. Default 0. */
  readonly serviceMs?: number;
  /** Longest prompt; longer ones are refused. Default: none. */
  readonly maxTokens?: number;
  /** Another value gives other states, as another model would. Default 0. */
  readonly seed?: number;
  /** Asked once for each capture; null lets it work. It may count, and so fail the nth call or the first attempt of a row. */
  readonly failures?: (request: CaptureRequest) => ReplayFailure | null;
}

export interface ReplayEngine extends Engine {
  /** Captures that were given out and not released. */
  readonly outstanding: number;
}

/**
 * The deterministic engine of tests and benchmarks: each state follows from token id, position, layer and seed by an
 * integer hash, so that two runs of any order and concurrency must give the same bytes.
 */
export function createReplayEngine(clock: Clock, options: ReplayOptions): ReplayEngine {
  const { layers, width, dtype = 'BF16', serviceMs = 0, maxTokens, seed = 0 } = options;
  assert(layers.length > 0 && width > 0, 'there are layers with a width');
  let outstanding = 0;
  let closed = false;

  async function capture(request: CaptureRequest, signal?: AbortSignal): Promise<Capture> {
    assert(!closed, 'the engine is open');
    const where = `row ${request.row}`;
    const failure = options.failures?.(request) ?? null;
    await wait(failure?.kind === 'hang' ? Number.MAX_SAFE_INTEGER : serviceMs, where, signal);
    if (failure?.kind === 'error')
      throw new TidemarkError(failure.code, failure.message ?? `the replay engine was told to fail with ${failure.code}`, { where });
    const inputIds = request.inputIds.slice();
    if (maxTokens !== undefined && inputIds.length > maxTokens) {
      throw new TidemarkError(
        'engine-refused',
        `the prompt has ${inputIds.length} tokens, longer than the maximum context length of ${maxTokens}`,
        { where },
      );
    }
    outstanding += 1;
    const rowElements = layers.length * width;
    let buffer = new Uint8Array(0);
    let released = false;
    return {
      tokens: inputIds.length,
      width,
      dtype,
      layers,
      lastStateNorm: options.lastStateNorm ?? 'pre-norm',
      async readRows(from, to) {
        assert(!released, 'the capture is not released');
        assert(0 <= from && from <= to && to <= inputIds.length, `rows ${from} to ${to} of ${inputIds.length}`);
        const bytes = (to - from) * rowElements * DTYPE_BYTES[dtype];
        if (buffer.length < bytes) buffer = new Uint8Array(bytes);
        const rows = buffer.subarray(0, bytes);
        fillStates(rows, { inputIds, from, to, layers, width, dtype, seed });
        if (failure?.kind === 'values') spoil(rows, { ...failure, from, to, slots: layers.length, width, dtype });
        return rows;
      },
      async release() {
        if (!released) outstanding -= 1;
        released = true;
      },
    };
  }

  async function wait(ms: number, where: string, signal: AbortSignal | undefined): Promise<void> {
    const stopped = (cause: unknown) => new TidemarkError('interrupted', 'the capture was stopped', { where, cause });
    if (signal?.aborted) throw stopped(signal.reason);
    if (ms === 0) return;
    await clock.sleep(ms, signal).catch((cause: unknown) => {
      throw stopped(cause);
    });
  }

  return {
    // Nothing is staged: the states are computed as they are read.
    capabilities: { stagedFiles: false, echoesTokenIds: true, health: true },
    get outstanding() {
      return outstanding;
    },
    async describe() {
      return {
        engine: 'replay',
        model: `replay-${width}`,
        maxTokens: maxTokens ?? null,
        state: { seed: String(seed), dtype, layers: layers.join(','), width: String(width) },
      };
    },
    async healthy() {
      return !closed;
    },
    capture,
    async close() {
      closed = true;
    },
  };
}
