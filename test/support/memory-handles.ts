import { TidemarkError } from '../../src/core/errors.ts';
import { storageError } from '../../src/host/errno.ts';
import type { FileStat, ReadableFile, WritableFile } from '../../src/host/host.ts';
import { append, type DirectoryNode, type FileNode, fail, syncFile, usedBytes } from './memory-tree.ts';

export interface Disk {
  readonly root: DirectoryNode;
  capacityBytes: number;
  readonly now: () => number;
  nextInode: number;
  nextUnit: number;
}

export function readable(path: string, file: FileNode, stat: FileStat): ReadableFile {
  let open = true;
  return {
    size: stat.bytes,
    stat,
    async read(offset, length) {
      await Promise.resolve();
      if (!(Number.isSafeInteger(offset) && Number.isSafeInteger(length) && offset >= 0 && length >= 0 && offset + length <= stat.bytes)) {
        throw new RangeError(`${length} bytes from ${offset} lie beyond the ${stat.bytes} bytes of ${path}`);
      }
      if (!open) throw new TidemarkError('storage-failed', `could not read ${path}: it was closed`, { where: path });
      return file.data.slice(offset, offset + length);
    },
    async close() {
      open = false;
    },
  };
}

type Turn = <T>(tried: string, path: string, act: () => T) => Promise<T>;

export function writable(disk: Disk, path: string, file: FileNode, turn: Turn): WritableFile {
  let open = true;
  let broken: unknown;
  const inOrder = (tried: string, act: () => void) =>
    turn(tried, path, () => {
      if (broken !== undefined) throw broken;
      if (!open) throw new Error('it was closed');
      try {
        act();
      } catch (error) {
        broken = storageError(error, tried, path);
        throw broken;
      }
    });
  return {
    write: (bytes) =>
      inOrder(`write ${bytes.length} bytes to`, () => {
        const room = Number.isFinite(disk.capacityBytes) ? Math.max(0, disk.capacityBytes - usedBytes(disk.root)) : bytes.length;
        file.modifiedMs = disk.now();
        // A full disk takes what still fits before it says so.
        append(file, bytes.subarray(0, room));
        if (room < bytes.length) fail('ENOSPC');
      }),
    setMode: (mode) =>
      inOrder('set the mode of', () => {
        file.mode = mode;
      }),
    sync: () => inOrder('sync', () => syncFile(file)),
    async close() {
      await Promise.resolve();
      open = false;
    },
  };
}
