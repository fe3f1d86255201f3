import { isTidemarkError, messageOf, TidemarkError } from '../core/errors.ts';
import type { Clock } from '../host/host.ts';

/** After so many answers in a row that did not come, the mount is taken as dead and nothing more is asked of it. */
const SILENT_MOST = 4;

export interface Guard {
  /** Runs `work`; rejects with `storage-silent` when it takes longer than the limit, or at once when the mount is taken as dead. */
  run<T>(what: string, limitMs: number, work: () => Promise<T>): Promise<T>;
  /** Ends the watch, so that it does not keep the process alive. */
  dispose(): void;
}

/** How often the watch looks: limits are as exact as this. One timer for all calls, because a timer a call costs more than the call. */
const TICK_MS = 500;

/**
 * Bounds every probe in time: a read on a dead network mount blocks for ever and cannot be called back. What
 * hangs is left hanging; its thread is lost until the process ends.
 */
export function createGuard(clock: Clock): Guard {
  const pending = new Set<{ readonly untilMs: number; readonly expire: () => void }>();
  const stop = new AbortController();
  let watching = false;
  let silent = 0;
  const watch = async (): Promise<void> => {
    while (pending.size > 0 && !stop.signal.aborted) {
      await clock.sleep(TICK_MS, stop.signal);
      const now = clock.monotonicMs();
      for (const call of pending) if (call.untilMs <= now) call.expire();
    }
    watching = false;
  };
  return {
    run(what, limitMs, work) {
      if (silent >= SILENT_MOST) return Promise.reject(timeoutError(what, 0));
      return new Promise((resolve, reject) => {
        const call = {
          untilMs: clock.monotonicMs() + limitMs,
          expire: () => {
            pending.delete(call);
            silent += 1;
            reject(timeoutError(what, limitMs));
          },
        };
        pending.add(call);
        if (!watching) {
          watching = true;
          // Only the abort of `dispose` ends a sleep early.
          watch().catch(() => undefined);
        }
        const done = (): void => {
          if (pending.delete(call)) silent = 0;
        };
        work().then(
          (value) => {
            done();
            resolve(value);
          },
          (error: unknown) => {
            done();
            reject(error);
          },
        );
      });
    },
    dispose: () => stop.abort(),
  };
}

function timeoutError(what: string, limitMs: number): TidemarkError {
  const message =
    limitMs === 0
      ? `${what} was not tried: ${SILENT_MOST} calls in a row were not answered`
      : `${what} took longer than ${limitMs / 1000} s`;
  return new TidemarkError('storage-silent', message, { retry: 'later' });
}

export interface Refusal {
  readonly reason: 'io-error' | 'permission' | 'timeout';
  readonly detail: string;
}

/** What the machine's refusal means for a row; null for trouble that is no refusal (an abort, a fault of ours). */
export function refusalOf(error: unknown): Refusal | null {
  if (!isTidemarkError(error)) return null;
  const detail = messageOf(error);
  switch (error.code) {
    case 'storage-silent':
      return { reason: 'timeout', detail };
    case 'storage-denied':
      return { reason: 'permission', detail };
    case 'storage-failed':
    case 'storage-full':
      return { reason: 'io-error', detail };
    case 'format-refused':
      return { reason: 'permission', detail: `tidemark refuses to read it: ${detail}` };
    default:
      return null;
  }
}

/** What `ask` says within the limit; null also where the machine refuses or does not answer: for a look that may fail and then tells nothing. */
export async function askedOrNull<T>(guard: Guard, what: string, limitMs: number, ask: () => Promise<T | null>): Promise<T | null> {
  try {
    return await guard.run(what, limitMs, ask);
  } catch (error) {
    if (refusalOf(error) === null) throw error;
    return null;
  }
}

/** Runs `work` over `items`, at most `width` at a time. The first rejection ends it: running ones finish, no new one starts. */
export async function pooled<T>(items: Iterable<T>, width: number, work: (item: T) => Promise<void>): Promise<void> {
  const iterator = items[Symbol.iterator]();
  let failed = false;
  const worker = async (): Promise<void> => {
    while (!failed) {
      const next = iterator.next();
      if (next.done === true) return;
      try {
        await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
}
