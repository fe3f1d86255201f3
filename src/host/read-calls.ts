import {
  type BigIntStats,
  close,
  closeSync,
  type Dirent,
  fstat,
  fstatSync,
  lstat,
  lstatSync,
  open,
  openSync,
  read,
  readdir,
  readdirSync,
  readSync,
  realpath,
  realpathSync,
  type Stats,
  type StatsFsBase,
  statfs,
  statfsSync,
} from 'node:fs';
import { promisify } from 'node:util';

/** A directory entry whose name is bytes: names may hold anything. */
export type RawEntry = Omit<Dirent, 'name'> & { readonly name: Uint8Array };

/**
 * The kernel's reading calls as local-files.ts uses them. Two sets: one leaves the calling thread free, the other
 * is several times cheaper and blocks it, which is right only in a process that does nothing else and that may be killed.
 */
export interface ReadCalls {
  open(path: string, flags: number): Promise<number>;
  fstat(fd: number): Promise<BigIntStats | Stats>;
  /** One read(2); resolves with how many bytes came, 0 at the end. */
  read(fd: number, into: Uint8Array, at: number, length: number, position: number): Promise<number>;
  close(fd: number): Promise<void>;
  list(path: string): Promise<RawEntry[]>;
  lstat(path: string): Promise<BigIntStats | Stats>;
  realPath(path: string): Promise<string>;
  space(path: string): Promise<StatsFsBase<bigint>>;
  /** Memory for one read, not zeroed. */
  allocate(bytes: number): Uint8Array;
  /** Called before a file is opened: what was allocated for the one before may be used again. */
  nextFile(): void;
}

const statFd = promisify(fstat) as (fd: number, options: { bigint: true }) => Promise<BigIntStats>;
const statName = promisify(lstat) as (path: string, options: { bigint: true }) => Promise<BigIntStats>;
const listNames = promisify(readdir) as unknown as (
  path: string,
  options: { withFileTypes: true; encoding: 'buffer' },
) => Promise<RawEntry[]>;
const spaceOf = promisify(statfs);

/** Calls on libuv's threads. Promises over the callback calls: about twice as fast as FileHandle with many small reads in flight. */
export const threadedCalls: ReadCalls = {
  open: promisify(open),
  fstat: (fd) => statFd(fd, { bigint: true }),
  read: (fd, into, at, length, position) =>
    new Promise((resolve, reject) => {
      read(fd, into, at, length, position, (error, bytesRead) => (error ? reject(error) : resolve(bytesRead)));
    }),
  close: promisify(close),
  list: (path) => listNames(path, { withFileTypes: true, encoding: 'buffer' }),
  lstat: (path) => statName(path, { bigint: true }),
  realPath: promisify(realpath.native),
  space: (path) => spaceOf(path, { bigint: true }),
  // Memory of its own, without the cost of zeroing it: every byte is overwritten, or the read fails.
  allocate: (bytes) => new Uint8Array(Buffer.allocUnsafeSlow(bytes).buffer, 0, bytes),
  nextFile: () => undefined,
};

/** Numbers are several times cheaper than big ones, and an inode number seldom needs those. */
function exact(stats: Stats): Stats | null {
  return Number.isSafeInteger(stats.ino) && Number.isSafeInteger(stats.dev) ? stats : null;
}

/** Reads of at most this much are headers and ids, which a parser holds on to until its file is closed. */
const SMALL_BYTES = 256 * 1024;
const SMALL_ARENA_BYTES = 4 * 1024 * 1024;
/** Longer reads are pieces of a tensor: a reader holds at most two of them at a time. */
const PIECE_BYTES = 8 * 1024 * 1024;
const PIECES = 4;

/**
 * Calls that block, for a process that reads one file after the other. Its memory is used again, because fresh pages cost as much
 * as reading them: what a small read (256 KiB) gave is valid until the next file is opened, what a longer one gave
 * until `PIECES` - 1 more of those.
 */
export function blockingCalls(): ReadCalls {
  const small = Buffer.allocUnsafeSlow(SMALL_ARENA_BYTES);
  const pieces: Uint8Array[] = [];
  let used = 0;
  let turn = 0;
  const allocate = (bytes: number): Uint8Array => {
    if (bytes <= SMALL_BYTES && used + bytes <= SMALL_ARENA_BYTES) {
      used += bytes;
      return small.subarray(used - bytes, used);
    }
    if (bytes <= SMALL_BYTES || bytes > PIECE_BYTES) return threadedCalls.allocate(bytes);
    turn = (turn + 1) % PIECES;
    pieces[turn] ??= threadedCalls.allocate(PIECE_BYTES);
    return (pieces[turn] as Uint8Array).subarray(0, bytes);
  };
  return {
    open: async (path, flags) => openSync(path, flags),
    fstat: async (fd) => exact(fstatSync(fd)) ?? fstatSync(fd, { bigint: true }),
    read: async (fd, into, at, length, position) => readSync(fd, into, at, length, position),
    close: async (fd) => closeSync(fd),
    list: async (path) => readdirSync(path, { withFileTypes: true, encoding: 'buffer' }) as unknown as RawEntry[],
    lstat: async (path) => exact(lstatSync(path)) ?? lstatSync(path, { bigint: true }),
    realPath: async (path) => realpathSync.native(path),
    space: async (path) => statfsSync(path, { bigint: true }),
    allocate,
    nextFile: () => {
      used = 0;
    },
  };
}
