import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { messageOf } from '../../src/core/errors.ts';
import { createLocalHost } from '../../src/host/local.ts';
import { faultyHost } from '../support/faulty-host.ts';
import { gatedHost } from '../support/gated-host.ts';
import { createMemoryFiles } from '../support/memory-files.ts';
import { memoryHost } from '../support/memory-host.ts';
import { describeFileStore } from './host.suite.ts';
import { type FilesUnderTest, writeFile } from './host-place.ts';

/** A command of the system, which fails the test when it fails. */
const system = (command: string, ...args: readonly string[]) => execFileSync(command, args, { stdio: 'pipe' });

const root = process.getuid?.() === 0;

function localPlace(): FilesUnderTest {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-host-')));
  const { files } = createLocalHost();
  const small = mountSmall();
  return {
    files,
    folder: base,
    plantLink: (path, target) => symlinkSync(target, path),
    small: typeof small === 'string' ? { folder: small, files } : small,
    close() {
      if (typeof small === 'string') unmount(small);
      rmSync(base, { recursive: true });
    },
  };
}

/** A tmpfs of 1 MiB, or why there is none. */
function mountSmall(options = 'size=1m,nr_inodes=64'): string | { readonly skipped: string } {
  if (!root) return { skipped: 'mounting a small tmpfs needs root' };
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-small-')));
  try {
    system('mount', '-t', 'tmpfs', '-o', options, 'tidemark-test', folder);
    return folder;
  } catch (error) {
    rmSync(folder, { recursive: true });
    return { skipped: `cannot mount a tmpfs: ${messageOf(error)}` };
  }
}

function unmount(folder: string): void {
  system('umount', folder);
  rmSync(folder, { recursive: true });
}

describeFileStore('local', localPlace);

function memoryPlace(): FilesUnderTest {
  const files = createMemoryFiles({ folders: ['/run'] });
  const small = createMemoryFiles({ folders: ['/small'], capacityBytes: 1 << 20 });
  return { files, folder: '/run', plantLink: files.plantLink, small: { folder: '/small', files: small }, close: () => undefined };
}

describeFileStore('memory', memoryPlace);

describeFileStore('faulty without a fault', () => {
  const place = memoryPlace();
  return { ...place, files: faultyHost(memoryHost({ files: place.files as ReturnType<typeof createMemoryFiles> })).files };
});

describeFileStore('gated without a gate', () => {
  const place = localPlace();
  const trace = join(place.folder, '..', `tidemark-trace-${process.pid}`);
  const { files } = gatedHost({ ...createLocalHost(), files: place.files }, { TIDEMARK_TEST_TRACE: trace });
  return {
    ...place,
    files,
    async close() {
      await place.close();
      rmSync(trace);
    },
  };
});

describe('local: what only a real machine has', () => {
  let folder = '';
  const { files } = createLocalHost();

  beforeAll(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-real-')));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test('names that are not UTF-8 are listed escaped and not openable', async () => {
    const odd = join(folder, 'odd');
    await files.makeDirectory(odd);
    writeFileSync(Buffer.concat([Buffer.from(`${odd}/a`), Buffer.of(0xff, 0xfe)]), 'x');
    writeFileSync(`${odd}/a\\xff\\xfe`, 'y');
    const listed = [...((await files.list(odd)) ?? [])].sort((a, b) => Number(a.openable) - Number(b.openable));
    expect(listed).toEqual([
      { name: 'a\\xff\\xfe', kind: 'file', openable: false },
      { name: 'a\\xff\\xfe', kind: 'file', openable: true },
    ]);
    // The name as printed opens the file that is really called so, never the other.
    expect(Buffer.from((await files.readSmall(`${odd}/a\\xff\\xfe`, 9)) ?? []).toString()).toBe('y');
  });

  test('pipes, sockets and devices are refused at once', async () => {
    system('mkfifo', join(folder, 'pipe'));
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(folder, 'socket'), resolve));
    try {
      for (const path of [join(folder, 'pipe'), join(folder, 'socket'), '/dev/null', '/dev/zero']) {
        await expect(files.open(path)).rejects.toMatchObject({ code: 'storage-denied', where: path });
        await expect(files.readSmall(path, 10)).rejects.toMatchObject({ code: 'storage-denied', where: path });
        expect((await files.stat(path))?.kind).toBe('other');
      }
    } finally {
      server.close();
    }
  });

  test('offsets beyond 2 and 4 GiB, and holes seen in the allocation', async () => {
    const path = join(folder, 'sparse');
    const size = 5 * 2 ** 30 + 3;
    await writeFile(files, path, 'start');
    truncateSync(path, size - 3);
    writeFileSync(path, 'end', { flag: 'a' });
    const file = await files.open(path);
    expect(file?.size).toBe(size);
    expect(file?.stat.allocatedBytes).toBeLessThan(1 << 20);
    expect(Buffer.from((await file?.read(size - 4, 4)) ?? []).toString()).toBe('\0end');
    expect(Buffer.from((await file?.read(2 ** 31 - 2, 4)) ?? []).toString()).toBe('\0\0\0\0');
    await file?.close();
  });

  test('a file that shrinks under an open reader is told, not padded', async () => {
    const path = join(folder, 'shrinks');
    await writeFile(files, path, 'x'.repeat(1000));
    const file = await files.open(path);
    truncateSync(path, 500);
    await expect(file?.read(0, 1000)).rejects.toMatchObject({
      code: 'storage-failed',
      message: expect.stringContaining('ended at 500 of the 1000'),
    });
    await file?.close();
  });

  test('a small file that says 0 bytes is read to its end', async () => {
    const version = await files.readSmall('/proc/version', 4096);
    expect(Buffer.from(version ?? []).toString()).toBe(readFileSync('/proc/version', 'utf8'));
    await expect(files.readSmall('/proc/version', 5)).rejects.toMatchObject({ code: 'format-refused' });
  });

  test('no inodes left is a full disk too', async (context) => {
    const small = mountSmall('size=1m,nr_inodes=8');
    if (typeof small !== 'string') return context.skip(small.skipped);
    try {
      const failures: unknown[] = [];
      for (let index = 0; index < 10; index++)
        await writeFile(files, `${small}/${index}`, '').catch((error: unknown) => failures.push(error));
      expect(failures.length).toBeGreaterThan(0);
      expect(failures[0]).toMatchObject({ code: 'storage-full', retry: 'later', hint: expect.stringContaining('df -i') });
      expect((await files.space(small)).freeInodes).toBe(0);
    } finally {
      unmount(small);
    }
  });

  test('a read-only mount; a rename to another filesystem', async (context) => {
    const small = mountSmall();
    if (typeof small !== 'string') return context.skip(small.skipped);
    try {
      await writeFile(files, `${small}/file`, 'x');
      await expect(files.rename(`${small}/file`, join(folder, 'elsewhere'))).rejects.toMatchObject({ code: 'storage-failed' });
      await expect(files.link(`${small}/file`, join(folder, 'elsewhere'))).rejects.toMatchObject({ code: 'storage-failed' });
      system('mount', '-o', 'remount,ro', small);
      const refused = { code: 'storage-failed', retry: 'never', message: expect.stringContaining('(EROFS)') };
      await expect(files.create(`${small}/new`, 0o644)).rejects.toMatchObject(refused);
      await expect(files.unlink(`${small}/file`)).rejects.toMatchObject(refused);
    } finally {
      unmount(small);
    }
  });

  test('too many open files is worth another try', async () => {
    const script = `
      import { createLocalHost } from ${JSON.stringify(fileURLToPath(new URL('../../src/host/local.ts', import.meta.url)))};
      const { files } = createLocalHost();
      const open = [];
      try { for (;;) open.push(await files.open('/proc/version')); } catch (error) { console.log(error.code, error.retry, error.hint); }
      process.exit(0);`;
    // The limit comes after the loader has started.
    writeFileSync(join(folder, 'many.mts'), script);
    const loader = fileURLToPath(import.meta.resolve('tsx'));
    const ran = spawnSync('sh', ['-c', 'ulimit -n 100; exec "$0" --import "$1" "$2"', process.execPath, loader, join(folder, 'many.mts')], {
      encoding: 'utf8',
    });
    expect(ran.stdout.trim(), ran.stderr).toBe('storage-failed later ulimit -n');
  });
});

describe('local: somebody else’s files', () => {
  let folder = '';
  const { files } = createLocalHost();
  // Root may do everything; so for a while we are somebody else.
  const become = (uid: number) => process.seteuid?.(uid);

  beforeAll(async () => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-denied-')));
    await writeFile(files, join(folder, 'secret'), 'x');
    system('chmod', '600', join(folder, 'secret'));
    await files.makeDirectory(join(folder, 'closed'));
    await writeFile(files, join(folder, 'closed/file'), 'x');
    system('chmod', '700', join(folder, 'closed'));
    system('chmod', '755', folder);
  });
  afterEach(() => {
    if (root) become(0);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test('is denied, with a command that shows why', async (context) => {
    if (!root) return context.skip('only root can make files of somebody else');
    become(65534);
    const secret = join(folder, 'secret');
    await expect(files.open(secret)).rejects.toMatchObject({
      code: 'storage-denied',
      retry: 'never',
      where: secret,
      hint: `namei -l ${secret}`,
    });
    await expect(files.create(join(folder, 'new'), 0o644)).rejects.toMatchObject({ code: 'storage-denied' });
    await expect(files.unlink(secret)).rejects.toMatchObject({ code: 'storage-denied' });
    await expect(files.list(join(folder, 'closed'))).rejects.toMatchObject({ code: 'storage-denied' });
    // Not "nothing is there": we cannot see.
    await expect(files.stat(join(folder, 'closed/file'))).rejects.toMatchObject({ code: 'storage-denied' });
    await expect(files.open(join(folder, 'closed/none'))).rejects.toMatchObject({ code: 'storage-denied' });
    await expect(files.makeDirectory(join(folder, 'closed/new/deeper'))).rejects.toMatchObject({ code: 'storage-denied' });
  });
});
