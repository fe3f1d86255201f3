import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Report } from '../../src/core/report.ts';
import { makeScene, type Scene } from '../damage/scene.ts';
import { CLI, freePort, MODEL, ROOT, startEngine, tidemark } from '../support/processes.ts';

// assess opens nothing for writing below the folder: on a volume that allows no write, by its system calls, and by what the tree is afterwards.

let place = '';
let cache = '';
let scene: Scene;
/** A run of ours, with journals, a torn file and an orphan. */
let run = '';

beforeAll(async () => {
  place = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-read-only-')));
  cache = join(place, 'cache');
  scene = await makeScene({ scene: 'storage-crash', samples: 200, group: 50 });
  const dataset = join(place, 'merged.jsonl');
  writeFileSync(dataset, `${readFileSync(join(ROOT, 'test/support/dialogues.jsonl'), 'utf8').split('\n').slice(0, 8).join('\n')}\n`);
  const port = await freePort();
  const staging = join(place, 'staging');
  const engine = await startEngine(port, staging);
  run = join(place, 'run');
  const flags = ['--dataset', dataset, '--model', MODEL, '--url', `http://127.0.0.1:${port}`, '--staging', staging, '--reserve', '1MB'];
  const end = await tidemark(['extract', '--output', run, '--group-size', '4', ...flags]);
  engine.kill('SIGKILL');
  await engine.finished;
  expect(end.code, end.stderr).toBe(0);
  truncateSync(join(run, 'rows_0-4/data_1.ckpt'), 3000);
  writeFileSync(join(run, 'rows_4-8/data_6.ckpt.tidemark-L9.1.tmp'), 'orphan');
});
afterAll(async () => {
  rmSync(place, { recursive: true });
  await scene.remove();
});

/** The command for a tree, at a level; each of the two knows its rows. */
function assessing(which: 'a foreign tree' | 'a run of ours', level: 'identity' | 'content'): readonly string[] {
  const levels = level === 'identity' ? [] : ['--level', level];
  const told = which === 'a run of ours' ? ['--dataset', join(place, 'merged.jsonl')] : ['--dataset', scene.dataset];
  return [CLI, 'assess', which === 'a run of ours' ? run : scene.folder, ...told, ...levels, '--json'];
}

const CASES = (['a foreign tree', 'a run of ours'] as const).flatMap((which) =>
  (['identity', 'content'] as const).map((level) => [which, level] as const),
);

function start(file: string, argv: readonly string[], env: Readonly<Record<string, string>> = {}): ReturnType<typeof spawnSync> {
  return spawnSync(file, [...argv], {
    // libuv may hand file operations to io_uring, where no tracer sees them.
    env: { ...process.env, NO_COLOR: '1', XDG_CACHE_HOME: cache, UV_USE_IO_URING: '0', ...env },
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
}

function expectReport(ended: ReturnType<typeof spawnSync>, which: string): void {
  expect(ended.status, `${ended.stderr}`).toBe(3);
  const report = JSON.parse(`${ended.stdout}`) as Report;
  if (which === 'a run of ours') expect(report.totals).toMatchObject({ rows: 8, sound: 7, torn: 1 });
  else expect(report.totals).toMatchObject({ rows: 200, files: scene.truth.totals.files });
}

/** Names, kinds, sizes, modes, times and bytes. Access times are left out: reading may change them, as the mount options say. */
function stateOf(folder: string): string[] {
  const names = ['', ...readdirSync(folder, { recursive: true, encoding: 'utf8' })];
  return names.sort().map((name) => {
    const path = join(folder, name);
    const seen = lstatSync(path, { bigint: true });
    const bytes = seen.isFile() ? createHash('sha256').update(readFileSync(path)).digest('hex') : '';
    return `${name} ${seen.ino} ${seen.mode} ${seen.nlink} ${seen.size} ${seen.mtimeNs} ${seen.ctimeNs} ${bytes}`;
  });
}

// A mount namespace of its own: nothing has to be unmounted, whatever happens. Not root: a user namespace makes it one.
const UNSHARE = ['unshare', process.getuid?.() === 0 ? '-m' : '-rm'];
const READ_ONLY =
  'set -e; at=$1; shift; mount --bind "$at" "$at"; mount -o remount,bind,ro "$at"; if touch "$at/written" 2>/dev/null; then echo "the mount takes writes" >&2; exit 99; fi; exec "$@"';

function onReadOnly(at: string, command: readonly string[], env?: Readonly<Record<string, string>>): ReturnType<typeof spawnSync> {
  return start(UNSHARE[0] ?? '', [...UNSHARE.slice(1), 'sh', '-c', READ_ONLY, 'sh', at, ...command], env);
}

const probed = mkdtempSync(join(tmpdir(), 'tidemark-probe-'));
const probe = onReadOnly(probed, ['true']);
rmSync(probed, { recursive: true });
const noMount = probe.status === 0 ? null : `no read-only mount can be made here: ${probe.stderr || probe.error?.message}`;

// A skip says why in its title.
describe.skipIf(noMount !== null)(`assess on a read-only mount${noMount === null ? '' : ` (${noMount})`}`, () => {
  it.each(CASES)('%s, level %s', (which, level) => {
    const folder = which === 'a run of ours' ? run : join(scene.folder, '..');
    expectReport(onReadOnly(folder, [process.execPath, ...assessing(which, level)]), which);
  });

  it('also where the cache folder lies on it and cannot be written', () => {
    const inside = join(scene.folder, '../cache');
    const ended = onReadOnly(join(scene.folder, '..'), [process.execPath, ...assessing('a foreign tree', 'identity')], {
      XDG_CACHE_HOME: inside,
    });
    expectReport(ended, 'a foreign tree');
  });
});

const strace = 'strace';
const traced = spawnSync(strace, ['-e', 'trace=none', 'true'], { encoding: 'utf8' });
const noStrace = traced.status === 0 ? null : `strace does not work here: ${traced.stderr || traced.error?.message}`;

/** Calls that change nothing, whatever their arguments; open(2) is looked at. */
const HARMLESS = [
  'stat',
  'lstat',
  'statx',
  'newfstatat',
  'access',
  'faccessat',
  'faccessat2',
  'readlink',
  'readlinkat',
  'statfs',
  'execve',
];
const OPENS = ['open', 'openat', 'openat2'];
/** By path all of them; by descriptor those that change a file without a write(2), which needs an open for writing. */
const TRACED = 'trace=%file,ftruncate,fchmod,fchown,fallocate,fsetxattr,fremovexattr,copy_file_range,ioctl,flock';

describe('assess leaves the tree as it is', () => {
  it.each(CASES)('%s, level %s: names, sizes, times and bytes are those of before', (which, level) => {
    const folder = which === 'a run of ours' ? run : join(scene.folder, '..');
    const before = stateOf(folder);
    expect(before.length).toBeGreaterThan(8);
    const [file = '', ...argv] = [process.execPath, ...assessing(which, level)];
    expectReport(start(file, argv), which);
    expect(stateOf(folder)).toEqual(before);
  });
});

/** Runs a command and gives its calls that name `folder`: all opens, and whatever else may have changed something. */
function callsBelow(
  folder: string,
  command: readonly string[],
): { readonly ended: ReturnType<typeof spawnSync>; readonly opens: string[]; readonly changes: string[] } {
  const log = join(place, 'calls.log');
  const ended = start(strace, ['-f', '--seccomp-bpf', '-y', '-qq', '-e', 'signal=none', '-e', TRACED, '-o', log, ...command]);
  // Of a call that another thread interrupts, strace writes two halves; the first has the arguments.
  const calls = readFileSync(log, 'utf8')
    .split('\n')
    .map((line) => line.replace(/^\d+ +/, ''))
    .filter((line) => line.includes(folder) && !line.startsWith('<...'));
  const nameOf = (line: string): string => line.slice(0, line.indexOf('('));
  const opens = calls.filter((line) => OPENS.includes(nameOf(line)));
  const writes = opens.filter((line) => !line.includes('O_RDONLY') || /O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)/.test(line));
  return {
    ended,
    opens,
    changes: [...writes, ...calls.filter((line) => !OPENS.includes(nameOf(line)) && !HARMLESS.includes(nameOf(line)))],
  };
}

describe.skipIf(noStrace !== null)(`assess, by its system calls${noStrace === null ? '' : ` (${noStrace})`}`, () => {
  it.each(CASES)('%s, level %s: nothing is opened for writing, made, renamed or removed', (which, level) => {
    const folder = which === 'a run of ours' ? run : scene.folder;
    const { ended, opens, changes } = callsBelow(folder, [process.execPath, ...assessing(which, level)]);
    expectReport(ended, which);
    expect(changes).toEqual([]);
    // It did look, at files and folders.
    expect(opens.filter((line) => /data_\d+/.test(line)).length).toBeGreaterThanOrEqual(8);
    expect(opens.some((line) => line.includes('O_DIRECTORY'))).toBe(true);
  });

  it('would have been seen if it did', () => {
    const other = join(place, 'other');
    mkdirSync(other);
    const { changes } = callsBelow(other, ['sh', '-c', 'echo x > "$0/a"; mv "$0/a" "$0/b"; chmod 600 "$0/b"; rm "$0/b"', other]);
    for (const call of [/^open(at)?\(.*O_WRONLY/, /^rename/, /^f?chmod/, /^unlink/])
      expect(changes.join('\n')).toMatch(new RegExp(call, 'm'));
  });
});
