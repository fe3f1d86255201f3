import { link, mkdir, rename, stat, unlink } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { promisify } from 'node:util';
import { errnoError, isErrno, storageError } from './errno.ts';
import type { FileStore } from './host.ts';
import { createLocalReader } from './local-reader.ts';
import { createLocal, syncDirectoryLocal, trySyncDirectory } from './local-write.ts';
import { threadedCalls } from './read-calls.ts';

const statTarget = promisify(stat);
const linkName = promisify(link);
const renameName = promisify(rename);
const unlinkName = promisify(unlink);
const makeName = promisify(mkdir);

/** The files of this machine. Paths are UTF-8 and go to the kernel as they are. */
export function createLocalFiles(): FileStore {
  // Folders whose own name this process has seen made durable, see `makeDirectory`.
  const durable = new Set<string>();

  async function syncNameOf(path: string): Promise<void> {
    if (durable.has(path)) return;
    await trySyncDirectory(dirname(path));
    durable.add(path);
  }

  async function makeDirectory(path: string): Promise<void> {
    try {
      await makeName(path);
    } catch (error) {
      if (isErrno(error, 'ENOENT') && dirname(path) !== path) {
        await makeDirectory(dirname(path));
        // Another process may have been faster, so this goes through the same cases again; the parent exists now.
        return makeInside(path);
      }
      return existing(path, error);
    }
    await syncDirectoryLocal(dirname(path));
    durable.add(path);
  }

  async function makeInside(path: string): Promise<void> {
    try {
      await makeName(path);
    } catch (error) {
      return existing(path, error);
    }
    await syncDirectoryLocal(dirname(path));
    durable.add(path);
  }

  async function existing(path: string, error: unknown): Promise<void> {
    if (!isErrno(error, 'EEXIST')) throw storageError(error, 'make the folder', path);
    const found = await statTarget(path).catch((cause: unknown) => {
      throw storageError(cause, 'make the folder', path);
    });
    if (!found.isDirectory()) throw storageError(errnoError('EEXIST'), 'make the folder', path);
    // It exists, but a process killed between mkdir and fsync, or one still between the two, leaves a name that a
    // power loss takes away together with every synced file below. Names are made durable from the top down, so only
    // the deepest folder that existed can be in that state. Once per process is enough, and cheap.
    await syncNameOf(path);
  }

  return {
    ...createLocalReader(threadedCalls),
    create: createLocal,
    async link(from, to) {
      try {
        await linkName(from, to);
        return true;
      } catch (error) {
        // A network filesystem may carry the call out, lose the answer and be asked again: then `to` is taken, by us.
        if (isErrno(error, 'EEXIST')) return sameFile(from, to);
        if (isErrno(error, 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK')) return 'unsupported';
        throw storageError(error, `link ${from} to`, to);
      }
    },
    async rename(from, to) {
      try {
        await renameName(from, to);
      } catch (error) {
        throw storageError(error, `rename ${from} to`, to);
      }
    },
    async unlink(path) {
      try {
        await unlinkName(path);
      } catch (error) {
        if (!isErrno(error, 'ENOENT', 'ENOTDIR')) throw storageError(error, 'remove', path);
      }
    },
    makeDirectory: (path) => makeDirectory(resolve(path)),
    syncDirectory: syncDirectoryLocal,
  };
}

async function sameFile(from: string, to: string): Promise<boolean> {
  try {
    const [one, other] = await Promise.all([threadedCalls.lstat(from), threadedCalls.lstat(to)]);
    return one.dev === other.dev && one.ino === other.ino;
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return false;
    throw storageError(error, `link ${from} to`, to);
  }
}
