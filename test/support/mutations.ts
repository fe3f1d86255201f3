import type { FileStore, WritableFile } from '../../src/host/host.ts';

/** The operations that change something, each one step. */
export const mutatingOps = [
  'create',
  'write',
  'setMode',
  'sync',
  'close',
  'link',
  'rename',
  'unlink',
  'makeDirectory',
  'syncDirectory',
] as const;

export type MutatingOp = (typeof mutatingOps)[number];

export interface Mutation {
  readonly op: MutatingOp;
  /** For `link` and `rename` the new name. */
  readonly path: string;
  /** For `link` and `rename` the old name. */
  readonly from?: string;
  /** For `write`. */
  readonly bytes?: number;
}

/** What a step does: in full, and, for those that have an inside, in part. */
interface Step<T> {
  readonly whole: () => Promise<T>;
  /** Of a write the first `keepBytes`; of `makeDirectory` all but the last sync, where the files below can do that. */
  readonly part?: (keepBytes: number) => Promise<void>;
  /** What a caller gets who is told that it worked. */
  readonly pretended: T;
}

export type AroundStep = <T>(mutation: Mutation, step: Step<T>) => Promise<T>;

/** `makeDirectoryUnsynced`: see `memory-files.ts`. */
export type TearableFiles = FileStore & { readonly makeDirectoryUnsynced?: (path: string) => Promise<void> };

/** Hands every mutating operation to `around`; reading goes straight through. */
export function aroundMutations(inner: TearableFiles, around: AroundStep): FileStore {
  return {
    list: (path) => inner.list(path),
    stat: (path) => inner.stat(path),
    open: (path) => inner.open(path),
    readSmall: (path, mostBytes) => inner.readSmall(path, mostBytes),
    realPath: (path) => inner.realPath(path),
    space: (path) => inner.space(path),
    async create(path, mode) {
      const file = await around({ op: 'create', path }, { whole: () => inner.create(path, mode), pretended: nowhere });
      return writable(path, file, around);
    },
    link: (from, to) => around({ op: 'link', path: to, from }, { whole: () => inner.link(from, to), pretended: true }),
    rename: (from, to) => around({ op: 'rename', path: to, from }, { whole: () => inner.rename(from, to), pretended: undefined }),
    unlink: (path) => around({ op: 'unlink', path }, { whole: () => inner.unlink(path), pretended: undefined }),
    makeDirectory: (path) =>
      around(
        { op: 'makeDirectory', path },
        { whole: () => inner.makeDirectory(path), part: async () => inner.makeDirectoryUnsynced?.(path), pretended: undefined },
      ),
    syncDirectory: (path) => around({ op: 'syncDirectory', path }, { whole: () => inner.syncDirectory(path), pretended: undefined }),
  };
}

async function done(): Promise<void> {}

/** A file that says yes to everything. */
const nowhere: WritableFile = { write: done, setMode: done, sync: done, close: done };

function writable(path: string, file: WritableFile, around: AroundStep): WritableFile {
  return {
    write: (bytes) =>
      around(
        { op: 'write', path, bytes: bytes.length },
        { whole: () => file.write(bytes), part: (keepBytes) => file.write(bytes.subarray(0, keepBytes)), pretended: undefined },
      ),
    setMode: (mode) => around({ op: 'setMode', path }, { whole: () => file.setMode(mode), pretended: undefined }),
    sync: () => around({ op: 'sync', path }, { whole: () => file.sync(), pretended: undefined }),
    close: () => around({ op: 'close', path }, { whole: () => file.close(), pretended: undefined }),
  };
}
