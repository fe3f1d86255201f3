import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/** What the local host asks of the kernel, and what it makes of answers that no disk here gives by itself. */
const strace = 'strace';
const probe = spawnSync(strace, ['-e', 'trace=none', 'true'], { encoding: 'utf8' });
const noStrace = probe.status === 0 ? null : `strace does not work here: ${probe.stderr || probe.error?.message}`;

// A skip says why in its title.
describe.skipIf(noStrace !== null)(`local, seen by strace${noStrace === null ? '' : ` (${noStrace})`}`, () => {
  let folder = '';
  let at = 0;

  beforeAll(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-strace-')));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Runs `body` (with `files`, `run` and `say`) under strace. */
  function traced(
    body: string,
    ...options: readonly string[]
  ): { readonly said: string; readonly calls: readonly string[]; readonly run: string } {
    const run = join(folder, String(at++));
    mkdirSync(run);
    const script = `${run}.mts`;
    const local = JSON.stringify(fileURLToPath(new URL('../../src/host/local.ts', import.meta.url)));
    writeFileSync(
      script,
      `import { createLocalHost } from ${local};
       const { files } = createLocalHost();
       const run = ${JSON.stringify(run)};
       const say = (promise) => promise.then((value) => console.log('ok', value), (error) => console.log(error.code, error.retry, error.message));
       ${body}`,
    );
    const log = `${run}.log`;
    const ended = spawnSync(
      strace,
      ['-f', '-y', '-qq', '-o', log, ...options, process.execPath, '--import', import.meta.resolve('tsx'), script],
      // Injection counts calls per thread.
      { env: { ...process.env, UV_THREADPOOL_SIZE: '1' }, encoding: 'utf8' },
    );
    expect(ended.status, ended.stderr).toBe(0);
    // Of a call that another thread interrupts, strace writes two halves; the first has the arguments.
    const calls = readFileSync(log, 'utf8')
      .split('\n')
      .filter((line) => line.includes(run) && !line.includes('resumed>') && !line.includes(script))
      .map((line) =>
        line
          .replace(/^\d+ +/, '')
          .replaceAll(run, 'RUN')
          .replace(/\d+<RUN/, '<RUN')
          .replace(/AT_FDCWD<[^>]*>/, 'AT_FDCWD'),
      )
      .map((line) => line.replace(/ <unfinished \.\.\.>$/, ')').replace(/\) += .*/, ')'));
    return { said: ended.stdout.trim().replaceAll(run, 'RUN'), calls, run };
  }

  test('each new folder is synced into its parent before the next is made', () => {
    const { said, calls } = traced(`await say(files.makeDirectory(run + '/a/b'));`, '-e', 'trace=mkdir,mkdirat,fsync,fdatasync');
    expect(said).toBe('ok undefined');
    // The first finds no parent.
    expect(calls).toEqual(['mkdir("RUN/a/b", 0777)', 'mkdir("RUN/a", 0777)', 'fsync(<RUN>)', 'mkdir("RUN/a/b", 0777)', 'fsync(<RUN/a>)']);
  });

  test('a file is written, synced and published by these calls and no others', () => {
    const { calls } = traced(
      `const file = await files.create(run + '/a.tmp', 0o600);
       await file.write(Buffer.from('12345'));
       await file.setMode(0o644);
       await file.sync();
       await file.close();
       await files.link(run + '/a.tmp', run + '/a');
       await files.unlink(run + '/a.tmp');
       await files.syncDirectory(run);`,
      '-e',
      'trace=openat,write,pwrite64,fchmod,fsync,fdatasync,link,linkat,unlink,rename,ftruncate',
    );
    expect(calls).toEqual([
      'openat(AT_FDCWD, "RUN/a.tmp", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0600)',
      'write(<RUN/a.tmp>, "12345", 5)',
      'fchmod(<RUN/a.tmp>, 0644)',
      'fsync(<RUN/a.tmp>)',
      'link("RUN/a.tmp", "RUN/a")',
      'unlink("RUN/a.tmp")',
      'openat(AT_FDCWD, "RUN", O_RDONLY|O_CLOEXEC|O_DIRECTORY)',
      'fsync(<RUN>)',
    ]);
  });

  test('a failed fsync is final, although the kernel would say yes the second time', () => {
    const { said } = traced(
      `const file = await files.create(run + '/a', 0o600);
       await say(file.write(Buffer.from('x')));
       await say(file.sync());
       await say(file.sync());
       await say(file.close());`,
      '-e',
      'trace=fsync',
      '-e',
      'inject=fsync:error=EIO:when=1',
    );
    const failure =
      'storage-failed never could not sync RUN/a: the device reported an input/output error (EIO); this is final for the file, which must be written again under a new name';
    expect(said.split('\n')).toEqual(['ok undefined', failure, failure, 'ok undefined']);
  });

  test.each([
    ['write', 'EDQUOT', 'storage-full later'],
    ['write', 'ENOSPC', 'storage-full later'],
    ['write', 'EIO', 'storage-failed never'],
    ['openat', 'ESTALE', 'storage-failed never'],
    ['openat', 'EUCLEAN', 'storage-failed never'],
    ['openat', 'ENOTCONN', 'storage-failed never'],
    ['pread64', 'EBADMSG', 'storage-failed never'],
    ['pread64', 'EIO', 'storage-failed never'],
    ['close', 'EIO', 'storage-failed never'],
  ])('%s answering %s is %s', (call, errno, expected) => {
    const { said } = traced(
      `await say((async () => {
         const file = await files.create(run + '/a', 0o600);
         await file.write(Buffer.from('x'));
         await file.close();
         const open = await files.open(run + '/a');
         await open.read(0, 1);
       })());`,
      ...['-P', join(folder, String(at), 'a'), '-e', `trace=${call}`, '-e', `inject=${call}:error=${errno}:when=1`],
    );
    expect(said).toMatch(new RegExp(`^${expected} could not .* RUN/a: .*\\(${errno}\\)$`));
  });

  test.each(['EPERM', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'])('link answering %s: the filesystem has no hard links', (errno) => {
    const { said } = traced(
      `await (await files.create(run + '/a', 0o600)).close();
       await say(files.link(run + '/a', run + '/b'));`,
      ...['-e', 'trace=link', '-e', `inject=link:error=${errno}`],
    );
    expect(said).toBe('ok unsupported');
  });
});
