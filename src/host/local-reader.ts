import { dirname, resolve } from 'node:path';
import { isErrno, storageError } from './errno.ts';
import { entryName } from './file-names.ts';
import type { FileReader } from './host.ts';
import { kindOf, openLocal, readSmallLocal, statOf } from './local-open.ts';
import type { ReadCalls } from './read-calls.ts';

/** Reads this machine's files through one of the two sets of calls. Paths are UTF-8 and go to the kernel as they are. */
export function createLocalReader(calls: ReadCalls): FileReader {
  return {
    async list(directory) {
      try {
        const entries = await calls.list(directory);
        return entries.map((entry) => ({ ...entryName(entry.name), kind: kindOf(entry) }));
      } catch (error) {
        if (isErrno(error, 'ENOENT')) return null;
        throw storageError(error, 'list', directory);
      }
    },
    async stat(path) {
      try {
        return statOf(await calls.lstat(path));
      } catch (error) {
        if (isErrno(error, 'ENOENT', 'ENOTDIR')) return null;
        throw storageError(error, 'look at', path);
      }
    },
    open: (path) => openLocal(calls, path),
    readSmall: (path, mostBytes) => readSmallLocal(calls, path, mostBytes),
    async realPath(path) {
      try {
        return await calls.realPath(path);
      } catch (error) {
        if (isErrno(error, 'ENOENT', 'ENOTDIR')) return null;
        throw storageError(error, 'resolve', path);
      }
    },
    async space(path) {
      for (let at = resolve(path); ; at = dirname(at)) {
        try {
          // The block size is f_bsize; Node does not give f_frsize. They are equal on every common Linux filesystem.
          const { bsize, blocks, bavail, files, ffree } = await calls.space(at);
          // Filesystems that make inodes as they go (btrfs, many FUSE ones) say 0 of 0.
          const freeInodes = files === 0n ? Number.MAX_SAFE_INTEGER : Number(ffree);
          return { totalBytes: Number(blocks * bsize), freeBytes: Number(bavail * bsize), freeInodes };
        } catch (error) {
          if (!isErrno(error, 'ENOENT', 'ENOTDIR') || dirname(at) === at) throw storageError(error, 'ask for the free space of', at);
        }
      }
    },
  };
}
