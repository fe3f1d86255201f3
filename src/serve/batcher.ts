import { setImmediate } from 'node:timers/promises';
import { assert } from '../core/assert.ts';
import { messageOf, TidemarkError } from '../core/errors.ts';

/**
 * One queue in front of the model. The oldest waiting job goes first and takes along the others of the same key, in their
 * order. Jobs of different keys never run together: that is what makes a result independent of who else was asking.
 */
export interface Batcher<Job, Result> {
  /** Rejects with the signal's reason while the job still waits; a job that runs is finished and its result dropped. */
  submit(job: Job, signal: AbortSignal): Promise<Result>;
  /** Why the engine can serve no more; null while it can. A failed run is final, as it is for a real engine. */
  readonly failure: TidemarkError | null;
}

export interface BatcherOptions<Job, Result> {
  /** Only jobs of one key may run together. */
  keyOf(job: Job): string;
  /** What a job counts against `costMost`. */
  costOf(job: Job): number;
  run(jobs: readonly Job[]): Promise<readonly Result[]>;
  readonly jobsMost: number;
  /** A single job may exceed it. */
  readonly costMost: number;
}

interface Waiting<Job, Result> {
  readonly job: Job;
  readonly key: string;
  readonly signal: AbortSignal;
  resolve(result: Result): void;
  reject(reason: unknown): void;
}

export function createBatcher<Job, Result>(options: BatcherOptions<Job, Result>): Batcher<Job, Result> {
  let queue: Waiting<Job, Result>[] = [];
  let busy = false;
  let failure: TidemarkError | null = null;

  function takeBatch(): readonly Waiting<Job, Result>[] {
    const batch: Waiting<Job, Result>[] = [];
    const rest: Waiting<Job, Result>[] = [];
    let cost = 0;
    for (const waiting of queue) {
      if (waiting.signal.aborted) {
        waiting.reject(waiting.signal.reason);
        continue;
      }
      const first = batch[0];
      const jobCost = options.costOf(waiting.job);
      const fits = batch.length < options.jobsMost && cost + jobCost <= options.costMost;
      if (first === undefined || (first.key === waiting.key && fits)) {
        batch.push(waiting);
        cost += jobCost;
      } else {
        rest.push(waiting);
      }
    }
    queue = rest;
    return batch;
  }

  function die(error: unknown): TidemarkError {
    failure ??= new TidemarkError('engine-unreachable', `the engine died: ${messageOf(error)}`, { cause: error });
    for (const waiting of queue) waiting.reject(failure);
    queue = [];
    return failure;
  }

  async function runQueue(): Promise<void> {
    for (;;) {
      // One turn of the event loop: sequences whose last step just ended can ask for their next one and join this batch.
      await setImmediate();
      const batch = takeBatch();
      if (batch.length === 0) {
        // Before the promise settles: a job that comes in between must find the queue idle.
        busy = false;
        return;
      }
      try {
        const results = await options.run(batch.map((waiting) => waiting.job));
        assert(results.length === batch.length, 'a run gives one result for each job');
        results.forEach((result, index) => {
          batch[index]?.resolve(result);
        });
      } catch (error) {
        for (const waiting of batch) waiting.reject(die(error));
        return;
      }
    }
  }

  return {
    get failure() {
      return failure;
    },
    submit(job, signal) {
      if (failure !== null) return Promise.reject(failure);
      return new Promise((resolve, reject) => {
        queue.push({ job, key: options.keyOf(job), signal, resolve, reject });
        if (busy) return;
        busy = true;
        runQueue().catch(die);
      });
    },
  };
}
