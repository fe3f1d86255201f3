import { type ErrnoName, errnoError } from '../../src/host/errno.ts';

/**
 * What a disk and a page cache hold between them, as a tree of inodes. Each inode carries two states: what a running
 * process sees, and what is promised to be there after the power went. `crash.ts` decides what lies between.
 */
export interface FileNode {
  readonly kind: 'file';
  readonly inode: number;
  /** Capacity; the content is the first `length` bytes. */
  data: Uint8Array;
  length: number;
  /** Files only grow, so what a sync made durable is a prefix. */
  durableLength: number;
  mode: number;
  durableMode: number;
  modifiedMs: number;
}

/** One change of one name. Changes of one `unit` reach the disk together or not at all. */
export interface NameChange {
  readonly unit: number;
  readonly name: string;
  /** What the name stands for afterwards; `null` when it is gone. */
  readonly node: TreeNode | null;
}

export interface DirectoryNode {
  readonly kind: 'directory';
  readonly inode: number;
  readonly names: Map<string, TreeNode>;
  durableNames: ReadonlyMap<string, TreeNode>;
  /** Changes since the last sync of this folder, oldest first. */
  pending: readonly NameChange[];
  modifiedMs: number;
}

interface LinkNode {
  readonly kind: 'link';
  readonly inode: number;
  readonly target: string;
  readonly modifiedMs: number;
}

export type TreeNode = FileNode | DirectoryNode | LinkNode;

export function newDirectory(inode: number, modifiedMs: number): DirectoryNode {
  return { kind: 'directory', inode, names: new Map(), durableNames: new Map(), pending: [], modifiedMs };
}

export function newFile(inode: number, mode: number, modifiedMs: number): FileNode {
  return { kind: 'file', inode, data: new Uint8Array(0), length: 0, durableLength: 0, mode, durableMode: mode, modifiedMs };
}

export function contentOf(file: FileNode): Uint8Array {
  return file.data.subarray(0, file.length);
}

export function append(file: FileNode, bytes: Uint8Array): void {
  const length = file.length + bytes.length;
  if (length > file.data.length) {
    const larger = new Uint8Array(Math.max(length, file.data.length * 2));
    larger.set(contentOf(file));
    file.data = larger;
  }
  file.data.set(bytes, file.length);
  file.length = length;
}

export function syncFile(file: FileNode): void {
  file.durableLength = file.length;
  file.durableMode = file.mode;
}

export function syncNames(directory: DirectoryNode): void {
  directory.durableNames = new Map(directory.names);
  directory.pending = [];
}

/** Makes what one name stands for durable, and nothing else in the folder. */
export function syncName(directory: DirectoryNode, name: string): void {
  const names = new Map(directory.durableNames);
  const node = directory.names.get(name);
  if (node === undefined) names.delete(name);
  else names.set(name, node);
  directory.durableNames = names;
  directory.pending = directory.pending.filter((change) => change.name !== name);
}

/** Changes one name now and leaves the change pending for the disk. */
export function setName(directory: DirectoryNode, name: string, node: TreeNode | null, unit: number): void {
  if (node === null) directory.names.delete(name);
  else directory.names.set(name, node);
  directory.pending = [...directory.pending, { unit, name, node }];
}

/** `/a//b/../c` as `['a', 'c']`. */
export function partsOf(path: string): readonly string[] {
  if (path.includes('\0')) throw Object.assign(new Error('a path cannot hold a NUL byte'), { code: 'ERR_INVALID_ARG_VALUE' });
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  for (const part of parts) if (Buffer.byteLength(part) > 255) throw errnoError('ENAMETOOLONG');
  return parts;
}

export interface Place {
  readonly parent: DirectoryNode;
  readonly name: string;
  /** Null when the name is free. */
  readonly node: TreeNode | null;
  /** Without links. */
  readonly path: string;
}

/** Walks to a name as the kernel does: links on the way are followed, one at the end only on request. */
export function locate(root: DirectoryNode, path: string, follow: boolean, depth = 0): Place {
  if (depth > 40) throw errnoError('ELOOP');
  const parts = partsOf(path);
  let parent = root;
  let walked = '';
  for (const [at, name] of parts.entries()) {
    const last = at === parts.length - 1;
    const node = parent.names.get(name) ?? null;
    if (node?.kind === 'link' && (follow || !last)) {
      const target = node.target.startsWith('/') ? node.target : `${walked}/${node.target}`;
      return locate(root, [target, ...parts.slice(at + 1)].join('/'), follow, depth + 1);
    }
    if (last) return { parent, name, node, path: `${walked}/${name}` };
    if (node === null) throw errnoError('ENOENT');
    if (node.kind !== 'directory') throw errnoError('ENOTDIR');
    parent = node;
    walked += `/${name}`;
  }
  return { parent: root, name: '', node: root, path: '/' };
}

export function directoryAt(root: DirectoryNode, path: string): DirectoryNode {
  const { node } = locate(root, path, true);
  if (node === null) throw errnoError('ENOENT');
  if (node.kind !== 'directory') throw errnoError('ENOTDIR');
  return node;
}

/** How many names of the tree stand for a node. */
export function linksTo(directory: DirectoryNode, wanted: TreeNode): number {
  let count = 0;
  for (const node of directory.names.values()) {
    if (node === wanted) count += 1;
    if (node.kind === 'directory') count += linksTo(node, wanted);
  }
  return count;
}

/** Every file below, once, with one of its paths. */
function filesBelow(directory: DirectoryNode, path = '', seen = new Map<FileNode, string>()): ReadonlyMap<FileNode, string> {
  for (const [name, node] of directory.names) {
    if (node.kind === 'file' && !seen.has(node)) seen.set(node, `${path}/${name}`);
    if (node.kind === 'directory') filesBelow(node, `${path}/${name}`, seen);
  }
  return seen;
}

export function usedBytes(root: DirectoryNode): number {
  let used = 0;
  for (const file of filesBelow(root).keys()) used += file.length;
  return used;
}

export function fail(name: ErrnoName): never {
  throw errnoError(name);
}
