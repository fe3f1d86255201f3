import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import { startReaders } from '../../src/app/readers.ts';
import type { FileProbe } from '../../src/assess/gather-probe.ts';
import type { Report } from '../../src/core/report.ts';
import { createLocalHost } from '../../src/host/local.ts';
import { specForgeLayout } from '../../src/store/layouts/specforge.ts';
import { createStoreReader } from '../../src/store/reader.ts';
import { makeScene, type Scene } from '../damage/scene.ts';
import { CLI, Running } from '../support/processes.ts';

const run = promisify(execFile);
const READERS = new URL('../../dist/app/reader-process.js', import.meta.url);
const GROUP = 50;

/** A real mount (bindfs over FUSE) whose server can be stopped: from then on every call on it waits for ever, as on an NFS server that is gone. */
class StoppableMount {
  readonly #server: ChildProcess;
  readonly #at: string;

  private constructor(server: ChildProcess, at: string) {
    this.#server = server;
    this.#at = at;
  }

  static async over(from: string, at: string): Promise<StoppableMount> {
    const server = spawn('bindfs', ['-f', '--no-allow-other', from, at], { stdio: 'ignore' });
    const names = (await readdir(from)).length;
    for (;;) {
      if (server.exitCode !== null) throw new Error(`bindfs ended with ${server.exitCode}`);
      // The kernel's own list says when the mount stands.
      if ((await readFile('/proc/self/mounts', 'utf8')).includes(` ${at} fuse`) && (await readdir(at)).length === names) break;
      await new Promise((tick) => setTimeout(tick, 50));
    }
    return new StoppableMount(server, at);
  }

  die(): void {
    this.#server.kill('SIGSTOP');
  }

  async remove(): Promise<void> {
    this.#server.kill('SIGCONT');
    await run('fusermount3', ['-u', '-z', this.#at]).catch(() => undefined);
    this.#server.kill('SIGKILL');
  }
}

/** Puts the second shard folder of a scene on a mount of its own. */
async function onMount(scene: Scene): Promise<{ mount: StoppableMount; folder: string }> {
  const folder = join(scene.folder, `rows_${GROUP}-${2 * GROUP}`);
  const real = join(scene.folder, '..', 'elsewhere');
  await rename(folder, real);
  await mkdir(folder);
  return { mount: await StoppableMount.over(real, folder), folder };
}

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function scene(): Promise<Scene> {
  const made = await makeScene({ scene: 'clean-partial', format: 'pt', samples: 400, group: GROUP });
  cleanups.push(() => made.remove());
  return made;
}

async function probed(
  probing: { readonly prober: ReturnType<NonNullable<ReturnType<typeof startReaders>>['prober']> },
  paths: readonly string[],
  onFirst?: () => void,
) {
  const probes = new Map<number, FileProbe>();
  await probing.prober.probe(
    paths.map((path, row) => ({ row, path })),
    'identity',
    {
      onProbe: (row, probe) => {
        if (probes.size === 0) onFirst?.();
        expect(probes.has(row)).toBe(false);
        probes.set(row, probe);
      },
    },
  );
  return [...probes.values()];
}

describe.skipIf(!existsSync('/dev/fuse'))('a mount that does not answer', () => {
  it('gives a report of everything else, and the command ends', async () => {
    const made = await scene();
    const { mount } = await onMount(made);
    cleanups.push(() => mount.remove());
    mount.die();
    const { code, stdout, stderr } = await new Running(CLI, ['assess', made.folder, '--dataset', made.dataset, '--json']).finished;
    expect(stderr).not.toMatch(/\bat .*\.js:/);
    const report = JSON.parse(stdout) as Report;
    const silent = report.verdicts.filter((group) => group.verdict === 'unreadable');
    expect(silent).toEqual([{ verdict: 'unreadable', reason: 'timeout', count: GROUP, ranges: [[GROUP, 2 * GROUP]] }]);
    const elsewhere = made.truth.index.filter((row) => row.state === 'ok' && !(row.i >= GROUP && row.i < 2 * GROUP));
    expect(report.totals.sound).toBe(elsewhere.length);
    expect(report.findings.map((finding) => finding.code)).toContain('TM-H13');
    expect(code).toBe(3);
  });

  it('costs only its own files, also when it dies while they are read', async () => {
    const made = await scene();
    const { mount, folder } = await onMount(made);
    cleanups.push(() => mount.remove());
    const readers = startReaders(createLocalHost(READERS), 1000);
    if (readers === null) throw new Error('this host has helper processes');
    cleanups.push(() => readers.stop());
    const prober = readers.prober(createStoreReader(readers.files, made.folder, specForgeLayout({ extension: 'pt', groupSize: GROUP })));
    const names = await readdir(folder);
    mount.die();
    const onIt = await probed(
      { prober },
      names.map((name) => `rows_${GROUP}-${2 * GROUP}/${name}`),
    );
    expect(new Set(onIt.map((probe) => probe.refusal?.reason))).toEqual(new Set(['timeout']));
    const others = (await readdir(join(made.folder, `rows_0-${GROUP}`))).map((name) => `rows_0-${GROUP}/${name}`);
    const sound = await probed({ prober }, others);
    expect(sound).toHaveLength(others.length);
    expect(sound.filter((probe) => probe.refusal !== null || probe.sample === null)).toEqual([]);
  });
});

describe.skipIf(!existsSync('/dev/fuse'))('calls that are made at the same time', () => {
  it('do not fail because others hang', async () => {
    const made = await scene();
    const { mount, folder } = await onMount(made);
    cleanups.push(() => mount.remove());
    const readers = startReaders(createLocalHost(READERS), 1000);
    if (readers === null) throw new Error('this host has helper processes');
    cleanups.push(() => readers.stop());
    const names = (await readdir(folder)).slice(0, 6);
    mount.die();
    const healthy = (await readdir(join(made.folder, `rows_0-${GROUP}`))).map((name) => join(made.folder, `rows_0-${GROUP}`, name));
    const [dead, alive] = await Promise.all([
      Promise.allSettled(names.map((name) => readers.files.stat(join(folder, name)))),
      Promise.allSettled(healthy.map((path) => readers.files.stat(path))),
    ]);
    expect(dead.map((one) => (one.status === 'rejected' ? (one.reason as { code?: string }).code : one.status))).toEqual(
      names.map(() => 'storage-silent'),
    );
    expect(alive.filter((one) => one.status === 'rejected' || one.value === null)).toEqual([]);
  });
});

describe('a reader process that is killed', () => {
  it('costs no file', async () => {
    const made = await scene();
    const readers = startReaders(createLocalHost(READERS));
    if (readers === null) throw new Error('this host has helper processes');
    cleanups.push(() => readers.stop());
    const prober = readers.prober(createStoreReader(readers.files, made.folder, specForgeLayout({ extension: 'pt', groupSize: GROUP })));
    const folders = (await readdir(made.folder)).filter((name) => name.startsWith('rows_'));
    const paths = (
      await Promise.all(folders.map(async (name) => (await readdir(join(made.folder, name))).map((file) => `${name}/${file}`)))
    ).flat();
    const many = Array.from({ length: 20 }, () => paths).flat();
    const { stdout } = await run('pgrep', ['-P', String(process.pid), '-f', 'reader-process']);
    const victims = stdout.trim().split('\n').map(Number);
    expect(victims.length).toBeGreaterThan(0);
    const probes = await probed({ prober }, many, () => process.kill(victims[0] ?? 0, 'SIGKILL'));
    expect(probes).toHaveLength(many.length);
    expect(probes.filter((probe) => probe.refusal !== null || probe.sample === null)).toEqual([]);
  });
});
