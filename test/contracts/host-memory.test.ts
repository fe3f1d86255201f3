import { describe, expect, test } from 'vitest';
import type { FileStore } from '../../src/host/host.ts';
import { survivorCorners } from '../support/memory-crash.ts';
import { createMemoryFiles, type MemoryFiles } from '../support/memory-files.ts';
import { virtualClock } from '../support/memory-host.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { writeFile } from './host-place.ts';

const seeds = Array.from({ length: 400 }, (_, seed) => seed);
const outcomes = [...survivorCorners, ...seeds];
const fresh = () => createMemoryFiles({ folders: ['/run', '/other'] });

/** What stands at a path: its content, or null. */
async function at(files: FileStore, path: string): Promise<string | null> {
  const bytes = await files.readSmall(path, 1 << 20);
  return bytes === null ? null : Buffer.from(bytes).toString('latin1');
}

/** Every state that some crash leaves a path in. */
async function statesOf(files: MemoryFiles, ...paths: readonly string[]): Promise<ReadonlySet<string>> {
  const states = new Set<string>();
  for (const outcome of outcomes) {
    const after = files.crash(outcome);
    states.add(JSON.stringify(await Promise.all(paths.map((path) => at(after, path)))));
  }
  return states;
}

const set = (...states: readonly (readonly (string | null)[])[]) => new Set(states.map((state) => JSON.stringify(state)));

describe('what a crash may do to a name', () => {
  test('nothing, once its folder is synced', async () => {
    const files = fresh();
    await writeFile(files, '/run/a', 'A');
    await files.syncDirectory('/run');
    expect(await statesOf(files, '/run/a')).toEqual(set(['A']));
  });

  test('a synced file under an unsynced name is there or not, and never partly', async () => {
    const files = fresh();
    await writeFile(files, '/run/a', 'A');
    expect(await statesOf(files, '/run/a')).toEqual(set(['A'], [null]));
  });

  test('two new names are independent: the later may stand without the earlier', async () => {
    const files = fresh();
    await writeFile(files, '/run/a', 'A');
    await writeFile(files, '/run/b', 'B');
    expect(await statesOf(files, '/run/a', '/run/b')).toEqual(set([null, null], ['A', null], [null, 'B'], ['A', 'B']));
  });

  test('the changes of one name keep their order', async () => {
    const files = fresh();
    await writeFile(files, '/run/a', 'old');
    await files.syncDirectory('/run');
    await files.unlink('/run/a');
    await writeFile(files, '/run/a', 'new');
    expect(await statesOf(files, '/run/a')).toEqual(set(['old'], [null], ['new']));
  });

  test('a rename that replaces leaves the old file or the new, never none', async () => {
    const files = fresh();
    await writeFile(files, '/run/a', 'old');
    await writeFile(files, '/run/a.tmp', 'new');
    await files.syncDirectory('/run');
    await files.rename('/run/a.tmp', '/run/a');
    expect(await statesOf(files, '/run/a', '/run/a.tmp')).toEqual(set(['old', 'new'], ['new', null]));
    await files.syncDirectory('/run');
    expect(await statesOf(files, '/run/a', '/run/a.tmp')).toEqual(set(['new', null]));
  });

  test('a rename to another folder needs both folders synced', async () => {
    const files = fresh();
    await writeFile(files, '/run/a', 'A');
    await files.syncDirectory('/run');
    await files.rename('/run/a', '/other/a');
    expect(await statesOf(files, '/run/a', '/other/a')).toEqual(set(['A', null], [null, 'A'], ['A', 'A'], [null, null]));
    await files.syncDirectory('/other');
    expect(await statesOf(files, '/run/a', '/other/a')).toEqual(set(['A', 'A'], [null, 'A']));
    await files.syncDirectory('/run');
    expect(await statesOf(files, '/run/a', '/other/a')).toEqual(set([null, 'A']));
  });

  test('link, then unlink of the first name: without a sync between them, both may be gone', async () => {
    const files = fresh();
    await writeFile(files, '/run/a.tmp', 'A');
    await files.syncDirectory('/run');
    await files.link('/run/a.tmp', '/run/a');
    await files.unlink('/run/a.tmp');
    expect(await statesOf(files, '/run/a', '/run/a.tmp')).toEqual(set([null, 'A'], ['A', 'A'], ['A', null], [null, null]));
  });

  test('a file with two names stays one file', async () => {
    const files = fresh();
    await writeFile(files, '/run/a', 'A');
    await files.link('/run/a', '/run/b');
    await files.syncDirectory('/run');
    const after = files.crash(7);
    expect((await after.stat('/run/a'))?.links).toBe(2);
    expect((await after.stat('/run/a'))?.inode).toBe((await after.stat('/run/b'))?.inode);
  });

  test('unlink may not have happened', async () => {
    const files = fresh();
    await writeFile(files, '/run/a', 'A');
    await files.syncDirectory('/run');
    await files.unlink('/run/a');
    expect(await statesOf(files, '/run/a')).toEqual(set(['A'], [null]));
  });

  test('a folder whose own name is lost takes its synced files along; makeDirectory never leaves it so', async () => {
    const files = fresh();
    await files.makeDirectoryUnsynced('/run/rows');
    await writeFile(files, '/run/rows/a', 'A');
    await files.syncDirectory('/run/rows');
    expect(await statesOf(files, '/run/rows/a')).toEqual(set(['A'], [null]));
    // A second process, after the first was killed between the two steps, finds the folder and must not trust its name.
    await files.makeDirectory('/run/rows');
    expect(await statesOf(files, '/run/rows/a')).toEqual(set(['A']));
  });

  test('the deepest folder that existed is made durable before what is made below it', async () => {
    const files = fresh();
    await files.makeDirectoryUnsynced('/run/x/y');
    await files.makeDirectory('/run/x/y/z');
    await writeFile(files, '/run/x/y/z/a', 'A');
    await files.syncDirectory('/run/x/y/z');
    expect(await statesOf(files, '/run/x/y/z/a')).toEqual(set(['A']));
  });

  test('makeDirectory makes nobody else’s name durable', async () => {
    const files = fresh();
    await writeFile(files, '/run/a', 'A');
    await files.makeDirectory('/run/rows');
    expect(await statesOf(files, '/run/a')).toEqual(set(['A'], [null]));
  });
});

describe('what a crash may do to bytes', () => {
  async function unsynced(): Promise<MemoryFiles> {
    const files = fresh();
    const file = await files.create('/run/a', 0o644);
    await file.write(Buffer.from('kept'));
    await file.sync();
    await file.write(Buffer.alloc(10_000, 'x'));
    await file.close();
    await files.syncDirectory('/run');
    return files;
  }

  test('synced bytes stay, later ones may be absent, cut, zero or have holes, and are never anything else', async () => {
    const files = await unsynced();
    const seen = { absent: 0, cut: 0, all: 0, zeroTail: 0, allZero: 0, hole: 0 };
    for (const outcome of outcomes) {
      const text = (await at(files.crash(outcome), '/run/a')) ?? '';
      expect(text.slice(0, 4)).toBe('kept');
      const tail = text.slice(4);
      expect(tail).toMatch(/^[x\0]*$/);
      if (tail === '') seen.absent += 1;
      else if (tail === 'x'.repeat(10_000)) seen.all += 1;
      else if (/^x+$/.test(tail)) seen.cut += 1;
      else if (/^\0+$/.test(tail)) seen.allZero += 1;
      else if (/^x+\0+$/.test(tail)) seen.zeroTail += 1;
      else seen.hole += 1;
    }
    for (const [what, count] of Object.entries(seen)) expect(count, what).toBeGreaterThan(3);
  });

  test('the corners', async () => {
    const files = await unsynced();
    expect(await at(files.crash('only-durable'), '/run/a')).toBe('kept');
    expect(await at(files.crash('names-only'), '/run/a')).toBe('kept');
    expect(await at(files.crash('zeros'), '/run/a')).toBe(`kept${'\0'.repeat(10_000)}`);
    expect(await at(files.crash('everything'), '/run/a')).toBe(`kept${'x'.repeat(10_000)}`);
  });

  test('renamed without a sync of the file: the classic empty file', async () => {
    const files = fresh();
    const file = await files.create('/run/a.tmp', 0o644);
    await file.write(Buffer.from('data'));
    await file.close();
    await files.rename('/run/a.tmp', '/run/a');
    expect(await at(files.crash('names-only'), '/run/a')).toBe('');
    expect(await at(files.crash('zeros'), '/run/a')).toBe('\0\0\0\0');
    expect(await at(files.crash('only-durable'), '/run/a')).toBeNull();
  });

  test('the mode belongs to the synced state', async () => {
    const files = fresh();
    const file = await files.create('/run/a', 0o600);
    await file.sync();
    await file.setMode(0o644);
    await files.syncDirectory('/run');
    expect((await files.crash('only-durable').stat('/run/a'))?.mode).toBe(0o600);
    expect((await files.crash('everything').stat('/run/a'))?.mode).toBe(0o644);
    await file.sync();
    expect((await files.crash('only-durable').stat('/run/a'))?.mode).toBe(0o644);
  });
});

describe('crash', () => {
  test('is repeatable and leaves the store as it was', async () => {
    const files = fresh();
    const file = await files.create('/run/a', 0o644);
    await file.write(Buffer.alloc(50_000, 'x'));
    const once = await at(files.crash(11), '/run/a');
    expect(await at(files.crash(11), '/run/a')).toBe(once);
    await file.write(Buffer.from('more'));
    expect((await at(files, '/run/a'))?.length).toBe(50_004);
  });

  test('what it left is durable', async () => {
    const files = fresh();
    await writeFile(files, '/run/a', 'A');
    const after = files.crash('everything');
    expect(await at(after.crash('only-durable'), '/run/a')).toBe('A');
  });

  test('two stores after a crash share nothing', async () => {
    const files = fresh();
    files.plant('/run/a', 'A');
    const after = files.crash('only-durable');
    await after.unlink('/run/a');
    expect(await at(files, '/run/a')).toBe('A');
    expect(files.paths()).toEqual(['/run/a']);
    expect(after.paths()).toEqual([]);
  });
});

test('plant is durable, also over a name with pending changes', async () => {
  const files = fresh();
  await writeFile(files, '/run/a', 'first');
  files.plant('/run/a', 'planted');
  files.plantLink('/run/link', 'a');
  expect(await statesOf(files, '/run/a')).toEqual(set(['planted']));
  expect((await files.crash('only-durable').stat('/run/link'))?.kind).toBe('link');
});

test('a disk that was full has room again after resize', async () => {
  const files = createMemoryFiles({ folders: ['/run'], capacityBytes: 10 });
  const file = await files.create('/run/a', 0o644);
  await expect(file.write(Buffer.alloc(11))).rejects.toMatchObject({ code: 'storage-full' });
  expect((await files.space('/run')).freeBytes).toBe(0);
  files.resize(30);
  await writeFile(files, '/run/b', 'x'.repeat(20));
  expect((await files.space('/run')).freeBytes).toBe(0);
});

test('the random numbers depend on the seed alone', () => {
  expect(seededRandom(5).bytes(8)).toEqual(seededRandom(5).bytes(8));
  expect(seededRandom(5).bytes(8)).not.toEqual(seededRandom(6).bytes(8));
  const random = seededRandom(1);
  const counts = Array.from({ length: 10 }, () => 0);
  for (let index = 0; index < 10_000; index++) {
    const value = random.below(10);
    counts[value] = (counts[value] ?? 0) + 1;
  }
  for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(150);
});

describe('the virtual clock', () => {
  test('wakes sleepers in the order of their time and passes no real time', async () => {
    const clock = virtualClock();
    const began = performance.now();
    const order: string[] = [];
    const sleeper = async (name: string, ms: number) => {
      await clock.sleep(ms);
      order.push(`${name} ${clock.monotonicMs()}`);
    };
    await Promise.all([sleeper('hour', 3_600_000), sleeper('second', 1000), sleeper('minute', 60_000)]);
    expect(order).toEqual(['second 1000', 'minute 60000', 'hour 3600000']);
    expect(performance.now() - began).toBeLessThan(1000);
  });

  test('stops for a signal', async () => {
    const clock = virtualClock();
    const controller = new AbortController();
    const pending = clock.sleep(1000, controller.signal);
    controller.abort(new Error('enough'));
    await expect(pending).rejects.toThrow('enough');
    await expect(clock.sleep(1000, controller.signal)).rejects.toThrow('enough');
    expect(clock.monotonicMs()).toBe(0);
  });
});
