import { type DirectoryNode, type FileNode, type NameChange, newDirectory, syncNames, type TreeNode } from './memory-tree.ts';
import { type Random, seededRandom } from './seeded-random.ts';

/**
 * What a power loss leaves, from what POSIX promises and nothing more:
 *
 * - A file keeps the bytes of its last fsync. Of later bytes any part may be there: none, a piece, all, with pages of
 *   zeros where the length reached the disk and the data did not.
 * - A folder keeps the names of its last fsync. Of later changes any subset may be there, in their order for one name,
 *   in no order for different ones. A rename within one folder is one change; between two folders it is two, and each
 *   belongs to its own folder's fsync. (Journaling filesystems are kinder; a network one need not be.)
 * - Syncing a file says nothing of its name, and a folder whose own name is lost takes everything below with it.
 *
 * A number is a seed for one such outcome. The named ones are the corners, for tests that walk all steps:
 * `only-durable` (nothing but the promises), `names-only` (every name, no unsynced byte: empty files), `zeros` (every
 * name and length, unsynced bytes zero) and `everything` (as after the kill of a process).
 */
export type Survivor = number | 'only-durable' | 'names-only' | 'zeros' | 'everything';

export const survivorCorners = ['only-durable', 'names-only', 'zeros', 'everything'] as const;

const pageBytes = 4096;

/** The tree after the crash; the tree before is left as it was, so that many outcomes can be tried from one point. */
export function crashedTree(root: DirectoryNode, survivor: Survivor): DirectoryNode {
  const choose = typeof survivor === 'number' ? seeded(seededRandom(survivor)) : corner(survivor);
  // A file with two names stays one file.
  const kept = new Map<TreeNode, TreeNode>();

  function keep(node: TreeNode): TreeNode {
    const known = kept.get(node);
    if (known !== undefined) return known;
    const copy = node.kind === 'directory' ? keepDirectory(node) : node.kind === 'file' ? keepFile(node, choose) : node;
    kept.set(node, copy);
    return copy;
  }

  function keepDirectory(node: DirectoryNode): DirectoryNode {
    const copy = newDirectory(node.inode, node.modifiedMs);
    for (const [name, child] of namesAfter(node, choose)) copy.names.set(name, keep(child));
    syncNames(copy);
    return copy;
  }

  return keepDirectory(root);
}

interface Choices {
  /** Whether a unit of changes reached the disk. */
  unit(): boolean;
  mode(): 'old' | 'new';
  /** What is there of the bytes between `durable` and `length`: how far the file reaches, and which of its pages are real. */
  tail(durable: number, length: number): { readonly length: number; real(page: number): boolean };
}

function corner(survivor: Exclude<Survivor, number>): Choices {
  const all = survivor === 'everything';
  const names = survivor !== 'only-durable';
  return {
    unit: () => names,
    mode: () => (all ? 'new' : 'old'),
    tail: (durable, length) => ({ length: survivor === 'zeros' || all ? length : durable, real: () => all }),
  };
}

function seeded(random: Random): Choices {
  return {
    unit: () => random.chance(0.5),
    mode: () => (random.chance(0.5) ? 'old' : 'new'),
    tail(durable, length) {
      const cut = durable + random.below(length - durable + 1);
      switch (random.below(6)) {
        case 0:
          return { length: durable, real: () => true };
        case 1:
          return { length, real: () => true };
        case 2:
          return { length: cut, real: () => true };
        case 3: // the length and the first pages arrived
          return { length, real: (page) => page * pageBytes < cut };
        case 4: // the length arrived, no data did
          return { length, real: () => false };
        default: {
          // Holes anywhere: pages are written in any order.
          const holes = new Set<number>();
          for (let page = 0; page * pageBytes < length; page++) if (random.chance(0.5)) holes.add(page);
          return { length: random.chance(0.5) ? length : cut, real: (page) => !holes.has(page) };
        }
      }
    },
  };
}

function namesAfter(directory: DirectoryNode, choose: Choices): ReadonlyMap<string, TreeNode> {
  const names = new Map(directory.durableNames);
  const units = new Map<number, NameChange[]>();
  for (const change of directory.pending) units.set(change.unit, [...(units.get(change.unit) ?? []), change]);
  // In their order: a subset of an ordered list is every outcome that one name can have.
  for (const changes of units.values()) {
    if (!choose.unit()) continue;
    for (const { name, node } of changes) {
      if (node === null) names.delete(name);
      else names.set(name, node);
    }
  }
  return names;
}

function keepFile(file: FileNode, choose: Choices): FileNode {
  const mode = file.mode === file.durableMode || choose.mode() === 'old' ? file.durableMode : file.mode;
  const { durableLength: durable } = file;
  const tail = durable === file.length ? { length: durable, real: () => true } : choose.tail(durable, file.length);
  const data = file.data.slice(0, tail.length);
  for (let at = durable; at < tail.length; ) {
    const page = Math.floor(at / pageBytes);
    const end = Math.min((page + 1) * pageBytes, tail.length);
    if (!tail.real(page)) data.fill(0, at, end);
    at = end;
  }
  return { ...file, data, length: tail.length, durableLength: tail.length, mode, durableMode: mode };
}
