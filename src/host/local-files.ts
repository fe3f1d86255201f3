import { type BigIntStats, type Dirent, link, lstat, mkdir, readdir, realpath, rename, stat, statfs, unlink } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { promisify } from 'node:util';
import { errnoError, isErrno, storageError } from './errno.ts';
import { entryName } from './file-names.ts';
import type { FileStore } from './host.ts';
import { kindOf, openLocal, readSmallLocal, statOf } from './local-open.ts';
import { createLocal, syncDirectoryLocal, trySyncDirectory } from './local-write.ts';

const listNames = promisify(readdir) as unknown as (
  path: string,
  options: { withFileTypes: true; encoding: 'buffer' },
) => Promise<(Omit<Dirent, 'name'> & { readonly name: Uint8Array })[]>;
const statName = promisify(lstat) as (path: string, options: { bigint: true }) => Promise<BigIntStats>;
const statTarget = promisify(stat);
const spaceOf = promisify(statfs);
const resolveLinks = promisify(realpath.native);
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
    async list(directory) {
      try {
        const entries = await listNames(directory, { withFileTypes: true, encoding: 'buffer' });
        return entries.map((entry) => ({ ...entryName(entry.name), kind: kindOf(entry) }));
      } catch (error) {
        if (isErrno(error, 'ENOENT')) return null;
        throw storageError(error, 'list', directory);
      }
    },
    async stat(path) {
      try {
        return statOf(await statName(path, { bigint: true }));
      } catch (error) {
        if (isErrno(error, 'ENOENT', 'ENOTDIR')) return null;
        throw storageError(error, 'look at', path);
      }
    },
    open: openLocal,
    readSmall: readSmallLocal,
    async realPath(path) {
      try {
        return await resolveLinks(path);
      } catch (error) {
        if (isErrno(error, 'ENOENT', 'ENOTDIR')) return null;
        throw storageError(error, 'resolve', path);
      }
    },
    async space(path) {
      for (let at = resolve(path); ; at = dirname(at)) {
        try {
          // The block size is f_bsize; Node does not give f_frsize. They are equal on every common Linux filesystem.
          const { bsize, blocks, bavail, files, ffree } = await spaceOf(at, { bigint: true });
          // Filesystems that make inodes as they go (btrfs, many FUSE ones) say 0 of 0.
          const freeInodes = files === 0n ? Number.MAX_SAFE_INTEGER : Number(ffree);
          return { totalBytes: Number(blocks * bsize), freeBytes: Number(bavail * bsize), freeInodes };
        } catch (error) {
          if (!isErrno(error, 'ENOENT', 'ENOTDIR') || dirname(at) === at) throw storageError(error, 'ask for the free space of', at);
        }
      }
    },
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
    const [one, other] = await Promise.all([statName(from, { bigint: true }), statName(to, { bigint: true })]);
    return one.dev === other.dev && one.ino === other.ino;
  } catch (error) {
    if (isErrno(error, 'ENOENT', 'ENOTDIR')) return false;
    throw storageError(error, `link ${from} to`, to);
  }
}
