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
    const [, , , , mountPoint, mountOptions] = line.slice(0, dash).split(' ');
    const [filesystem, source, superOptions] = line.slice(dash + 3).split(' ');
    if (mountPoint === undefined || mountOptions === undefined || filesystem === undefined || source === undefined) continue;
    mounts.push({
      mountPoint: decodeOctal(mountPoint),
      filesystem: decodeOctal(filesystem),
      source: decodeOctal(source),
      options: [mountOptions, superOptions].filter((part) => part !== undefined && part !== '').join(','),
    });
  }
  return mounts;
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
  const [state] = fields;
  const startTicks = fields[22 - 3];
  if (state === undefined || startTicks === undefined || !/^[A-Za-z]$/.test(state) || !/^\d+$/.test(startTicks)) return null;
  return { command: text.slice(open + 1, shut), state, startTicks };
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
