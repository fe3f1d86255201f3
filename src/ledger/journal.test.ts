import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createLocalHost } from '../host/local.ts';
import { createJournal, readScope } from './journal.ts';
import type { RowRecord } from './ledger.ts';

const RUN = '0123456789abcdef0123456789abcdef';
const host = createLocalHost();

const failure = (row: number): RowRecord => ({ kind: 'failure', row, class: 'bad-capture', message: 'm', attempt: 1, final: false, at: 0 });

async function folder(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'tidemark-journal-'));
}

const rowsOf = (scope: Awaited<ReturnType<typeof readScope>>): number[] =>
  scope.records.map(({ record }) => (record as { row: number }).row);

describe('journals', () => {
  it('gives back what was appended, and says whether it was closed', async () => {
    const at = await folder();
    const journal = await createJournal(host.files, at, RUN, 'shard-0', 1, null);
    await Promise.all([journal.append(failure(1)), journal.append(failure(2)), journal.append(failure(3))]);
    const open = await readScope(host.files, at, RUN, 'shard-0', [1]);
    expect(rowsOf(open)).toEqual([1, 2, 3]);
    expect(open.closed).toBe(false);
    await journal.close();
    expect((await readScope(host.files, at, RUN, 'shard-0', [1])).closed).toBe(true);
  });

  it('is not closed when a later lease has no journal yet', async () => {
    const at = await folder();
    await (await createJournal(host.files, at, RUN, 'shard-0', 1, null)).close();
    expect((await readScope(host.files, at, RUN, 'shard-0', [1, 2])).closed).toBe(false);
  });

  it('counts nothing that an overtaken process appends behind the fence', async () => {
    const at = await folder();
    const paused = await createJournal(host.files, at, RUN, 'shard-0', 1, null);
    await paused.append(failure(1));
    const { fence } = await readScope(host.files, at, RUN, 'shard-0', [1]);
    const next = await createJournal(host.files, at, RUN, 'shard-0', 2, fence);
    await next.append(failure(2));
    await paused.append(failure(99));
    const read = await readScope(host.files, at, RUN, 'shard-0', [1, 2]);
    expect(rowsOf(read)).toEqual([1, 2]);
    expect(read.problems).toEqual([]);
  });

  it('counts nothing of a journal that was made after its lease was overtaken', async () => {
    const at = await folder();
    const first = await createJournal(host.files, at, RUN, 'shard-0', 1, null);
    await first.append(failure(1));
    const { fence } = await readScope(host.files, at, RUN, 'shard-0', [1]);
    const third = await createJournal(host.files, at, RUN, 'shard-0', 3, fence);
    await third.append(failure(3));
    const late = await createJournal(host.files, at, RUN, 'shard-0', 2, fence);
    await late.append(failure(2));
    expect(rowsOf(await readScope(host.files, at, RUN, 'shard-0', [1, 2, 3]))).toEqual([1, 3]);
  });

  it('drops a torn tail, says so, and goes on from the lines before it', async () => {
    const at = await folder();
    const journal = await createJournal(host.files, at, RUN, 'shard-0', 1, null);
    await journal.append(failure(1));
    await journal.append(failure(2));
    const path = join(at, '.tidemark/journal/shard-0.1.log');
    const bytes = await readFile(path);
    await writeFile(path, bytes.subarray(0, bytes.length - 3));
    const torn = await readScope(host.files, at, RUN, 'shard-0', [1]);
    expect(rowsOf(torn)).toEqual([1]);
    expect(torn.problems.map((problem) => problem.kind)).toEqual(['torn-tail']);
    const next = await createJournal(host.files, at, RUN, 'shard-0', 2, torn.fence);
    await next.append(failure(5));
    expect(rowsOf(await readScope(host.files, at, RUN, 'shard-0', [1, 2]))).toEqual([1, 5]);
  });

  it('notices when bytes before the fence have changed since', async () => {
    const at = await folder();
    const journal = await createJournal(host.files, at, RUN, 'shard-0', 1, null);
    await journal.append(failure(1));
    await journal.append(failure(2));
    const { fence } = await readScope(host.files, at, RUN, 'shard-0', [1]);
    await createJournal(host.files, at, RUN, 'shard-0', 2, fence);
    const path = join(at, '.tidemark/journal/shard-0.1.log');
    const bytes = await readFile(path);
    bytes[bytes.length - 5] = (bytes[bytes.length - 5] ?? 0) ^ 1;
    await writeFile(path, bytes);
    const read = await readScope(host.files, at, RUN, 'shard-0', [1, 2]);
    expect(rowsOf(read)).toEqual([1]);
    expect(read.problems.map((problem) => problem.kind)).toContain('fence-broken');
  });

  it('holds nothing when its header is torn, another run’s, or of an unknown version', async () => {
    const at = await folder();
    await createJournal(host.files, at, RUN, 'shard-0', 1, null);
    const path = join(at, '.tidemark/journal/shard-0.1.log');
    const header = await readFile(path);
    await writeFile(path, header.subarray(0, 20));
    expect((await readScope(host.files, at, RUN, 'shard-0', [1])).problems.map((problem) => problem.kind)).toEqual(['no-header']);
    await writeFile(path, header);
    expect((await readScope(host.files, at, 'f'.repeat(32), 'shard-0', [1])).problems.map((problem) => problem.kind)).toEqual([
      'no-header',
    ]);
  });
});
