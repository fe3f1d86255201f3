import { messageOf } from '../core/errors.ts';
import type { LogEvent } from '../core/report.ts';
import type { FileReader } from '../host/host.ts';
import { type Guard, refusalOf } from './gather-guard.ts';
import { eventsIn } from './system-log.ts';

/** Read in this order; each log's older half stands before it, because the crash may be in it. */
const LOGS = ['kern.log.1', 'kern.log', 'syslog.1', 'syslog', 'messages.1', 'messages'];
const FOLDER = '/var/log';
/** Of each file's end: days of a quiet machine, minutes of one whose disk dies loudly. */
const TAIL_BYTES = 2 * 1024 * 1024;
const LIMIT_MS = 10_000;
const NOT_READ = [
  { pattern: /^(kern\.log|syslog|messages)([.-].*)?\.(gz|xz|zst|bz2)$/, why: 'compressed; only plain logs are read' },
  { pattern: /^(messages|syslog|kern\.log)-\d{8}$/, why: 'older than the log before the present one' },
];

export interface SystemLogSeen {
  readonly events: readonly LogEvent[];
  readonly notRead: readonly { readonly path: string; readonly why: string }[];
}

/** What the machine's plain logs say of storage and memory. Starts no program: the journal and the kernel's ring are said to be unread. */
export async function gatherSystemLog(files: FileReader, guard: Guard, folder = FOLDER): Promise<SystemLogSeen> {
  const events: LogEvent[] = [];
  const notRead: { path: string; why: string }[] = [];
  const names = await listed(files, guard, folder, notRead);
  for (const name of LOGS) {
    if (!names.includes(name)) continue;
    const path = `${folder}/${name}`;
    try {
      const slice = await guard.run(`reading ${path}`, LIMIT_MS, () => tailOf(files, path));
      if (slice !== null) events.push(...eventsIn(slice));
    } catch (error) {
      if (refusalOf(error) === null) throw error;
      notRead.push({ path, why: messageOf(error) });
    }
  }
  for (const name of names) {
    const why = NOT_READ.find(({ pattern }) => pattern.test(name))?.why;
    if (why !== undefined) notRead.push({ path: `${folder}/${name}`, why });
  }
  if (names.includes('journal'))
    notRead.push({ path: `${folder}/journal`, why: 'systemd\u2019s binary journal: journalctl -k -b -1 shows it' });
  notRead.push({ path: 'dmesg', why: 'holds this boot only, and nothing is started here: dmesg -T shows it' });
  return { events, notRead };
}

async function listed(files: FileReader, guard: Guard, folder: string, notRead: { path: string; why: string }[]): Promise<string[]> {
  try {
    const entries = (await guard.run(`listing ${folder}`, LIMIT_MS, () => files.list(folder))) ?? [];
    return entries
      .filter((entry) => entry.openable)
      .map((entry) => entry.name)
      .sort();
  } catch (error) {
    if (refusalOf(error) === null) throw error;
    notRead.push({ path: folder, why: messageOf(error) });
    return [];
  }
}

async function tailOf(files: FileReader, path: string): Promise<{ path: string; text: string; modifiedMs: number } | null> {
  const file = await files.open(path);
  if (file === null) return null;
  try {
    const length = Math.min(TAIL_BYTES, file.size);
    const text = Buffer.from(await file.read(file.size - length, length)).toString('utf8');
    // The first line of a tail is half a line.
    return { path, text: length < file.size ? text.slice(text.indexOf('\n') + 1) : text, modifiedMs: file.stat.modifiedMs };
  } finally {
    await file.close();
  }
}
