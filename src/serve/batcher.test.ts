import { describe, expect, test } from 'vitest';
import { createBatcher } from './batcher.ts';

interface Job {
  readonly name: string;
  readonly length: number;
}

const never = new AbortController().signal;

function recorder(limits: { readonly jobsMost?: number; readonly costMost?: number; readonly failOn?: string } = {}) {
  const batches: string[][] = [];
  const batcher = createBatcher<Job, string>({
    jobsMost: limits.jobsMost ?? 3,
    costMost: limits.costMost ?? 1000,
    keyOf: (job) => String(job.length),
    costOf: (job) => job.length,
    async run(jobs) {
      batches.push(jobs.map((job) => job.name));
      if (jobs.some((job) => job.name === limits.failOn)) throw new Error('no memory');
      return jobs.map((job) => `${job.name} done`);
    },
  });
  return { batcher, batches };
}

const job = (name: string, length: number): Job => ({ name, length });

describe('the batcher', () => {
  test('runs jobs of one key together, the oldest first, and answers each with its own result', async () => {
    const { batcher, batches } = recorder();
    const jobs = [job('a', 5), job('b', 7), job('c', 5), job('d', 7), job('e', 5), job('f', 5)];
    expect(await Promise.all(jobs.map((each) => batcher.submit(each, never)))).toEqual(jobs.map((each) => `${each.name} done`));
    expect(batches).toEqual([['a', 'c', 'e'], ['b', 'd'], ['f']]);
  });

  test('keeps a batch within its cost, but runs a job that exceeds it alone', async () => {
    const { batcher, batches } = recorder({ costMost: 10 });
    await Promise.all([job('a', 5), job('b', 5), job('c', 5), job('d', 50), job('e', 50)].map((each) => batcher.submit(each, never)));
    expect(batches).toEqual([['a', 'b'], ['c'], ['d'], ['e']]);
  });

  test('lets a job whose result just came join the others again', async () => {
    const { batcher, batches } = recorder();
    const twice = async (name: string): Promise<void> => {
      await batcher.submit(job(`${name}1`, 5), never);
      await batcher.submit(job(`${name}2`, 5), never);
    };
    await Promise.all([twice('a'), twice('b')]);
    expect(batches).toEqual([
      ['a1', 'b1'],
      ['a2', 'b2'],
    ]);
  });

  test('drops a waiting job whose client is gone', async () => {
    const { batcher, batches } = recorder();
    const gone = new AbortController();
    const first = batcher.submit(job('a', 5), never);
    const second = batcher.submit(job('b', 7), gone.signal);
    gone.abort(new Error('gone'));
    await expect(second).rejects.toThrow('gone');
    await first;
    expect(batches).toEqual([['a']]);
  });

  test('fails for good when a run fails: all who wait and all who come', async () => {
    const { batcher } = recorder({ failOn: 'b' });
    const results = await Promise.allSettled([batcher.submit(job('b', 5), never), batcher.submit(job('c', 7), never)]);
    expect(results.map((result) => result.status)).toEqual(['rejected', 'rejected']);
    expect(batcher.failure?.message).toBe('the engine died: no memory');
    await expect(batcher.submit(job('d', 1), never)).rejects.toThrow('the engine died');
  });

  test('serves again after it was idle', async () => {
    const { batcher } = recorder();
    for (const name of ['a', 'b', 'c']) expect(await batcher.submit(job(name, 1), never)).toBe(`${name} done`);
  });
});
