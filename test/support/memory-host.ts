import type { Clock, Fact, Host, ProcessIdentity } from '../../src/host/host.ts';
import { createMemoryFiles, type MemoryFiles } from './memory-files.ts';
import { seededRandom } from './seeded-random.ts';

export interface MemoryHostOptions {
  /** Default: empty. Several hosts may share one store, as several processes share a disk. */
  readonly files?: MemoryFiles;
  /** Default pid 100 of host `memory`, boot `boot-1`. */
  readonly identity?: Partial<ProcessIdentity>;
  /** Default: whoever has our host name and boot id lives, and other boots are dead. */
  readonly isAlive?: (process: ProcessIdentity) => 'alive' | 'dead' | 'unknown';
  readonly clock?: Clock;
  /** For `randomBytes`. Give two processes on one disk different seeds. Default 1. */
  readonly seed?: number;
}

export interface MemoryHost extends Host {
  readonly files: MemoryFiles;
}

const notModelled: Fact<never> = { known: false, why: 'a machine in memory has none' };

/** A machine that exists only in a test: no disk, no network, a clock that waits for nobody. */
export function memoryHost(options: MemoryHostOptions = {}): MemoryHost {
  const files = options.files ?? createMemoryFiles();
  const identity: ProcessIdentity = { hostname: 'memory', bootId: 'boot-1', pid: 100, startTicks: '1000', ...options.identity };
  const random = seededRandom(options.seed ?? 1);
  return {
    files,
    clock: options.clock ?? virtualClock(),
    http: {
      request: async () => {
        throw new Error('a host in memory has no network');
      },
      close: async () => undefined,
    },
    machine: {
      facts: async () => ({
        hostname: identity.hostname,
        bootId: { known: true, value: identity.bootId, source: 'memory' },
        bootedAt: notModelled,
        memoryBytes: notModelled,
        dirty: notModelled,
        platform: 'memory',
        node: process.version,
      }),
      mountOf: async () => notModelled,
      self: async () => identity,
      async isAlive(holder) {
        if (options.isAlive !== undefined) return options.isAlive(holder);
        if (holder.hostname !== identity.hostname) return 'unknown';
        return holder.bootId === identity.bootId ? 'alive' : 'dead';
      },
      writersBelow: async () => ({ known: true, value: [], source: 'memory' }),
    },
    randomBytes: (length) => random.bytes(length),
  };
}

/**
 * Time that passes only while everybody sleeps: when all other work has come to rest, the clock jumps to whoever
 * wakes first. Hours of back-off take no time, and in the order they would.
 */
export function virtualClock(startMs = 1_700_000_000_000): Clock {
  let elapsedMs = 0;
  let armed = false;
  let sleepers: readonly { readonly wakesMs: number; readonly wake: () => void }[] = [];

  function arm(): void {
    if (armed || sleepers.length === 0) return;
    armed = true;
    setImmediate(() => {
      armed = false;
      const first = sleepers.reduce(
        (a, b) => (b.wakesMs < a.wakesMs ? b : a),
        sleepers[0] ?? { wakesMs: elapsedMs, wake: () => undefined },
      );
      elapsedMs = Math.max(elapsedMs, first.wakesMs);
      sleepers = sleepers.filter((one) => one !== first);
      first.wake();
      arm();
    });
  }

  return {
    now: () => startMs + elapsedMs,
    monotonicMs: () => elapsedMs,
    sleep(ms, signal) {
      return new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason as Error);
        const stop = () => {
          sleepers = sleepers.filter((one) => one !== sleeper);
          reject(signal?.reason as Error);
        };
        const wake = () => {
          signal?.removeEventListener('abort', stop);
          resolve();
        };
        const sleeper = { wakesMs: elapsedMs + Math.max(0, ms), wake };
        sleepers = [...sleepers, sleeper];
        signal?.addEventListener('abort', stop, { once: true });
        arm();
      });
    },
  };
}
