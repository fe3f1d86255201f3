import { readdir, readFile, readlink } from 'node:fs/promises';
import { messageOf } from '../core/errors.ts';
import { counted, plural } from '../core/units.ts';
import { isErrno } from './errno.ts';
import type { Fact } from './host.ts';
import { isBelow, opensForWriting } from './proc.ts';

export interface Writer {
  readonly pid: number;
  readonly command: string;
  readonly path: string;
}

export interface WritersOptions {
  readonly proc: string;
  /** Absolute, without links. */
  readonly folder: string;
  /** Default 2,000: a machine with many thousands of open files must not hold up an answer. */
  readonly deadlineMs?: number;
}

/** A list this long answers the question already. */
const mostWriters = 1000;

/**
 * Who holds a file below `folder` open for writing, this process left out. Finding somebody is an answer even when
 * not everybody could be asked; finding nobody is one only when all could.
 *
 * Not seen: a file that stays mapped after its descriptor was closed, and a process of a container to which the same
 * folder has another path.
 */
export async function writersBelow(options: WritersOptions): Promise<Fact<readonly Writer[]>> {
  const { proc, folder, deadlineMs = 2000 } = options;
  const until = performance.now() + deadlineMs;
  const writers: Writer[] = [];
  let forbidden = 0;
  let pids: readonly string[];
  try {
    pids = (await readdir(proc)).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  } catch (error) {
    return { known: false, why: `cannot list ${proc}: ${messageOf(error)}` };
  }
  let done = 0;
  for (const pid of pids) {
    if (performance.now() > until || writers.length >= mostWriters) break;
    const found = await writersOf(`${proc}/${pid}`, folder, until);
    if (found === 'forbidden') forbidden += 1;
    else for (const path of found) writers.push({ pid: Number(pid), command: await commandOf(`${proc}/${pid}`), path });
    done += 1;
  }
  const unread = [
    forbidden > 0
      ? `${forbidden} of ${counted(pids.length, 'process', 'processes')} ${plural(forbidden, 'does not show us which files it holds', 'do not show us which files they hold')}`
      : '',
    done < pids.length || performance.now() > until ? `only ${done} of ${pids.length} processes were looked at in ${deadlineMs} ms` : '',
  ].filter((part) => part !== '');
  if (writers.length === 0 && unread.length > 0) return { known: false, why: unread.join('; ') };
  return { known: true, value: writers, source: [`${proc}/*/fd`, ...unread].join('; ') };
}

async function writersOf(process: string, folder: string, until: number): Promise<readonly string[] | 'forbidden'> {
  let descriptors: readonly string[];
  try {
    descriptors = await readdir(`${process}/fd`);
  } catch (error) {
    return isErrno(error, 'EACCES', 'EPERM') ? 'forbidden' : [];
  }
  const paths: string[] = [];
  for (const descriptor of descriptors) {
    if (performance.now() > until) break;
    try {
      const path = await readlink(`${process}/fd/${descriptor}`);
      if (!isBelow(path, folder)) continue;
      const info = await readFile(`${process}/fdinfo/${descriptor}`, 'utf8');
      // What does not say how it was opened counts as a writer.
      if (opensForWriting(info) !== false) paths.push(path);
    } catch (error) {
      if (isErrno(error, 'EACCES', 'EPERM')) return 'forbidden';
      // Otherwise the descriptor, or the whole process, is gone by the time we look; then it does not write either.
    }
  }
  return paths;
}

async function commandOf(process: string): Promise<string> {
  const line = await readFile(`${process}/cmdline`, 'utf8').catch(() => '');
  return line.replaceAll('\0', ' ').trim().slice(0, 300);
}
