import { readdir, readFile, readlink } from 'node:fs/promises';
import { messageOf } from '../core/errors.ts';
import { isErrno } from './errno.ts';
import type { BlockedProcess, Fact } from './host.ts';
import { isBelow, opensForWriting, parseProcessStat } from './proc.ts';

export interface BlockedOptions {
  readonly proc: string;
  /** Absolute, without links. */
  readonly folder: string;
  /** Between the two looks; default 250: every process that reads a disk is in this state for moments. */
  readonly againAfterMs?: number;
  /** Default 2,000. */
  readonly deadlineMs?: number;
}

const MOST = 100;

/**
 * Who hangs in the kernel with something below `folder` open. Only links and words of /proc are read, never the folder itself: on a
 * dead mount that would hang, too. `cmdline` is left alone, because reading it waits for the memory lock that a hanging process may hold.
 */
export async function blockedBelow(options: BlockedOptions): Promise<Fact<readonly BlockedProcess[]>> {
  const { proc, folder, againAfterMs = 250, deadlineMs = 2000 } = options;
  const until = performance.now() + deadlineMs;
  let pids: readonly string[];
  try {
    pids = (await readdir(proc)).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  } catch (error) {
    return { known: false, why: `cannot list ${proc}: ${messageOf(error)}` };
  }
  const first: string[] = [];
  for (const pid of pids) {
    if (performance.now() > until)
      return { known: false, why: `not all of ${pids.length} processes could be looked at in ${deadlineMs} ms` };
    const seen = await stateOf(`${proc}/${pid}`);
    // A child of ours reads for us, and waits for the disk as long as we do.
    if (seen?.state === 'D' && seen.parent !== process.pid) first.push(pid);
  }
  const source = `${proc}/*/stat`;
  if (first.length === 0) return { known: true, value: [], source };
  await new Promise((resolve) => setTimeout(resolve, againAfterMs));
  const found: BlockedProcess[] = [];
  let forbidden = 0;
  for (const pid of first) {
    if (performance.now() > until || found.length >= MOST) break;
    const now = await stateOf(`${proc}/${pid}`);
    if (now?.state !== 'D') continue;
    const held = await heldBelow(`${proc}/${pid}`, folder);
    if (held === 'forbidden') forbidden += 1;
    else if (held !== null) found.push({ pid: Number(pid), command: now.command, ...held, waitsIn: await waitOf(`${proc}/${pid}`) });
  }
  if (found.length === 0 && forbidden > 0) {
    return { known: false, why: `${forbidden} processes hang in uninterruptible sleep and do not show us what they hold` };
  }
  return { known: true, value: found, source };
}

async function stateOf(process: string): Promise<ReturnType<typeof parseProcessStat>> {
  const text = await readFile(`${process}/stat`, 'utf8').catch(() => '');
  return parseProcessStat(text);
}

async function waitOf(process: string): Promise<string | null> {
  const name = (await readFile(`${process}/wchan`, 'utf8').catch(() => '')).trim();
  return name === '' || name === '0' ? null : name.slice(0, 80);
}

interface Held {
  readonly path: string;
  readonly mayWrite: boolean;
}

/** What it has open below the folder; of several the first that may be written to. */
async function heldBelow(process: string, folder: string): Promise<Held | 'forbidden' | null> {
  try {
    const standsIn = await readlink(`${process}/cwd`);
    let held: Held | null = null;
    for (const descriptor of await readdir(`${process}/fd`)) {
      const path = await readlink(`${process}/fd/${descriptor}`).catch(() => '');
      if (!isBelow(path, folder)) continue;
      const info = await readFile(`${process}/fdinfo/${descriptor}`, 'utf8').catch(() => '');
      const mayWrite = opensForWriting(info) !== false;
      if (mayWrite) return { path, mayWrite };
      held ??= { path, mayWrite };
    }
    return held ?? (isBelow(standsIn, folder) ? { path: standsIn, mayWrite: false } : null);
  } catch (error) {
    return isErrno(error, 'EACCES', 'EPERM') ? 'forbidden' : null;
  }
}
