import { TidemarkError } from '../../src/core/errors.ts';
import { errnoError, isErrno, storageError } from '../../src/host/errno.ts';
import type { FileStat, FileStore } from '../../src/host/host.ts';
import { crashedTree, type Survivor } from './memory-crash.ts';
import { type Disk, readable, writable } from './memory-handles.ts';
import {
  append,
  contentOf,
  type DirectoryNode,
  directoryAt,
  type FileNode,
  fail,
  linksTo,
  locate,
  newDirectory,
  newFile,
  type Place,
  partsOf,
  setName,
  syncFile,
  syncName,
  syncNames,
  type TreeNode,
  usedBytes,
} from './memory-tree.ts';

export interface MemoryFilesOptions {
  /** Folders that are there, and durable, from the start. */
  readonly folders?: readonly string[];
  /** Bytes that files may have together before ENOSPC. Default: no limit. */
  readonly capacityBytes?: number;
  readonly now?: () => number;
}

/**
 * A `FileStore` in memory that knows what is durable: `crash(survivor)` gives the store that a machine finds after the
 * power came back. It goes through the host contract suite like the local one.
 */
export interface MemoryFiles extends FileStore {
  /** A new store; this one is left as it is, so that many outcomes can be tried from one point. See `Survivor`. */
  crash(survivor: Survivor): MemoryFiles;
  /** Puts a durable file there, in place of what was there, with its folders: a state to begin with, or damage. */
  plant(path: string, bytes: Uint8Array | string, mode?: number): void;
  plantLink(path: string, target: string): void;
  /** The paths of all files, sorted. */
  paths(): readonly string[];
  /** Changes how much fits. */
  resize(capacityBytes: number): void;
  /** The state between the two steps of `makeDirectory`: made, and not synced into its parent. */
  makeDirectoryUnsynced(path: string): Promise<void>;
}

const totalInodes = 1_000_000;
/** What `space` says where no capacity was given. */
const roomyBytes = 2 ** 40;

export function createMemoryFiles(options: MemoryFilesOptions = {}): MemoryFiles {
  let tick = 1_700_000_000_000;
  const now = options.now ?? (() => tick++);
  const disk: Disk = {
    root: newDirectory(2, now()),
    capacityBytes: options.capacityBytes ?? Number.POSITIVE_INFINITY,
    now,
    nextInode: 3,
    nextUnit: 1,
  };
  for (const folder of options.folders ?? []) durableFolder(disk, partsOf(folder));
  return filesOf(disk);
}

function durableFolder(disk: Disk, parts: readonly string[]): DirectoryNode {
  let directory = disk.root;
  for (const name of parts) {
    const found = directory.names.get(name);
    if (found !== undefined && found.kind !== 'directory') throw errnoError('ENOTDIR');
    const next = found ?? newDirectory(disk.nextInode++, disk.now());
    directory.names.set(name, next);
    syncName(directory, name);
    directory = next;
  }
  return directory;
}

function put(disk: Disk, path: string, node: TreeNode): void {
  const parts = partsOf(path);
  const name = parts.at(-1) ?? fail('EISDIR');
  const directory = durableFolder(disk, parts.slice(0, -1));
  directory.names.set(name, node);
  syncName(directory, name);
}

function statOf(disk: Disk, node: TreeNode): FileStat {
  const bytes = node.kind === 'file' ? node.length : node.kind === 'link' ? node.target.length : 4096;
  return {
    kind: node.kind,
    bytes,
    allocatedBytes: Math.ceil(bytes / 4096) * 4096,
    modifiedMs: node.modifiedMs,
    changedMs: node.modifiedMs,
    mode: node.kind === 'file' ? node.mode : node.kind === 'link' ? 0o777 : 0o755,
    links: node.kind === 'directory' ? 2 : linksTo(disk.root, node),
    device: 'memory',
    inode: String(node.inode),
  };
}

function filesOf(disk: Disk): MemoryFiles {
  /** Every call takes a turn, so that callers which forget to wait are found out. */
  async function turn<T>(tried: string, path: string, act: () => T): Promise<T> {
    await Promise.resolve();
    try {
      return act();
    } catch (error) {
      throw storageError(error, tried, path);
    }
  }

  const absentAsNull = async <T>(promise: Promise<T>): Promise<T | null> => {
    try {
      return await promise;
    } catch (error) {
      if (error instanceof TidemarkError && isErrno(error.cause, 'ENOENT', 'ENOTDIR')) return null;
      throw error;
    }
  };

  function regularFile(path: string): FileNode {
    const { node } = locate(disk.root, path, false);
    if (node === null) return fail('ENOENT');
    if (node.kind === 'link') return fail('ELOOP');
    if (node.kind === 'directory') {
      throw new TidemarkError('storage-denied', `could not open ${path}: it is a directory, not a regular file`, { where: path });
    }
    return node;
  }

  /**
   * Level by level, each made and then synced into its parent; `lastSynced` false stops between the two at the last one.
   * Of the folders that were there, only the deepest can have missed its sync (see `local-files.ts`), so it alone is
   * synced again. Only that one name: a real fsync of the parent would do more, and hide what a caller forgot.
   */
  function makeDirectories(path: string, lastSynced: boolean): void {
    const parts = partsOf(path);
    let existing: Place | null = null;
    for (const at of parts.keys()) {
      const place = placeOf(`/${parts.slice(0, at + 1).join('/')}`);
      const last = at === parts.length - 1;
      if (place.node !== null) {
        if (place.node.kind !== 'directory') fail(last ? 'EEXIST' : 'ENOTDIR');
        existing = place;
        continue;
      }
      if (existing !== null) syncName(existing.parent, existing.name);
      existing = null;
      setName(place.parent, place.name, newDirectory(disk.nextInode++, disk.now()), disk.nextUnit++);
      if (!last || lastSynced) syncName(place.parent, place.name);
    }
    if (existing !== null && lastSynced) syncName(existing.parent, existing.name);
  }

  /** Through a link to a folder, but not through one to nothing, at which mkdir says EEXIST. */
  function placeOf(path: string): Place {
    const place = locate(disk.root, path, false);
    if (place.node?.kind !== 'link') return place;
    const target = locate(disk.root, path, true);
    return target.node === null ? fail('EEXIST') : target;
  }

  return {
    list: async (path) => {
      try {
        return await turn('list', path, () =>
          [...directoryAt(disk.root, path).names].map(([name, node]) => ({ name, kind: node.kind, openable: true })),
        );
      } catch (error) {
        if (error instanceof TidemarkError && isErrno(error.cause, 'ENOENT')) return null;
        throw error;
      }
    },
    stat: (path) => absentAsNull(turn('look at', path, () => statOf(disk, locate(disk.root, path, false).node ?? fail('ENOENT')))),
    open: (path) => absentAsNull(turn('open', path, () => readable(path, regularFile(path), statOf(disk, regularFile(path))))),
    readSmall: (path, mostBytes) =>
      absentAsNull(
        turn('read', path, () => {
          const file = regularFile(path);
          if (file.length > mostBytes) {
            throw new TidemarkError('format-refused', `could not read ${path}: ${file.length} bytes, at most ${mostBytes} are read here`, {
              where: path,
            });
          }
          return contentOf(file).slice();
        }),
      ),
    realPath: (path) =>
      absentAsNull(
        turn('resolve', path, () => {
          const place = locate(disk.root, path, true);
          return place.node === null ? fail('ENOENT') : place.path;
        }),
      ),
    space: (path) =>
      turn('ask for the free space of', path, () => {
        const totalBytes = Math.min(disk.capacityBytes, roomyBytes);
        return { totalBytes, freeBytes: Math.max(0, totalBytes - usedBytes(disk.root)), freeInodes: totalInodes - disk.nextInode };
      }),
    create: (path, mode) =>
      turn('create', path, () => {
        const place = locate(disk.root, path, false);
        if (place.node !== null) fail('EEXIST');
        const file = newFile(disk.nextInode++, mode, disk.now());
        setName(place.parent, place.name, file, disk.nextUnit++);
        return writable(disk, path, file, turn);
      }),
    link: (from, to) =>
      turn(`link ${from} to`, to, () => {
        const source = locate(disk.root, from, false).node ?? fail('ENOENT');
        const target = locate(disk.root, to, false);
        if (target.node !== null) return target.node === source;
        if (source.kind === 'directory') return 'unsupported' as const;
        setName(target.parent, target.name, source, disk.nextUnit++);
        return true;
      }),
    rename: (from, to) =>
      turn(`rename ${from} to`, to, () => {
        const source = locate(disk.root, from, false);
        const target = locate(disk.root, to, false);
        const node = source.node ?? fail('ENOENT');
        // Two names of one file: POSIX does nothing and keeps both.
        if (target.node === node) return;
        if (target.node?.kind === 'directory')
          fail(node.kind !== 'directory' ? 'EISDIR' : target.node.names.size > 0 ? 'ENOTEMPTY' : 'EEXIST');
        if (node.kind === 'directory' && target.node !== null) fail('ENOTDIR');
        // After a crash it could be in both places, and a folder cannot be.
        if (node.kind === 'directory' && source.parent !== target.parent) throw new Error('moving a folder elsewhere is not modelled');
        const unit = disk.nextUnit++;
        setName(target.parent, target.name, node, unit);
        setName(source.parent, source.name, null, unit);
      }),
    unlink: async (path) => {
      await absentAsNull(
        turn('remove', path, () => {
          const place = locate(disk.root, path, false);
          if (place.node?.kind === 'directory') fail('EISDIR');
          if (place.node !== null) setName(place.parent, place.name, null, disk.nextUnit++);
        }),
      );
    },
    makeDirectory: (path) => turn('make the folder', path, () => makeDirectories(path, true)),
    makeDirectoryUnsynced: (path) => turn('make the folder', path, () => makeDirectories(path, false)),
    syncDirectory: (path) => turn('sync the folder', path, () => syncNames(directoryAt(disk.root, path))),
    crash: (survivor) => filesOf({ ...disk, root: crashedTree(disk.root, survivor) }),
    plant(path, bytes, mode = 0o644) {
      const file = newFile(disk.nextInode++, mode, disk.now());
      append(file, typeof bytes === 'string' ? Buffer.from(bytes) : bytes);
      syncFile(file);
      put(disk, path, file);
    },
    plantLink(path, target) {
      put(disk, path, { kind: 'link', inode: disk.nextInode++, target, modifiedMs: disk.now() });
    },
    paths: () => pathsBelow(disk.root, '').sort(),
    resize(capacityBytes) {
      disk.capacityBytes = capacityBytes;
    },
  };
}

function pathsBelow(directory: DirectoryNode, path: string): string[] {
  return [...directory.names].flatMap(([name, node]) =>
    node.kind === 'directory' ? pathsBelow(node, `${path}/${name}`) : node.kind === 'file' ? [`${path}/${name}`] : [],
  );
}
