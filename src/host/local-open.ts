import { type BigIntStats, close, constants, fstat, open, read } from 'node:fs';
import { promisify } from 'node:util';
import { TidemarkError } from '../core/errors.ts';
import { isErrno, storageError } from './errno.ts';
import type { FileKind, FileStat, ReadableFile } from './host.ts';

// Promises over the callback calls: about twice as fast as FileHandle with many small reads in flight.
export const openFd = promisify(open);
export const closeFd = promisify(close);
const statFd = promisify(fstat) as (fd: number, options: { bigint: true }) => Promise<BigIntStats>;

/** One read(2) moves at most 2 GiB less a page, and Node truncates the length to 32 bits; stay well below. */
const readBytesMost = 1 << 30;

export function kindOf(entry: { isFile(): boolean; isDirectory(): boolean; isSymbolicLink(): boolean }): FileKind {
  if (entry.isFile()) return 'file';
  if (entry.isDirectory()) return 'directory';
  return entry.isSymbolicLink() ? 'link' : 'other';
}

export function statOf(stats: BigIntStats): FileStat {
  return {
    kind: kindOf(stats),
    bytes: Number(stats.size),
    allocatedBytes: Number(stats.blocks) * 512,
    modifiedMs: Number(stats.mtimeNs / 1000n) / 1000,
    changedMs: Number(stats.ctimeNs / 1000n) / 1000,
    mode: Number(stats.mode & 0o7777n),
    links: Number(stats.nlink),
    device: String(stats.dev),
    inode: String(stats.ino),
  };
}

/** One read(2); resolves with how many bytes came, 0 at the end. */
function readFd(fd: number, into: Uint8Array, at: number, position: number): Promise<number> {
  const length = Math.min(into.length - at, readBytesMost);
  return new Promise((resolve, reject) => {
    read(fd, into, at, length, position, (error, bytesRead) => (error ? reject(error) : resolve(bytesRead)));
  });
}

/** Memory of its own, without the cost of zeroing it: every byte is overwritten, or the read fails. */
function unfilled(length: number): Uint8Array {
  return new Uint8Array(Buffer.allocUnsafeSlow(length).buffer, 0, length);
}

/** Opens for reading; `null` when nothing is there. Links in the folders above are followed, the last name is not. */
export async function openLocal(path: string): Promise<ReadableFile | null> {
  let fd: number;
  try {
    // O_NONBLOCK: opening a pipe must not wait for somebody to write into it. It changes nothing for a regular file.
    fd = await openFd(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return null;
    // ENXIO is what a socket answers to open(2).
    throw isErrno(error, 'ENXIO') ? notRegular(path, 'other') : storageError(error, 'open', path);
  }
  try {
    const stat = statOf(await statFd(fd, { bigint: true }));
    if (stat.kind !== 'file') throw notRegular(path, stat.kind);
    return readable(path, fd, stat);
  } catch (error) {
    await closeFd(fd);
    throw storageError(error, 'open', path);
  }
}

function notRegular(path: string, kind: FileKind): TidemarkError {
  const what = kind === 'other' ? 'a device, pipe or socket' : `a ${kind}`;
  return new TidemarkError('storage-denied', `could not open ${path}: it is ${what}, not a regular file`, { where: path });
}

function readable(path: string, fd: number, stat: FileStat): ReadableFile {
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
      const bytes = unfilled(length);
      for (let at = 0; at < length; ) {
        const count = await readFd(fd, bytes, at, offset + at).catch((error: unknown) => {
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
      await closeFd(fd).catch((error: unknown) => {
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
export async function readSmallLocal(path: string, mostBytes: number): Promise<Uint8Array | null> {
  let fd: number;
  try {
    fd = await openFd(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return null;
    throw isErrno(error, 'ENXIO') ? notRegular(path, 'other') : storageError(error, 'read', path);
  }
  try {
    const stat = statOf(await statFd(fd, { bigint: true }));
    if (stat.kind !== 'file') throw notRegular(path, stat.kind);
    if (stat.bytes > mostBytes) throw tooLarge(path, stat.bytes, mostBytes);
    let bytes = unfilled(Math.min(Math.max(stat.bytes, 4096), mostBytes) + 1);
    for (let at = 0; ; ) {
      if (at > mostBytes) throw tooLarge(path, at, mostBytes);
      if (at === bytes.length) {
        const larger = unfilled(Math.min(bytes.length * 2, mostBytes + 1));
        larger.set(bytes);
        bytes = larger;
      }
      const count = await readFd(fd, bytes, at, at);
      if (count === 0) return bytes.slice(0, at);
      at += count;
    }
  } catch (error) {
    throw storageError(error, 'read', path);
  } finally {
    await closeFd(fd);
  }
}

function tooLarge(path: string, bytes: number, mostBytes: number): TidemarkError {
  return new TidemarkError('format-refused', `could not read ${path}: ${bytes} bytes or more, and at most ${mostBytes} are read here`, {
    where: path,
    hint: 'it is not a file that tidemark wrote; move it away if it does not belong there',
  });
}
