import { TidemarkError } from '../core/errors.ts';

/**
 * Who may run: a first-come, first-served gate. It bounds the memory of the running requests (their caches and
 * captures) and the number that may wait, so that a client that sends too much is told so and no queue grows without end.
 */
export interface Admission {
  readonly runningCount: number;
  readonly waitingCount: number;
  /** Resolves with the function that leaves; rejects with `engine-busy` when full, and with the signal's reason. */
  enter(signal: AbortSignal): Promise<() => void>;
  /** Refuses newcomers from now on; resolves when nobody runs or waits. */
  drain(): Promise<void>;
}

export interface AdmissionOptions {
  readonly runningMost: number;
  /** Running and waiting together, as vLLM's `--max-num-queued-reqs` counts. */
  readonly queuedMost: number;
}

export function createAdmission(options: AdmissionOptions): Admission {
  const waiting: { start(): void }[] = [];
  const drained: (() => void)[] = [];
  let runningCount = 0;
  let closed = false;

  function leave(): void {
    runningCount -= 1;
    while (runningCount < options.runningMost) {
      const next = waiting.shift();
      if (next === undefined) break;
      next.start();
    }
    if (runningCount === 0 && waiting.length === 0) for (const resolve of drained.splice(0)) resolve();
  }

  /** Leaving twice must not let two others in. */
  function ticket(): () => void {
    runningCount += 1;
    let left = false;
    return () => {
      if (left) return;
      left = true;
      leave();
    };
  }

  return {
    get runningCount() {
      return runningCount;
    },
    get waitingCount() {
      return waiting.length;
    },
    async enter(signal) {
      signal.throwIfAborted();
      if (closed) throw new TidemarkError('engine-busy', 'the engine is shutting down', { retry: 'later' });
      if (runningCount + waiting.length >= options.queuedMost) {
        throw new TidemarkError('engine-busy', `the request queue is full (${options.queuedMost} running and waiting)`, { retry: 'later' });
      }
      if (runningCount < options.runningMost) return ticket();
      return new Promise((resolve, reject) => {
        const entry = {
          start() {
            signal.removeEventListener('abort', onAbort);
            resolve(ticket());
          },
        };
        const onAbort = (): void => {
          waiting.splice(waiting.indexOf(entry), 1);
          reject(signal.reason);
          if (runningCount === 0 && waiting.length === 0) for (const done of drained.splice(0)) done();
        };
        waiting.push(entry);
        signal.addEventListener('abort', onAbort, { once: true });
      });
    },
    drain() {
      closed = true;
      if (runningCount === 0 && waiting.length === 0) return Promise.resolve();
      return new Promise((resolve) => drained.push(resolve));
    },
  };
}
