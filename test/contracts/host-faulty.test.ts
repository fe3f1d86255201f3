import { describe, expect, test } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import type { FileStore, Host } from '../../src/host/host.ts';
import { type Fault, faultyHost, SimulatedCrash } from '../support/faulty-host.ts';
import { survivorCorners } from '../support/memory-crash.ts';
import { createMemoryFiles } from '../support/memory-files.ts';
import { memoryHost } from '../support/memory-host.ts';
import { writeFile } from './host-place.ts';

const content = 'x'.repeat(10_000);

async function read(files: FileStore, path: string): Promise<string | null> {
  const bytes = await files.readSmall(path, 1 << 20);
  return bytes === null ? null : Buffer.from(bytes).toString('latin1');
}

function start(...faults: readonly Fault[]) {
  const files = createMemoryFiles({ folders: ['/run'] });
  return { files, host: faultyHost(memoryHost({ files }), { faults }) };
}

test('the trace names every step in order', async () => {
  const { host } = start();
  await host.files.makeDirectory('/run/rows');
  const file = await host.files.create('/run/rows/a.tmp', 0o600);
  await file.write(Buffer.from('12345'));
  await file.setMode(0o644);
  await file.sync();
  await file.close();
  await host.files.link('/run/rows/a.tmp', '/run/rows/a');
  await host.files.unlink('/run/rows/a.tmp');
  await host.files.rename('/run/rows/a', '/run/rows/b');
  await host.files.syncDirectory('/run/rows');
  await host.files.list('/run/rows');
  expect(host.trace).toEqual([
    { step: 1, op: 'makeDirectory', path: '/run/rows' },
    { step: 2, op: 'create', path: '/run/rows/a.tmp' },
    { step: 3, op: 'write', path: '/run/rows/a.tmp', bytes: 5 },
    { step: 4, op: 'setMode', path: '/run/rows/a.tmp' },
    { step: 5, op: 'sync', path: '/run/rows/a.tmp' },
    { step: 6, op: 'close', path: '/run/rows/a.tmp' },
    { step: 7, op: 'link', path: '/run/rows/a', from: '/run/rows/a.tmp' },
    { step: 8, op: 'unlink', path: '/run/rows/a.tmp' },
    { step: 9, op: 'rename', path: '/run/rows/b', from: '/run/rows/a' },
    { step: 10, op: 'syncDirectory', path: '/run/rows' },
  ]);
  expect(host.dead).toBe(false);
});

describe('death', () => {
  test.each([
    ['before', null],
    ['after', ''],
  ] as const)('%s the step', async (when, expected) => {
    const { files, host } = start({ kind: 'stop', at: 1, when });
    await expect(host.files.create('/run/a', 0o644)).rejects.toBeInstanceOf(SimulatedCrash);
    expect(host.dead).toBe(true);
    expect(await read(files, '/run/a')).toBe(expected);
  });

  test('is for everything and for good', async () => {
    const { files, host } = start({ kind: 'stop', at: { op: 'sync' } });
    files.plant('/run/planted', content);
    const open = await host.files.open('/run/planted');
    const file = await host.files.create('/run/a', 0o644);
    await expect(file.sync()).rejects.toBeInstanceOf(SimulatedCrash);
    const dead: readonly (() => Promise<unknown>)[] = [
      () => file.write(Buffer.from('x')),
      () => file.sync(),
      () => file.close(),
      () => host.files.create('/run/b', 0o644),
      () => host.files.list('/run'),
      () => host.files.stat('/run/a'),
      () => host.files.open('/run/a'),
      () => host.files.readSmall('/run/a', 1),
      () => host.files.unlink('/run/a'),
      async () => open?.read(0, 1),
      () => host.clock.sleep(1),
      () => host.http.request({ method: 'GET', url: 'http://127.0.0.1/', timeoutMs: 1, mostBytes: 1 }),
    ];
    for (const act of dead) await expect(act()).rejects.toBeInstanceOf(SimulatedCrash);
    expect(await read(files, '/run/a')).toBe('');
    expect(await read(files, '/run/planted')).toBe(content);
  });

  test('what was under way elsewhere is never seen to finish', async () => {
    const { host } = start({ kind: 'stop', at: { op: 'unlink' } });
    const results = await Promise.allSettled([host.clock.sleep(5), host.files.list('/run'), host.files.unlink('/run/a')]);
    expect(results.map((one) => one.status)).toEqual(['rejected', 'rejected', 'rejected']);
  });

  test('kill', async () => {
    const { host } = start();
    host.kill();
    await expect(host.files.list('/run')).rejects.toBeInstanceOf(SimulatedCrash);
  });

  test('inside a write: the first bytes arrive', async () => {
    for (const [fault, length] of [
      [{ kind: 'tear', at: { op: 'write' } }, 5000],
      [{ kind: 'tear', at: { op: 'write' }, keepBytes: 3 }, 3],
      [{ kind: 'tear', at: { op: 'write' }, keepBytes: 99_999 }, 10_000],
    ] as const) {
      const { files, host } = start(fault);
      await expect(writeFile(host.files, '/run/a', content)).rejects.toBeInstanceOf(SimulatedCrash);
      expect((await read(files, '/run/a'))?.length).toBe(length);
      expect(host.dead).toBe(true);
    }
  });

  test('inside makeDirectory: made, not durable', async () => {
    const { files, host } = start({ kind: 'tear', at: { op: 'makeDirectory' } });
    await expect(host.files.makeDirectory('/run/rows')).rejects.toBeInstanceOf(SimulatedCrash);
    expect(await files.list('/run/rows')).toEqual([]);
    expect(await files.crash('only-durable').list('/run/rows')).toBeNull();
  });

  test('a crash is no TidemarkError', () => {
    expect(new SimulatedCrash('x')).not.toBeInstanceOf(TidemarkError);
  });
});

describe('failure', () => {
  test.each([
    ['ENOSPC', 'storage-full', 'later'],
    ['EIO', 'storage-failed', 'never'],
    ['EDQUOT', 'storage-full', 'later'],
  ] as const)('%s on a write, with some bytes in', async (error, code, retry) => {
    const { files, host } = start({ kind: 'fail', at: { op: 'write' }, error, keepBytes: 7 });
    const file = await host.files.create('/run/a', 0o644);
    await expect(file.write(Buffer.from(content))).rejects.toMatchObject({ code, retry, where: '/run/a' });
    await expect(file.write(Buffer.from('x'))).rejects.toMatchObject({ code });
    await expect(file.sync()).rejects.toMatchObject({ code });
    await file.close();
    expect((await read(files, '/run/a'))?.length).toBe(7);
    // Once, and the process lives.
    await writeFile(host.files, '/run/b', 'b');
    expect(host.dead).toBe(false);
  });

  test('a failed sync stays failed for that file', async () => {
    const { files, host } = start({ kind: 'fail', at: { op: 'sync', path: /a$/ }, error: 'EIO' });
    const file = await host.files.create('/run/a', 0o644);
    await file.write(Buffer.from('x'));
    await expect(file.sync()).rejects.toMatchObject({ code: 'storage-failed', message: expect.stringContaining('this is final') });
    await expect(file.sync()).rejects.toMatchObject({ code: 'storage-failed' });
    await files.syncDirectory('/run');
    expect(await read(files.crash('only-durable'), '/run/a')).toBe('');
  });

  test('an error of one’s own, at the nth match', async () => {
    const own = new TidemarkError('storage-denied', 'could not', { where: 'x' });
    const { host } = start({ kind: 'fail', at: { op: 'link', path: /final/, nth: 2 }, error: own });
    await writeFile(host.files, '/run/a', '');
    expect(await host.files.link('/run/a', '/run/final-1')).toBe(true);
    await expect(host.files.link('/run/a', '/run/final-2')).rejects.toBe(own);
    expect(await host.files.link('/run/a', '/run/final-2')).toBe(true);
  });
});

describe('lies', () => {
  test('a sync that is none', async () => {
    const { files, host } = start({ kind: 'lie', at: { op: 'sync' } });
    await writeFile(host.files, '/run/a', 'x');
    await host.files.syncDirectory('/run');
    expect(await read(files.crash('only-durable'), '/run/a')).toBe('');
  });

  test('a lost write, a lost name', async () => {
    const { files, host } = start({ kind: 'lie', at: { op: 'write' } }, { kind: 'lie', at: { op: 'link' } });
    await writeFile(host.files, '/run/a', 'x');
    expect(await read(files, '/run/a')).toBe('');
    expect(await host.files.link('/run/a', '/run/b')).toBe(true);
    expect(await read(files, '/run/b')).toBeNull();
  });

  test('one bit, on every read or the first', async () => {
    for (const [times, second] of [
      [undefined, 'aBc'],
      [1, 'abc'],
    ] as const) {
      const { files, host } = start({ kind: 'flip', path: /a$/, offset: 1, bit: 5, ...(times === undefined ? {} : { times }) });
      files.plant('/run/a', 'abc');
      expect(await read(host.files, '/run/a')).toBe('aBc');
      expect(await read(host.files, '/run/a')).toBe(second);
      expect(await read(files, '/run/a')).toBe('abc');
    }
  });

  test('one bit, wherever the read begins', async () => {
    const { files, host } = start({ kind: 'flip', path: /a$/, offset: 4, bit: 0 });
    files.plant('/run/a', '00000000');
    const file = await host.files.open('/run/a');
    const parts = await Promise.all([file?.read(0, 4), file?.read(4, 1), file?.read(3, 5), file?.read(5, 3)]);
    expect(parts.map((part) => Buffer.from(part ?? []).toString())).toEqual(['0000', '1', '01000', '000']);
  });

  test('unreadable from some point on', async () => {
    const { files, host } = start({ kind: 'unreadable', path: /a$/, fromOffset: 5 }, { kind: 'unreadable', path: /b$/, error: 'ESTALE' });
    files.plant('/run/a', '0123456789');
    files.plant('/run/b', '');
    const file = await host.files.open('/run/a');
    expect(Buffer.from((await file?.read(0, 5)) ?? []).toString()).toBe('01234');
    await expect(file?.read(4, 2)).rejects.toMatchObject({ code: 'storage-failed', message: expect.stringContaining('(EIO)') });
    await expect(host.files.open('/run/b')).rejects.toMatchObject({ code: 'storage-failed', message: expect.stringContaining('(ESTALE)') });
    expect(await host.files.open('/run/none-b')).toBeNull();
  });
});

/**
 * The pattern that the crash tests of the commit path follow, on the smallest protocol there is: publish a file, then
 * say so in a journal. Whatever step the power goes at and whatever survives: a journal line means a whole file.
 */
describe('a commit protocol is checked at every step', () => {
  interface Steps {
    readonly syncFile: boolean;
    readonly syncFolder: boolean;
  }

  async function commit(host: Host, { syncFile, syncFolder }: Steps): Promise<void> {
    const { files } = host;
    await files.makeDirectory('/run/rows');
    const sample = await files.create('/run/rows/a.tmp', 0o600);
    await sample.write(Buffer.from(content));
    if (syncFile) await sample.sync();
    await sample.close();
    await files.link('/run/rows/a.tmp', '/run/rows/a');
    await files.unlink('/run/rows/a.tmp');
    if (syncFolder) await files.syncDirectory('/run/rows');
    const journal = await files.create('/run/journal', 0o600);
    await journal.write(Buffer.from('a is committed\n'));
    await journal.sync();
    await files.syncDirectory('/run');
    await journal.close();
  }

  /** How many of all crashes left a journal line without its whole file. */
  async function violations(steps: Steps): Promise<number> {
    const dry = start();
    await commit(dry.host, steps);
    let count = 0;
    let committed = 0;
    for (let step = 1; step <= dry.host.trace.length + 1; step++) {
      for (const kind of ['stop', 'tear'] as const) {
        const { files, host } = start({ kind, at: step });
        await commit(host, steps).catch((error: unknown) => {
          if (!(error instanceof SimulatedCrash)) throw error;
        });
        for (const survivor of [...survivorCorners, ...Array.from({ length: 30 }, (_, seed) => seed * 100 + step)]) {
          const after = files.crash(survivor);
          if ((await read(after, '/run/journal')) !== 'a is committed\n') continue;
          committed += 1;
          if ((await read(after, '/run/rows/a')) !== content) count += 1;
        }
      }
    }
    expect(committed).toBeGreaterThan(0);
    return count;
  }

  test('the right one holds', async () => {
    expect(await violations({ syncFile: true, syncFolder: true })).toBe(0);
  });

  test('without a sync of the file, or of its folder, it is caught', async () => {
    expect(await violations({ syncFile: false, syncFolder: true })).toBeGreaterThan(0);
    expect(await violations({ syncFile: true, syncFolder: false })).toBeGreaterThan(0);
  });
});
