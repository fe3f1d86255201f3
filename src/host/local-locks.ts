import { readdir, readFile, readlink } from 'node:fs/promises';
import { messageOf } from '../core/errors.ts';
import type { Fact, FileLock } from './host.ts';
import { type LockLine, parseLocks } from './proc.ts';

export interface LocksOptions {
  readonly proc: string;
  /** For the holders' descriptors. Default 2,000. */
  readonly deadlineMs?: number;
}

/** A machine with more locks than this has some that are not told. */
const MOST = 10_000;

/**
 * The locks that the kernel lists, those of this process left out. /proc/locks names a file by its filesystem's number and its inode; the
 * path comes from the holder's own descriptor, where we may look at it.
 *
 * Not seen: locks of processes outside this process namespace, and locks that another machine holds on a network filesystem.
 */
export async function listLocks(options: LocksOptions): Promise<Fact<readonly FileLock[]>> {
  const { proc, deadlineMs = 2000 } = options;
  const until = performance.now() + deadlineMs;
  const source = `${proc}/locks`;
  let lines: LockLine[];
  try {
    lines = parseLocks(await readFile(source, 'utf8')).filter((lock) => lock.pid !== process.pid);
  } catch (error) {
    return { known: false, why: `cannot read ${source}: ${messageOf(error)}` };
  }
  const holders = new Map<number, Holder>();
  const locks: FileLock[] = [];
  for (const lock of lines.slice(0, MOST)) {
    let holder = lock.pid === null ? undefined : holders.get(lock.pid);
    if (lock.pid !== null && holder === undefined && performance.now() < until) {
      holder = await holderOf(`${proc}/${lock.pid}`, until);
      holders.set(lock.pid, holder);
    }
    locks.push({ ...lock, command: holder?.command ?? '', path: holder?.paths.get(`${lock.device}:${lock.inode}`) ?? null });
  }
  return { known: true, value: locks, source: lines.length > MOST ? `${source}, the first ${MOST} of ${lines.length}` : source };
}

interface Holder {
  readonly command: string;
  /** By device and inode. */
  readonly paths: ReadonlyMap<string, string>;
}

async function holderOf(process: string, until: number): Promise<Holder> {
  const paths = new Map<string, string>();
  // What may not be looked at, or has ended, has no paths.
  for (const descriptor of await readdir(`${process}/fdinfo`).catch(() => [])) {
    if (performance.now() > until) break;
    const locks = parseLocks(await readFile(`${process}/fdinfo/${descriptor}`, 'utf8').catch(() => ''));
    if (locks.length === 0) continue;
    const path = await readlink(`${process}/fd/${descriptor}`).catch(() => null);
    if (path !== null) for (const lock of locks) paths.set(`${lock.device}:${lock.inode}`, path);
  }
  const line = await readFile(`${process}/cmdline`, 'utf8').catch(() => '');
  return { command: line.replaceAll('\0', ' ').trim().slice(0, 300), paths };
}
