import { type BigIntStats, constants, type Stats } from 'node:fs';
import { TidemarkError } from '../core/errors.ts';
import { isErrno, storageError } from './errno.ts';
import type { FileKind, FileStat, ReadableFile } from './host.ts';
import type { ReadCalls } from './read-calls.ts';

/** One read(2) moves at most 2 GiB less a page, and Node truncates the length to 32 bits; stay well below. */
const readBytesMost = 1 << 30;

export function kindOf(entry: { isFile(): boolean; isDirectory(): boolean; isSymbolicLink(): boolean }): FileKind {
  if (entry.isFile()) return 'file';
  if (entry.isDirectory()) return 'directory';
  return entry.isSymbolicLink() ? 'link' : 'other';
}

export function statOf(stats: BigIntStats | Stats): FileStat {
  if (typeof stats.size === 'number') return statOfNumbers(stats as Stats);
  return statOfBigInts(stats as BigIntStats);
}

/** In the steps in which Node makes a number of seconds and nanoseconds, so that both kinds of stat give the same one. */
function msOf(ns: bigint): number {
  return Number(ns / 1_000_000_000n) * 1000 + Number(ns % 1_000_000_000n) / 1_000_000;
}

function toMicroseconds(ms: number): number {
  return Math.floor(ms * 1000) / 1000;
}

function statOfNumbers(stats: Stats): FileStat {
  return {
    kind: kindOf(stats),
    bytes: stats.size,
    allocatedBytes: stats.blocks * 512,
    modifiedMs: toMicroseconds(stats.mtimeMs),
    changedMs: toMicroseconds(stats.ctimeMs),
    mode: stats.mode & 0o7777,
    links: stats.nlink,
    device: String(stats.dev),
    inode: String(stats.ino),
  };
}

function statOfBigInts(stats: BigIntStats): FileStat {
  return {
    kind: kindOf(stats),
    bytes: Number(stats.size),
    allocatedBytes: Number(stats.blocks) * 512,
    modifiedMs: toMicroseconds(msOf(stats.mtimeNs)),
    changedMs: toMicroseconds(msOf(stats.ctimeNs)),
    mode: Number(stats.mode & 0o7777n),
    links: Number(stats.nlink),
    device: String(stats.dev),
    inode: String(stats.ino),
  };
}

/** Opens for reading; `null` when nothing is there. Links in the folders above are followed, the last name is not. */
export async function openLocal(calls: ReadCalls, path: string): Promise<ReadableFile | null> {
  let fd: number;
  try {
    calls.nextFile();
    // O_NONBLOCK: opening a pipe must not wait for somebody to write into it. It changes nothing for a regular file.
    fd = await calls.open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return null;
    // ENXIO is what a socket answers to open(2).
    throw isErrno(error, 'ENXIO') ? notRegular(path, 'other') : storageError(error, 'open', path);
  }
  try {
    const stat = statOf(await calls.fstat(fd));
    if (stat.kind !== 'file') throw notRegular(path, stat.kind);
    return readable(calls, path, fd, stat);
  } catch (error) {
    await calls.close(fd);
    throw storageError(error, 'open', path);
  }
}

function notRegular(path: string, kind: FileKind): TidemarkError {
  const what = kind === 'other' ? 'a device, pipe or socket' : `a ${kind}`;
  return new TidemarkError('storage-denied', `could not open ${path}: it is ${what}, not a regular file`, { where: path });
}

function readable(calls: ReadCalls, path: string, fd: number, stat: FileStat): ReadableFile {
  let open = true;
  return {
    size: stat.bytes,
    stat,
    async read(offset, length) {
      if (!(Number.isSafeInteger(offset) && Number.isSafeInteger(length) && offset >= 0 && length >= 0 && offset + length <= stat.bytes)) {
        throw new RangeError(`${length} bytes from ${offset} lie beyond the ${stat.bytes} bytes of ${path}`);
      }
      // The number may belong to another file by now; reading that would be worse than failing.
      if (!open) throw new TidemarkError('storage-failed', `could not read ${path}: it was closed`, { where: path });
      const bytes = calls.allocate(length);
      for (let at = 0; at < length; ) {
        const count = await calls.read(fd, bytes, at, Math.min(length - at, readBytesMost), offset + at).catch((error: unknown) => {
          throw storageError(error, `read ${length} bytes from ${offset} of`, path);
        });
        if (count === 0) throw shrank(path, offset + at, stat.bytes);
        at += count;
      }
      return bytes;
    },
    async close() {
      if (!open) return;
      open = false;
      await calls.close(fd).catch((error: unknown) => {
        throw storageError(error, 'close', path);
      });
    },
  };
}

function shrank(path: string, endedAt: number, openedBytes: number): TidemarkError {
  return new TidemarkError(
    'storage-failed',
    `could not read ${path}: it ended at ${endedAt} of the ${openedBytes} bytes it had when opened`,
    {
      where: path,
      hint: 'find out who writes there: tidemark reads a file only after its writer is done',
      retry: 'later',
    },
  );
}

/** A whole file of at most `mostBytes`, also one that grows while it is read (or says 0 bytes, as /proc does). */
export async function readSmallLocal(calls: ReadCalls, path: string, mostBytes: number): Promise<Uint8Array | null> {
  let fd: number;
  try {
    fd = await calls.open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return null;
    throw isErrno(error, 'ENXIO') ? notRegular(path, 'other') : storageError(error, 'read', path);
  }
  try {
    const stat = statOf(await calls.fstat(fd));
    if (stat.kind !== 'file') throw notRegular(path, stat.kind);
    if (stat.bytes > mostBytes) throw tooLarge(path, stat.bytes, mostBytes);
    let bytes = calls.allocate(Math.min(Math.max(stat.bytes, 4096), mostBytes) + 1);
    for (let at = 0; ; ) {
      if (at > mostBytes) throw tooLarge(path, at, mostBytes);
      if (at === bytes.length) {
        const larger = calls.allocate(Math.min(bytes.length * 2, mostBytes + 1));
        larger.set(bytes);
        bytes = larger;
      }
      const count = await calls.read(fd, bytes, at, Math.min(bytes.length - at, readBytesMost), at);
      if (count === 0) return bytes.slice(0, at);
      at += count;
    }
  } catch (error) {
    throw storageError(error, 'read', path);
  } finally {
    await calls.close(fd);
  }
}

function tooLarge(path: string, bytes: number, mostBytes: number): TidemarkError {
  return new TidemarkError('format-refused', `could not read ${path}: ${bytes} bytes or more, and at most ${mostBytes} are read here`, {
    where: path,
    hint: 'it is not a file that tidemark wrote; move it away if it does not belong there',
  });
}
