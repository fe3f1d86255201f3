import { TidemarkError } from '../core/errors.ts';
import { shellLine } from '../core/shell-line.ts';
import type { Engine } from '../engine/engine.ts';
import type { Clock } from '../host/host.ts';
import { waitMs } from './backoff.ts';

/**
 * Holds all rows back while the engine is gone. One prober asks whether it lives; everybody else
 * waits for its answer, so a dead server is not flooded the moment it comes back.
 */
export class EngineGate {
  readonly #engines: readonly Engine[];
  readonly #clock: Clock;
  readonly #patienceMs: number;
  readonly #folder: string;
  #probing: Promise<void> | null = null;

  /** @param options `folder`: of the run, for the command to type next */
  constructor(engines: readonly Engine[], clock: Clock, options: { readonly patienceMs: number; readonly folder: string }) {
    this.#engines = engines;
    this.#clock = clock;
    this.#patienceMs = options.patienceMs;
    this.#folder = options.folder;
  }

  /** Resolves when nobody has reported the engine lost, or it is back, or `signal` fires. */
  async open(signal: AbortSignal): Promise<void> {
    if (this.#probing === null || signal.aborted) return;
    await this.#probing;
  }

  /**
   * Reports a loss and waits for the engine.
   * @returns whether this call was the one that probed
   * @throws TidemarkError `engine-unreachable` when it stays away
   */
  async lost(message: string, signal: AbortSignal): Promise<boolean> {
    const first = this.#probing === null;
    this.#probing ??= this.#probe(message, signal).finally(() => {
      this.#probing = null;
    });
    await this.#probing;
    return first;
  }

  async #probe(message: string, signal: AbortSignal): Promise<void> {
    const started = this.#clock.monotonicMs();
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      // A jitter is for many callers; there is one prober.
      await this.#clock.sleep(waitMs({ firstMs: 250, mostMs: 5_000 }, attempt, 1), signal).catch(() => undefined);
      if (signal.aborted) return;
      const healthy = await Promise.all(this.#engines.map((engine) => engine.healthy(signal)));
      if (healthy.every(Boolean)) return;
      if (this.#clock.monotonicMs() - started > this.#patienceMs) {
        throw new TidemarkError('engine-unreachable', `the engine has been gone for ${Math.round(this.#patienceMs / 1000)} s: ${message}`, {
          retry: 'later',
          where: this.#folder,
          hint: `start the engine again, then: ${shellLine(['tidemark', 'resume', this.#folder])}`,
        });
      }
    }
  }
}
