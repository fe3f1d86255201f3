import { mkdtempSync } from 'node:fs';
import { open, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Report } from '../../src/core/report.ts';
import { makeScene, type Scene } from '../damage/scene.ts';
import { CLI, Running } from '../support/processes.ts';

const GROUP = 100;
let scene: Scene;
let cache: string;

/** What a file looks like is believed two seconds after it changed. */
async function settled(path: string): Promise<void> {
  while (Date.now() - (await stat(path)).ctimeMs < 2500) await new Promise((tick) => setTimeout(tick, 100));
}

function command(argv: readonly string[]): Running {
  return new Running(CLI, argv, { XDG_CACHE_HOME: cache });
}

async function report(verb: 'assess' | 'verify', ...more: string[]): Promise<Report> {
  const { stdout, stderr } = await command([verb, scene.folder, '--dataset', scene.dataset, '--json', ...more]).finished;
  expect(stdout, stderr).not.toBe('');
  return JSON.parse(stdout) as Report;
}

/** The parts that say what is true of the rows. */
function account({ totals, missing, verdicts, suspect, folders, plan }: Report) {
  return { totals, missing, verdicts, suspect, folders, extract: plan.extract.ranges };
}

async function newest(): Promise<string> {
  const folder = join(scene.folder, `rows_0-${GROUP}`);
  return join(folder, (await readdir(folder)).sort()[3] ?? '');
}

beforeAll(async () => {
  scene = await makeScene({ scene: 'clean-partial', format: 'pt', samples: 600, group: GROUP });
  cache = mkdtempSync(join(tmpdir(), 'tidemark-cache-'));
  await settled(await newest());
  return () => scene.remove();
});

describe('what was proved is remembered', () => {
  it('and says the same without reading it again', async () => {
    const first = await report('assess');
    expect(first.remembered).toBeNull();
    const second = await report('assess');
    expect(second.remembered?.files).toBe(second.totals.files);
    expect(account(second)).toEqual(account(first));
    expect((await report('assess', '--no-cache')).remembered).toBeNull();
  });

  it('but not of a file whose bytes changed, though size and time are the old ones', async () => {
    await report('verify');
    const path = await newest();
    const before = await stat(path);
    const file = await open(path, 'r+');
    // In the middle of the states, which no level below checksum reads.
    await file.write(Buffer.from([0x5a, 0xa5, 0x5a]), 0, 3, Math.floor(before.size * 0.6));
    await file.close();
    await utimes(path, before.atime, before.mtime);
    expect((await stat(path)).mtimeMs).toBeCloseTo(before.mtimeMs, 0);
    const after = await report('assess', '--level', 'checksum');
    expect(after.remembered?.files).toBe(after.totals.files - 1);
    expect(after.totals.corrupt + after.totals.torn).toBe(1);
    // A damaged file is looked at each time.
    expect(account(await report('assess', '--level', 'checksum'))).toEqual(account(after));
  });

  it('and a damaged memory is none', async () => {
    const folder = join(cache, 'tidemark/proofs');
    const names = await readdir(folder);
    expect(names).not.toEqual([]);
    for (const name of names) {
      const bytes = await readFile(join(folder, name));
      bytes[Math.floor(bytes.length / 2)] = (bytes[Math.floor(bytes.length / 2)] ?? 0) ^ 1;
      await writeFile(join(folder, name), bytes);
    }
    expect((await report('assess')).remembered).toBeNull();
  });
});

describe('verify', () => {
  it('stops when asked, goes on where it was, and begins anew when it has come to its end', async () => {
    const argv = ['verify', scene.folder, '--dataset', scene.dataset, '--level', 'checksum', '--json'];
    const stopped = command([...argv, '--throttle', '20KB']);
    // The first line of progress: some files have been read, and at this rate the rest takes half a minute.
    await new Promise((said) => stopped.child.stderr?.once('data', said));
    stopped.child.kill('SIGINT');
    const end = await stopped.finished;
    expect(end.code).toBe(130);
    expect(end.stderr).toMatch(/stopped after .*nothing was written in the folder\n\s+next: tidemark verify /);
    const second = await report('verify', '--level', 'checksum');
    expect(second.remembered?.files).toBeGreaterThan(0);
    expect(second.remembered?.files).toBeLessThan(second.totals.files);
    expect(second.levels.concat([{ level: second.level, ranges: [] }]).some((deep) => deep.level === 'checksum')).toBe(true);
    const third = await report('verify', '--level', 'checksum');
    expect(third.remembered).toBeNull();
    expect(account(third)).toEqual(account(second));
  });

  it('refuses a rate that is none', async () => {
    const { code, stderr } = await command(['verify', scene.folder, '--throttle', 'fast']).finished;
    expect(code).toBe(2);
    expect(stderr).toContain('--throttle 200MB');
  });
});
