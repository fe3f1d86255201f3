import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createLocalFiles } from './local-files.ts';
import { listLocks } from './local-locks.ts';
import { createLocalMachine } from './local-machine.ts';

/** Of util-linux. */
const flock = 'flock';

let root = '';
const children: ChildProcess[] = [];
beforeAll(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-locks-')));
});
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(root, { recursive: true });
});

describe('locks', () => {
  test('are named by the holder\u2019s own descriptor; a holder that hides it, and one without a number, leave the inode', async () => {
    const proc = join(root, 'proc');
    mkdirSync(join(proc, '900001/fd'), { recursive: true });
    mkdirSync(join(proc, '900001/fdinfo'));
    const lock = (pid: number, inode: number): string => `1: FLOCK  ADVISORY  WRITE ${pid} 08:11:${inode} 0 EOF\n`;
    writeFileSync(
      join(proc, 'locks'),
      `${lock(900001, 5)}${lock(900002, 6)}2: OFDLCK ADVISORY  WRITE -1 08:11:7 0 EOF\n${lock(globalThis.process.pid, 8)}`,
    );
    writeFileSync(join(proc, '900001/cmdline'), 'python3\0dump.py\0');
    writeFileSync(join(proc, '900001/fdinfo/3'), `pos:\t0\nflags:\t0100000\nlock:\t${lock(900001, 5)}`);
    writeFileSync(join(proc, '900001/fdinfo/4'), 'pos:\t0\nflags:\t0100002\n');
    symlinkSync('/data/run/.lock', join(proc, '900001/fd/3'));
    expect(await listLocks({ proc })).toEqual({
      known: true,
      source: `${proc}/locks`,
      value: [
        { kind: 'flock', exclusive: true, pid: 900001, command: 'python3 dump.py', device: '2065', inode: '5', path: '/data/run/.lock' },
        { kind: 'flock', exclusive: true, pid: 900002, command: '', device: '2065', inode: '6', path: null },
        { kind: 'ofd', exclusive: true, pid: null, command: '', device: '2065', inode: '7', path: null },
      ],
    });
    expect(await listLocks({ proc: join(root, 'none') })).toMatchObject({ known: false, why: expect.stringContaining('none/locks') });
  });

  test.runIf(process.platform === 'linux')('of a real process are seen, with the numbers that stat gives', async () => {
    const path = join(root, 'held.lock');
    const child = spawn(flock, ['--exclusive', path, 'sh', '-c', 'echo ready; exec sleep 60']);
    children.push(child);
    await new Promise((resolve, reject) => {
      child.stdout.once('data', resolve);
      child.once('error', reject);
    });
    const machine = createLocalMachine({ files: createLocalFiles() });
    const seen = await machine.locks?.();
    const own = seen?.known === true ? seen.value.filter((lock) => lock.pid === child.pid) : [];
    expect(own).toMatchObject([{ kind: 'flock', exclusive: true, path }]);
    const mount = await machine.mountOf(root);
    expect(mount).toMatchObject({ known: true, value: { device: own[0]?.device } });
    // btrfs and overlay give stat other numbers than they lock by; then the mount's number says so.
    const stat = await createLocalFiles().stat(path);
    const plain = mount.known && mount.value.device === stat?.device;
    expect([own[0]?.device, own[0]?.inode]).toEqual([plain ? stat?.device : own[0]?.device, plain ? stat?.inode : own[0]?.inode]);
  });
});

test('whoever is outside a container is not nobody', async () => {
  const proc = join(root, 'contained');
  mkdirSync(join(proc, 'self/ns'), { recursive: true });
  symlinkSync('pid:[4026532999]', join(proc, 'self/ns/pid'));
  const machine = createLocalMachine({ files: createLocalFiles(), proc });
  expect(await machine.writersBelow(root)).toMatchObject({ known: false, why: expect.stringContaining('outside it') });
});
