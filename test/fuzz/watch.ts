import { Worker } from 'node:worker_threads';
import { messageOf } from '../../src/core/errors.ts';
import { type FuzzFailure, inputOf } from './rounds.ts';
import type { FuzzTarget } from './target.ts';

/** Places of the numbers that worker and watcher share. */
export const STATE = { stop: 0, target: 1, number: 2, tick: 3, places: 4 } as const;

export interface FuzzJob {
  readonly seed: number;
  readonly first: number;
  readonly only: string | null;
  readonly shared: SharedArrayBuffer;
}

export interface FuzzOptions {
  readonly seed: number;
  readonly seconds: number;
  readonly only: string | null;
  /** One input may take this long. */
  readonly inputSecondsMost: number;
  readonly failuresMost: number;
  onFailure(failure: FuzzFailure): void;
}

export interface FuzzSummary {
  readonly inputs: number;
  readonly rounds: number;
  /** Of different kinds: the same promise of the same target counts once. */
  readonly failures: number;
  /** Those that had been seen before. */
  readonly repeats: number;
}

const POLL_MS = 100;
/** A worker of Node 20 does not take tsx from its parent. */
const BOOT = `import('tsx/esm/api').then(({ register }) => { register(); return import(${JSON.stringify(new URL('./worker.ts', import.meta.url).href)}); })`;
/** What a parser may hold at once, by V8: the worker is ended and the input named when it is more. */
const HEAP_MIB_MAX = 768;

/** Feeds all targets in turn for a time. A hang or a lack of memory ends the worker and counts as a failure; the next one goes on behind it. */
export async function fuzz(targets: readonly FuzzTarget[], options: FuzzOptions): Promise<FuzzSummary> {
  const until = performance.now() + options.seconds * 1000;
  const summary = { inputs: 0, rounds: 0, failures: 0, repeats: 0 };
  const kinds = new Set<string>();
  let first = 0;
  while (performance.now() < until && summary.failures < options.failuresMost) {
    const shared = new SharedArrayBuffer(4 * STATE.places);
    const state = new Int32Array(shared);
    const report = (failure: FuzzFailure): void => {
      const kind = `${failure.target} ${(failure.message.split('\n')[0] ?? '').replaceAll(/\d+/g, '0')}`;
      if (kinds.has(kind)) {
        summary.repeats += 1;
        return;
      }
      kinds.add(kind);
      summary.failures += 1;
      options.onFailure(failure);
      if (summary.failures >= options.failuresMost) Atomics.store(state, STATE.stop, 1);
    };
    const ended = await watchWorker({ seed: options.seed, first, only: options.only, shared }, state, until, options, report);
    summary.inputs += Atomics.load(state, STATE.tick);
    first = Atomics.load(state, STATE.number) + 1;
    summary.rounds = first;
    if (ended === null) continue;
    const target = targets[Atomics.load(state, STATE.target)];
    if (target === undefined || Atomics.load(state, STATE.tick) === 0) throw new Error(`the worker did not start: ${ended}`);
    const number = Atomics.load(state, STATE.number);
    report({ target: target.name, number, made: inputOf(target, options.seed, number).made, message: ended });
  }
  return summary;
}

/** Null when it ended because it was told to, otherwise why it had to be ended. */
function watchWorker(
  job: FuzzJob,
  state: Int32Array,
  until: number,
  options: FuzzOptions,
  report: (failure: FuzzFailure) => void,
): Promise<string | null> {
  return new Promise((done) => {
    const worker = new Worker(BOOT, {
      eval: true,
      workerData: job,
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB_MAX },
    });
    let why: string | null = null;
    let tick = -1;
    let since = performance.now();
    worker.on('message', report);
    worker.on('error', (error) => {
      why = `the worker ended: ${messageOf(error)}`;
    });
    const timer = setInterval(() => {
      const now = performance.now();
      const at = Atomics.load(state, STATE.tick);
      if (at !== tick) {
        tick = at;
        since = now;
      }
      if (now >= until) Atomics.store(state, STATE.stop, 1);
      // Before its first input it compiles; on a busy machine that takes long.
      if (now - since > options.inputSecondsMost * 1000 * (at === 0 ? 6 : 1)) {
        why = `it took longer than ${options.inputSecondsMost} s`;
        void worker.terminate();
      }
    }, POLL_MS);
    worker.on('exit', () => {
      clearInterval(timer);
      done(why);
    });
  });
}
