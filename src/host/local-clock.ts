import type { Clock } from './host.ts';

/** Longer timers fire at once: Node keeps their length in 31 bits. */
export const timerMsMost = 2 ** 31 - 1;

export function createLocalClock(): Clock {
  return {
    now: () => Date.now(),
    monotonicMs: () => performance.now(),
    async sleep(ms, signal) {
      const until = performance.now() + ms;
      signal?.throwIfAborted();
      for (let left = ms; left > 0; left = until - performance.now()) await timer(Math.min(left, timerMsMost), signal);
    },
  };
}

function timer(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(handle);
      reject(signal?.reason as Error);
    };
    const handle = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}
