import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { blockedBelow } from './local-blocked.ts';
import { createLocalFiles } from './local-files.ts';
import { createLocalMachine } from './local-machine.ts';

let root = '';
beforeAll(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-blocked-')));
});
afterAll(() => rmSync(root, { recursive: true }));

const stat = (state: string, ticks = '100'): string =>
  `900001 (VLLM: worker) ${state} 1 7 7 0 -1 0 0 0 0 0 3 1 0 0 20 0 1 0 ${ticks} 1 1\n`;

/** A process in a /proc of our own. */
function process(proc: string, pid: string, state: string, holds: readonly string[], cwd = '/', flags = '02', parent = 1): void {
  mkdirSync(join(proc, pid, 'fd'), { recursive: true });
  mkdirSync(join(proc, pid, 'fdinfo'), { recursive: true });
  writeFileSync(join(proc, pid, 'stat'), stat(state).replace(` ${state} 1 `, ` ${state} ${parent} `));
  writeFileSync(join(proc, pid, 'wchan'), 'nfs_wait_bit_killable');
  symlinkSync(cwd, join(proc, pid, 'cwd'));
  for (const [descriptor, path] of holds.entries()) {
    symlinkSync(path, join(proc, pid, 'fd', `${descriptor}`));
    writeFileSync(join(proc, pid, 'fdinfo', `${descriptor}`), `pos:\t0\nflags:\t01000${flags}\n`);
  }
}

describe('processes that hang in the kernel', () => {
  test('are those that are in D twice and hold something of the folder', async () => {
    const proc = join(root, 'proc');
    process(proc, '900001', 'D', ['/dev/null', '/data/run/rows_0-5/data_3.pt']);
    process(proc, '900002', 'S', ['/data/run/rows_0-5/data_4.pt']);
    process(proc, '900003', 'D', ['/other/file']);
    process(proc, '900004', 'D', [], '/data/run');
    // One that reads, and a reader of our own.
    process(proc, '900005', 'D', ['/data/run/rows_0-5/data_1.pt'], '/', '00');
    process(proc, '900006', 'D', ['/data/run/rows_0-5/data_2.pt'], '/', '00', globalThis.process.pid);
    const seen = await blockedBelow({ proc, folder: '/data/run', againAfterMs: 1 });
    const waitsIn = 'nfs_wait_bit_killable';
    expect(seen).toEqual({
      known: true,
      source: `${proc}/*/stat`,
      value: [
        { pid: 900001, command: 'VLLM: worker', path: '/data/run/rows_0-5/data_3.pt', waitsIn, mayWrite: true },
        { pid: 900004, command: 'VLLM: worker', path: '/data/run', waitsIn, mayWrite: false },
        { pid: 900005, command: 'VLLM: worker', path: '/data/run/rows_0-5/data_1.pt', waitsIn, mayWrite: false },
      ],
    });
  });

  test('are nobody where the state was a moment’s, and unknown where there is no /proc', async () => {
    const proc = join(root, 'moment');
    process(proc, '900001', 'D', ['/data/run/a.pt']);
    const looking = blockedBelow({ proc, folder: '/data/run', againAfterMs: 200 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    writeFileSync(join(proc, '900001', 'stat'), stat('R'));
    expect(await looking).toMatchObject({ known: true, value: [] });
    expect(await blockedBelow({ proc: join(root, 'none'), folder: '/data/run' })).toMatchObject({ known: false });
  });

  test('are asked about through the machine; the first process tells when a container started', async () => {
    const proc = join(root, 'machine');
    process(proc, '900001', 'D', [join(root, 'a.pt')]);
    process(proc, '1', 'S', []);
    writeFileSync(join(proc, '1', 'stat'), stat('S', '360000'));
    writeFileSync(join(proc, 'stat'), 'cpu 1 2 3\nbtime 1690000000\n');
    const machine = createLocalMachine({ files: createLocalFiles(), proc, hostname: 'here' });
    expect(await machine.blockedBelow?.(root)).toMatchObject({ known: true, value: [{ pid: 900001 }] });
    expect(await machine.blockedBelow?.(join(root, 'gone'))).toMatchObject({ known: false });
    const facts = await machine.facts();
    expect(facts.initStartedAt).toEqual({
      known: true,
      value: new Date((1_690_000_000 + 3600) * 1000).toISOString(),
      source: `${proc}/1/stat`,
    });
  });
});
