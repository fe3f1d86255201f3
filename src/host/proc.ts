import type { MountFacts } from './host.ts';

/**
 * Parsers for /proc. Text in, plain data out; `null` where the text does not have the expected form, which a caller
 * reports as "could not tell" and never as "fine".
 */

/** Octal escapes as the kernel writes them into mount tables: space, tab, newline, backslash, `#`. */
export function decodeOctal(text: string): string {
  if (!text.includes('\\')) return text;
  // The escaped bytes are ASCII, so that decoding them one by one cannot break a UTF-8 sequence.
  return text.replace(/\\([0-3][0-7]{2})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

/** /proc/PID/mountinfo, in its own order. Lines of an unknown form are left out. */
export function parseMountInfo(text: string): readonly MountFacts[] {
  const mounts: MountFacts[] = [];
  for (const line of text.split('\n')) {
    // Optional fields stand before the dash, any number of them.
    const dash = line.indexOf(' - ');
    if (dash < 0) continue;
    const [, , numbers = '', , mountPoint, mountOptions] = line.slice(0, dash).split(' ');
    const [filesystem, source, superOptions] = line.slice(dash + 3).split(' ');
    if (mountPoint === undefined || mountOptions === undefined || filesystem === undefined || source === undefined) continue;
    const device = deviceOf(numbers, 10);
    mounts.push({
      ...(device === null ? {} : { device }),
      mountPoint: decodeOctal(mountPoint),
      filesystem: decodeOctal(filesystem),
      source: decodeOctal(source),
      options: [mountOptions, superOptions].filter((part) => part !== undefined && part !== '').join(','),
    });
  }
  return mounts;
}

/** `MAJOR:MINOR` as one number, the one that stat(2) gives; null where it has another form. */
function deviceOf(numbers: string, base: 10 | 16): string | null {
  const found = (base === 16 ? /^([0-9a-f]+):([0-9a-f]+)$/ : /^(\d+):(\d+)$/).exec(numbers);
  if (found === null) return null;
  const [major, minor] = [found[1], found[2]].map((part) => BigInt(Number.parseInt(part ?? '', base)));
  if (major === undefined || minor === undefined) return null;
  // glibc's makedev: 12 bits of the major and 8 of the minor number where they always were, the rest above.
  return String(((major & ~0xfffn) << 32n) | ((major & 0xfffn) << 8n) | ((minor & ~0xffn) << 12n) | (minor & 0xffn));
}

/** One line of /proc/locks. */
export interface LockLine {
  readonly kind: 'flock' | 'posix' | 'ofd' | 'lease';
  readonly exclusive: boolean;
  /** null where the kernel has none to name: a lock that belongs to an open file (OFD), or to another machine. */
  readonly pid: number | null;
  /** As `FileStat` has them. */
  readonly device: string;
  readonly inode: string;
}

const LOCK_KINDS: Readonly<Record<string, LockLine['kind']>> = {
  FLOCK: 'flock',
  POSIX: 'posix',
  OFDLCK: 'ofd',
  LEASE: 'lease',
  DELEG: 'lease',
};

/**
 * /proc/locks, or the `lock:` lines of /proc/PID/fdinfo/N. Those who only wait for a lock (`->`) are left out: its holder has a line of
 * its own. So are lines of an unknown form.
 */
export function parseLocks(text: string): LockLine[] {
  const locks: LockLine[] = [];
  for (const line of text.split('\n')) {
    const found = /^(?:lock:\s*)?\d+:\s+([A-Z]+)\s+\S+\s+(READ|WRITE|RW)\s+(-?\d+)\s+([0-9a-f]+:[0-9a-f]+):(\d+)\s/.exec(line);
    const [, word = '', access, pid, numbers = '', inode = ''] = found ?? [];
    const kind = LOCK_KINDS[word];
    const device = deviceOf(numbers, 16);
    if (kind === undefined || device === null) continue;
    locks.push({ kind, exclusive: access !== 'READ', pid: Number(pid) > 0 ? Number(pid) : null, device, inode });
  }
  return locks;
}

/** Whether `path` is `folder` or lies below it; both absolute and without links. */
export function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`);
}

/** The mount that a path without links lies on: the longest mount point; of several at one point the last, which hides the others. */
export function mountUnder(mounts: readonly MountFacts[], path: string): MountFacts | null {
  let best: MountFacts | null = null;
  for (const mount of mounts) {
    if (isBelow(path, mount.mountPoint) && (best === null || mount.mountPoint.length >= best.mountPoint.length)) best = mount;
  }
  return best;
}

export interface ProcessStat {
  readonly command: string;
  /** One letter; `Z` and `X` are processes that have ended. */
  readonly state: string;
  /** The process that started it. */
  readonly parent: number;
  readonly startTicks: string;
}

/** /proc/PID/stat. The command may hold spaces and brackets, so the fields are counted from the last `)`. */
export function parseProcessStat(text: string): ProcessStat | null {
  const open = text.indexOf('(');
  const shut = text.lastIndexOf(')');
  if (open < 0 || shut < open) return null;
  // The first of these is field 3.
  const fields = text
    .slice(shut + 1)
    .trim()
    .split(/\s+/);
  const [state, parent] = fields;
  const startTicks = fields[22 - 3];
  if (state === undefined || startTicks === undefined || !/^[A-Za-z]$/.test(state) || !/^\d+$/.test(startTicks)) return null;
  return { command: text.slice(open + 1, shut), state, parent: Number(parent), startTicks };
}

/** `MemTotal` of /proc/meminfo, in bytes. */
export function parseMemoryTotal(text: string): number | null {
  const found = /^MemTotal:\s+(\d+) kB$/m.exec(text);
  return found === null ? null : Number(found[1]) * 1024;
}

/** `btime` of /proc/stat: seconds since the epoch at which the kernel started. */
export function parseBootTime(text: string): number | null {
  const found = /^btime (\d+)$/m.exec(text);
  return found === null ? null : Number(found[1]);
}

/** /proc/sys/kernel/random/boot_id. */
export function parseBootId(text: string): string | null {
  const id = text.trim();
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) ? id : null;
}

/** A /proc/sys file that holds one number. */
export function parseNumber(text: string): number | null {
  return /^-?\d+$/.test(text.trim()) ? Number(text) : null;
}

/** Whether a descriptor was opened for writing, from /proc/PID/fdinfo/N; `null` when it does not say. */
export function opensForWriting(fdinfo: string): boolean | null {
  const found = /^flags:\s+([0-7]+)$/m.exec(fdinfo);
  if (found === null) return null;
  // The lowest two bits: 0 read, 1 write, 2 both.
  const access = Number.parseInt(found[1]?.slice(-1) ?? '0', 8) & 3;
  return access === 1 || access === 2;
}

/** The number in a link such as `pid:[4026531836]`. */
export function parseNamespace(link: string): string | null {
  return /^\w+:\[(\d+)\]$/.exec(link)?.[1] ?? null;
}

/** The first process namespace has this number on every kernel (`PROC_PID_INIT_INO`); containers have others. */
export const firstPidNamespace = '4026531836';
