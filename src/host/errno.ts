import { constants } from 'node:os';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';

/**
 * What the kernel's error numbers mean for us. libuv has no names for some of them (EDQUOT, ESTALE,
 * EUCLEAN and others arrive as `Unknown system error -122`), so everything here goes by number.
 */
interface Meaning {
  readonly code: ErrorCode;
  readonly words: string;
  readonly retry: 'later' | 'never';
  /** The next command; `PATH` stands for the path, quoted for a shell, `DIR` for its folder. */
  readonly hint?: string;
}

const kernelLog = 'dmesg --level=err | tail';
const full = (words: string, hint: string): Meaning => ({ code: 'storage-full', words, retry: 'later', hint });
const denied = (words: string, hint?: string): Meaning => ({ code: 'storage-denied', words, retry: 'never', ...(hint ? { hint } : {}) });
const failed = (words: string, hint?: string): Meaning => ({ code: 'storage-failed', words, retry: 'never', ...(hint ? { hint } : {}) });
const passing = (words: string, hint?: string): Meaning => ({ ...failed(words, hint), retry: 'later' });

const meanings = {
  ENOSPC: full('no space or no inode is left on the filesystem', 'df -h DIR; df -i DIR'),
  EDQUOT: full('the disk quota is used up', 'quota -s; df -h DIR'),
  EIO: failed('the device reported an input/output error', kernelLog),
  EROFS: failed('the filesystem is read-only, as after an error or by its mount options', `findmnt -T DIR; ${kernelLog}`),
  ESTALE: failed('the network filesystem no longer knows this file (stale handle)', 'findmnt -T DIR'),
  EUCLEAN: failed('the filesystem found its own structure damaged', kernelLog),
  EBADMSG: failed('the filesystem found a checksum that does not match', kernelLog),
  ENOLINK: failed('the link to the storage server is gone', 'findmnt -T DIR'),
  ENOTCONN: failed('the filesystem is mounted but its server is gone', 'findmnt -T DIR'),
  ENODEV: failed('the device is gone', 'findmnt -T DIR'),
  ENXIO: failed('no such device or address', 'ls -ld PATH'),
  EHOSTDOWN: passing('the storage server is down', 'findmnt -T DIR'),
  EREMOTEIO: failed('the storage server reported an input/output error', kernelLog),
  EFBIG: failed('the file would be larger than the filesystem or the process limit allows', 'ulimit -f'),
  EXDEV: failed('the two names are on different filesystems', 'findmnt -T DIR'),
  EEXIST: failed('the name is taken', 'ls -ld PATH'),
  ENOENT: failed('there is no such file or folder', 'ls -ld DIR'),
  ENOTDIR: failed('something on the way is not a folder', 'ls -ld DIR'),
  EISDIR: failed('it is a folder', 'ls -ld PATH'),
  ENOTEMPTY: failed('the folder is not empty', 'ls -la PATH'),
  ENAMETOOLONG: failed('the name is longer than the filesystem allows'),
  EINVAL: failed('the filesystem does not support it here', 'findmnt -T DIR'),
  ENOTSUP: failed('the filesystem does not support it', 'findmnt -T DIR'),
  EOPNOTSUPP: failed('the filesystem does not support it', 'findmnt -T DIR'),
  ENOSYS: failed('the filesystem does not implement it', 'findmnt -T DIR'),
  EMLINK: failed('the file has as many names as the filesystem allows', 'stat PATH'),
  EACCES: denied('permission denied', 'namei -l PATH'),
  EPERM: denied('operation not permitted', 'namei -l PATH; lsattr -d PATH'),
  ELOOP: denied('it is a link, and links are not followed here', 'ls -ld PATH'),
  EMFILE: passing('this process has too many files open', 'ulimit -n'),
  ENFILE: passing('the machine has too many files open', 'cat /proc/sys/fs/file-nr'),
  ENOMEM: passing('the kernel has no memory left for it', 'free -h'),
  EAGAIN: passing('the resource is busy'),
  EBUSY: passing('the resource is busy'),
  EINTR: passing('the call was interrupted'),
  ETIMEDOUT: passing('the storage did not answer in time', 'findmnt -T DIR'),
} as const satisfies Record<string, Meaning>;

export type ErrnoName = keyof typeof meanings;

/** Numbers that `os.constants` does not have; Linux's, and only there. */
const linuxOnly: Partial<Record<ErrnoName, number>> = { EUCLEAN: 117, EHOSTDOWN: 112, EREMOTEIO: 121 };

function numberOf(name: ErrnoName): number | undefined {
  const named: Readonly<Record<string, number | undefined>> = constants.errno;
  return named[name] ?? (process.platform === 'linux' ? linuxOnly[name] : undefined);
}

const nameByNumber: ReadonlyMap<number, ErrnoName> = new Map(
  // Reversed, so that of two names for one number (EOPNOTSUPP, ENOTSUP) the first in the table wins.
  (Object.keys(meanings) as ErrnoName[]).reverse().flatMap((name) => {
    const number = numberOf(name);
    return number === undefined ? [] : [[number, name] as const];
  }),
);

/** The name of the error number that `node:fs` reported; `null` for anything else. */
export function errnoOf(error: unknown): ErrnoName | null {
  if (!(error instanceof Error)) return null;
  const { errno, code } = error as NodeJS.ErrnoException;
  // libuv's numbers are negative.
  if (typeof errno === 'number') return nameByNumber.get(-errno) ?? null;
  return code !== undefined && Object.hasOwn(meanings, code) ? (code as ErrnoName) : null;
}

export function isErrno(error: unknown, ...names: readonly ErrnoName[]): boolean {
  const name = errnoOf(error);
  return name !== null && names.includes(name);
}

/** The unnamed error as it arrives from libuv or from one of our stand-ins. */
export function errnoError(name: ErrnoName): NodeJS.ErrnoException {
  const error: NodeJS.ErrnoException = new Error(`${name}: ${meanings[name].words}`);
  error.code = name;
  const number = numberOf(name);
  if (number !== undefined) error.errno = -number;
  return error;
}

/** Quoted for a POSIX shell, so that a hint can be pasted as it stands. */
export function shellQuoted(text: string): string {
  if (/^[\w@%+=:,./-]+$/.test(text) && !text.startsWith('-')) return text;
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function folderOf(path: string): string {
  const cut = path.replace(/\/+$/, '').lastIndexOf('/');
  return cut < 0 ? '.' : cut === 0 ? '/' : path.slice(0, cut);
}

/**
 * The `TidemarkError` for a failed call on `path`.
 * @param tried the act, ready to follow "could not": `open`, `write 4096 bytes to`
 */
export function storageError(cause: unknown, tried: string, path: string): TidemarkError {
  if (cause instanceof TidemarkError) return cause;
  const name = errnoOf(cause);
  if (name === null) {
    const why = cause instanceof Error ? cause.message : String(cause);
    // A path with a NUL byte never reaches the kernel; it is the only argument error that outside data can cause.
    const code = (cause as NodeJS.ErrnoException | null)?.code === 'ERR_INVALID_ARG_VALUE' ? 'storage-denied' : 'storage-failed';
    return new TidemarkError(code, `could not ${tried} ${path}: ${why}`, { where: path, cause });
  }
  const meaning: Meaning = meanings[name];
  const hint = meaning.hint?.replaceAll(/PATH|DIR/g, (word) => shellQuoted(word === 'PATH' ? path : folderOf(path)));
  return new TidemarkError(meaning.code, `could not ${tried} ${path}: ${meaning.words} (${name})`, {
    where: path,
    retry: meaning.retry,
    cause,
    ...(hint === undefined ? {} : { hint }),
  });
}

/**
 * A failed fsync. The kernel may have dropped the dirty pages and marked them clean, so a second fsync of the same
 * file can succeed with the data lost: whatever the cause, the only way on is a new file.
 */
export function syncError(cause: unknown, path: string): TidemarkError {
  const error = storageError(cause, 'sync', path);
  return new TidemarkError(error.code, `${error.message}; this is final for the file, which must be written again under a new name`, {
    where: path,
    // A full disk is worth a pause and a new file; nothing is worth a second fsync of this one.
    retry: error.code === 'storage-full' ? 'later' : 'never',
    cause,
    hint: error.hint ?? kernelLog,
  });
}
