import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ProcessIdentity } from './host.ts';
import { createLocalFiles } from './local-files.ts';
import { createLocalMachine } from './local-machine.ts';
import { writersBelow } from './local-writers.ts';

const files = createLocalFiles();
let folder = '';
const children: ChildProcess[] = [];

beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-machine-')));
});
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});

/** A /proc of our own, so that reuse, zombies and other boots can be set up. */
function madeUpProc(name: string, content: Readonly<Record<string, string>>): string {
  const root = join(folder, name);
  for (const [path, text] of Object.entries(content)) {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

const boot = '6d0c1f5e-7a2b-4c3d-8e9f-0a1b2c3d4e5f';
const stat = (state: string, ticks: string) => `900001 (node) ${state} 1 7 7 0 -1 0 0 0 0 0 3 1 0 0 20 0 1 0 ${ticks} 1 1\n`;

describe('isAlive', () => {
  // A pid above the kernel's largest, so that nothing real answers to it.
  const pid = 5_000_000;
  const holder: ProcessIdentity = { hostname: 'here', bootId: boot, pid, startTicks: '777' };

  function machine(name: string, own: Readonly<Record<string, string>>, namespace?: string) {
    const proc = madeUpProc(name, own);
    if (namespace !== undefined) {
      mkdirSync(join(proc, 'self/ns'), { recursive: true });
      symlinkSync(`pid:[${namespace}]`, join(proc, 'self/ns/pid'));
    }
    return createLocalMachine({ files, proc, hostname: 'here' });
  }
  const booted = { 'sys/kernel/random/boot_id': `${boot}\n` };

  test('the same process', async () => {
    const alive = machine('alive', { ...booted, [`${pid}/stat`]: stat('S', '777') });
    expect(await alive.isAlive(holder)).toBe('alive');
    expect(await alive.isAlive({ ...holder, hostname: 'there' })).toBe('unknown');
    expect(await alive.isAlive({ ...holder, bootId: boot.replace('6', '7') })).toBe('dead');
    expect(await alive.isAlive({ ...holder, bootId: '' })).toBe('unknown');
    expect(await alive.isAlive({ ...holder, startTicks: '' })).toBe('unknown');
  });

  test('a number that was given out again', async () => {
    expect(await machine('reused', { ...booted, [`${pid}/stat`]: stat('S', '778') }).isAlive(holder)).toBe('dead');
  });

  test.each(['Z', 'X'])('state %s', async (state) => {
    expect(await machine(`state-${state}`, { ...booted, [`${pid}/stat`]: stat(state, '777') }).isAlive(holder)).toBe('dead');
  });

  test('gone', async () => {
    expect(await machine('gone', booted).isAlive(holder)).toBe('dead');
  });

  test('not shown although it exists', async () => {
    expect(await machine('hidden', booted).isAlive({ ...holder, pid: process.pid })).toBe('unknown');
  });

  test('a stat of another form', async () => {
    expect(await machine('odd', { ...booted, [`${pid}/stat`]: 'odd' }).isAlive(holder)).toBe('unknown');
  });

  test('no boot id to compare with', async () => {
    expect(await machine('bare', {}).isAlive(holder)).toBe('unknown');
  });

  test('another container of the same machine', async () => {
    const inside = machine('container', { ...booted, [`${pid}/stat`]: stat('S', '777') }, '4026532999');
    expect(await inside.isAlive(holder)).toBe('unknown');
    expect(await inside.isAlive({ ...holder, pidNamespace: '4026532999' })).toBe('alive');
    const outside = machine('outside', { ...booted, [`${pid}/stat`]: stat('S', '777') }, '4026531836');
    expect(await outside.isAlive({ ...holder, pidNamespace: '4026532999' })).toBe('unknown');
    expect(await outside.isAlive(holder)).toBe('alive');
  });
});

test('without /proc every fact is unknown, with a reason', async () => {
  const machine = createLocalMachine({ files, proc: join(folder, 'none') });
  const facts = await machine.facts();
  for (const fact of [facts.bootId, facts.bootedAt, facts.memoryBytes, facts.dirty, await machine.mountOf('/')]) {
    expect(fact).toMatchObject({ known: false, why: expect.stringContaining('none/') });
  }
  expect(await machine.self()).toMatchObject({ bootId: '', startTicks: '', pid: process.pid });
  expect(await machine.isAlive(await machine.self())).toBe('unknown');
  expect(await machine.writersBelow(folder)).toMatchObject({ known: false });
});

describe.runIf(process.platform === 'linux')('this machine', () => {
  const machine = createLocalMachine({ files });

  test('knows itself', async () => {
    const self = await machine.self();
    expect(self).toMatchObject({ hostname: hostname(), pid: process.pid });
    expect(await machine.isAlive(self)).toBe('alive');
    expect(await machine.isAlive({ ...self, startTicks: `${Number(self.startTicks) + 1}` })).toBe('dead');
  });

  test('sees a child die', async () => {
    const child = spawn('sleep', ['60']);
    children.push(child);
    const self = await machine.self();
    const text = await files.readSmall(`/proc/${child.pid}/stat`, 4096);
    const startTicks = Buffer.from(text ?? [])
      .toString()
      .split(') ')[1]
      ?.split(' ')[19];
    const identity = { ...self, pid: child.pid ?? 0, startTicks: startTicks ?? '' };
    expect(await machine.isAlive(identity)).toBe('alive');
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
    expect(await machine.isAlive(identity)).toBe('dead');
  });

  test('facts', async () => {
    const facts = await machine.facts();
    expect(facts.hostname).toBe(hostname());
    for (const fact of [facts.bootId, facts.bootedAt, facts.memoryBytes, facts.dirty]) expect(fact.known).toBe(true);
    expect(facts.bootedAt).toMatchObject({ value: expect.stringMatching(/^20\d\d-.*Z$/) });
  });

  test('the mount under a path that is not there yet, and through a link', async () => {
    expect(await machine.mountOf('/proc/self')).toMatchObject({ known: true, value: { mountPoint: '/proc', filesystem: 'proc' } });
    expect(await machine.mountOf(join(folder, 'not/yet'))).toEqual(await machine.mountOf(folder));
    symlinkSync('/proc', join(folder, 'to-proc'));
    expect(await machine.mountOf(join(folder, 'to-proc/version'))).toMatchObject({ known: true, value: { mountPoint: '/proc' } });
  });

  test('writers below a folder: another process that writes, not one that reads, not ourselves', async () => {
    const run = join(folder, 'run dir');
    mkdirSync(run);
    symlinkSync(run, join(folder, 'run-link'));
    writeFileSync(join(folder, 'run dir-beside'), '');
    const child = spawn('sh', ['-c', 'exec 3>"$1/out" 4<"$1/out" 5>>"$1-beside"; echo ready; exec sleep 60', 'sh', run]);
    children.push(child);
    await new Promise((resolve) => child.stdout.once('data', resolve));
    const own = openSync(join(run, 'own'), 'w');
    try {
      for (const path of [run, join(folder, 'run-link')]) {
        const found = await machine.writersBelow(path);
        expect(found).toMatchObject({ known: true, value: [{ pid: child.pid, command: 'sleep 60', path: join(run, 'out') }] });
      }
    } finally {
      closeSync(own);
    }
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
    // Nobody writes any more. Where some process hides its files (even from root, in a sandbox) that is not known, and says so.
    const after = await machine.writersBelow(run);
    if (after.known) expect(after.value).toEqual([]);
    else
      expect(after.why).toMatch(/^\d+ of [\d ]+ processes (does not show us which files it holds|do not show us which files they hold)$/);
  });

  test('no time to look is no answer', async () => {
    expect(await writersBelow({ proc: '/proc', folder, deadlineMs: -1 })).toMatchObject({
      known: false,
      why: expect.stringMatching(/^only 0 of \d+ processes/),
    });
  });

  test('a folder that is not there', async () => {
    expect(await machine.writersBelow(join(folder, 'none'))).toMatchObject({ known: false });
  });
});
