import type { RandomAccess } from '../core/random-access.ts';

/**
 * The one door to the machine. Everything that touches files, processes, HTTP, clocks or randomness
 * goes through a `Host`, so that a remote machine is one more adapter and a crash is a test.
 *
 * Errors: every method rejects with a `TidemarkError` (`storage-full`, `storage-failed`,
 * `storage-denied`, `engine-*` for HTTP), except where it says otherwise.
 */
export interface Host {
  readonly files: FileStore;
  readonly http: Http;
  readonly clock: Clock;
  readonly machine: Machine;
  /** Processes that read in place of this one. Absent where there are none, as in tests from sources: then the caller reads itself. */
  readonly helpers?: Helpers;
  /** `length` bytes from the system's generator. */
  randomBytes(length: number): Uint8Array;
}

export interface Clock {
  /** Milliseconds since the epoch. It may jump; never used to order events of two processes. */
  now(): number;
  /** Milliseconds that only grow. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export type FileKind = 'file' | 'directory' | 'link' | 'other';

export interface DirectoryEntry {
  /** As stored. A name that is not UTF-8 comes escaped (`\xNN`), with `openable` false. */
  readonly name: string;
  readonly kind: FileKind;
  readonly openable: boolean;
}

export interface FileStat {
  readonly kind: FileKind;
  readonly bytes: number;
  /** Bytes really allocated (512 times the block count). */
  readonly allocatedBytes: number;
  readonly modifiedMs: number;
  readonly changedMs: number;
  /** Permission bits only, as in `0o644`. */
  readonly mode: number;
  readonly links: number;
  readonly device: string;
  readonly inode: string;
}

export interface ReadableFile extends RandomAccess {
  readonly stat: FileStat;
  close(): Promise<void>;
}

/** The half that assessment gets: it cannot write. */
export interface FileReader {
  /** All entries, in no order; `null` when the directory does not exist. */
  list(directory: string): Promise<readonly DirectoryEntry[] | null>;
  /** Does not follow a link at the end; `null` when nothing is there. */
  stat(path: string): Promise<FileStat | null>;
  /**
   * Opens a regular file; refuses links (O_NOFOLLOW), devices and pipes with `storage-denied`. `null` when nothing is there.
   * The caller closes it.
   */
  open(path: string): Promise<ReadableFile | null>;
  /** A whole small file; `null` when nothing is there. Rejects with `format-refused` when it is larger than `mostBytes`. */
  readSmall(path: string, mostBytes: number): Promise<Uint8Array | null>;
  /** All links resolved; `null` when nothing is there. */
  realPath(path: string): Promise<string | null>;
  /** Of the filesystem that holds `path` (or its nearest existing parent). */
  space(path: string): Promise<{ readonly totalBytes: number; readonly freeBytes: number; readonly freeInodes: number }>;
}

/** A file being written. It was created by us and nobody else may have it. */
export interface WritableFile {
  /** Appends all of `bytes`. */
  write(bytes: Uint8Array): Promise<void>;
  setMode(mode: number): Promise<void>;
  /** fsync. A failure is final for this file: never retried, never ignored. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

export interface FileStore extends FileReader {
  /** O_CREAT | O_EXCL. Rejects with `storage-failed` and `hint` when the name is taken. */
  create(path: string, mode: number): Promise<WritableFile>;
  /** A second name for a file; resolves `false` when `to` is taken already. `unsupported` where the filesystem has no hard links. */
  link(from: string, to: string): Promise<boolean | 'unsupported'>;
  /** Replaces `to` if it is there. */
  rename(from: string, to: string): Promise<void>;
  /** No error when nothing is there. */
  unlink(path: string): Promise<void>;
  /** With parents; each directory that was made is synced into its parent. */
  makeDirectory(path: string): Promise<void>;
  /** fsync of a directory: makes names in it durable. */
  syncDirectory(path: string): Promise<void>;
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** From the first byte sent to the last byte read. */
  readonly timeoutMs: number;
  /** An answer longer than this is refused with `engine-protocol`. */
  readonly mostBytes: number;
  readonly signal?: AbortSignal;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

export interface Http {
  /** Resolves for every status. Rejects with `engine-unreachable`, `engine-timeout`, `engine-protocol` or `interrupted`. */
  request(request: HttpRequest): Promise<HttpResponse>;
  close(): Promise<void>;
}

/** A process as it can be told from another that got the same number later. */
export interface ProcessIdentity {
  readonly hostname: string;
  readonly bootId: string;
  readonly pid: number;
  /** Start time in clock ticks since boot (/proc/PID/stat field 22). */
  readonly startTicks: string;
  /**
   * Set only outside the machine's first process namespace, that is in a container: the namespace's number. Containers
   * share the boot id and may share the host name, but each counts its own pids. Keep it when a record keeps the rest.
   */
  readonly pidNamespace?: string | undefined;
}

/** A process that hangs in the kernel. */
export interface BlockedProcess {
  readonly pid: number;
  readonly command: string;
  /** What it holds below the folder that was asked about. */
  readonly path: string;
  /** The kernel function that it waits in (/proc/PID/wchan); null where that is not shown. */
  readonly waitsIn: string | null;
  /** Whether it has that open for writing; what does not say how it was opened counts. A process that only stands in a folder does not. */
  readonly mayWrite: boolean;
}

/** A lock that some process holds on a file. */
export interface FileLock {
  readonly kind: 'flock' | 'posix' | 'ofd' | 'lease';
  /** A shared lock is a reader's. */
  readonly exclusive: boolean;
  /** null where the kernel names nobody: a lock that belongs to an open file (OFD), or to another machine. */
  readonly pid: number | null;
  /** Empty where it is not shown. */
  readonly command: string;
  /** Of the file, as in `FileStat`. Filesystems that give stat(2) other numbers than they lock by (btrfs, overlay) are told by `MountFacts.device`. */
  readonly device: string;
  readonly inode: string;
  /** What the holder's own descriptor says; null where we may not look at it. */
  readonly path: string | null;
}

export interface MountFacts {
  readonly mountPoint: string;
  readonly filesystem: string;
  readonly source: string;
  readonly options: string;
  /** The filesystem's own number, in the form of `FileStat.device`. Absent where nothing tells. */
  readonly device?: string;
}

/** A fact is an observation or the reason why there is none; `unknown` is not `fine`. */
export type Fact<T> =
  | { readonly known: true; readonly value: T; readonly source: string }
  | { readonly known: false; readonly why: string };

export interface HostFacts {
  readonly hostname: string;
  readonly bootId: Fact<string>;
  readonly bootedAt: Fact<string>;
  /** When process 1 of this process namespace started: in a container that is its own start, not the machine's. Absent where nothing tells. */
  readonly initStartedAt?: Fact<string>;
  readonly memoryBytes: Fact<number>;
  /** `vm.dirty_*`, for the suspect window. */
  readonly dirty: Fact<{
    readonly expireCentisecs: number;
    readonly writebackCentisecs: number;
    readonly ratio: number;
    readonly bytes: number;
  }>;
  readonly platform: string;
  readonly node: string;
}

export interface Machine {
  facts(): Promise<HostFacts>;
  /** The mount under `path`. */
  mountOf(path: string): Promise<Fact<MountFacts>>;
  /** The mount that `path` should lie on after a boot (/etc/fstab); null where none is planned. Absent on machines that have no such plan. */
  plannedMount?(path: string): Promise<Fact<Pick<MountFacts, 'mountPoint' | 'source' | 'filesystem'> | null>>;
  self(): Promise<ProcessIdentity>;
  /** `unknown` for another host: no clock and no guess decides. A pid that was reused is `dead`. */
  isAlive(process: ProcessIdentity): Promise<'alive' | 'dead' | 'unknown'>;
  /** Processes that hold a file below `folder` open for writing (from /proc/PID/fd; only those we may see). */
  writersBelow(folder: string): Promise<Fact<readonly { readonly pid: number; readonly command: string; readonly path: string }[]>>;
  /**
   * Processes that stay in uninterruptible sleep (state D at two looks) and have something below `folder` open, or stand in it. SIGKILL
   * does nothing to them. Absent on machines that cannot tell.
   */
  blockedBelow?(folder: string): Promise<Fact<readonly BlockedProcess[]>>;
  /** Locks that other processes of this machine hold on files, wherever these lie. Absent on machines that cannot tell. */
  locks?(): Promise<Fact<readonly FileLock[]>>;
}

/**
 * Processes of our own that do what may hang for ever, so that it hangs there and the caller goes on without it. What they are
 * asked and what they say is between the caller and the helper's own program.
 */
export interface Helpers {
  /** Processors that this process may use. */
  readonly cores: number;
  start(): Helper;
}

export interface Helper {
  /** False once it was stopped, ended, or was silent for too long. */
  readonly alive: boolean;
  /**
   * One question at a time; resolves when it says that it is done. It is asked in plain data (structured clone).
   * Rejects with `storage-silent` after `silentMs` without a word: it is killed then and not waited for; with
   * `storage-failed` when it ended by itself; with the helper's own `TidemarkError` when it says that it failed.
   */
  ask(question: unknown, options: { readonly silentMs: number; readonly onWord: (word: unknown) => void }): Promise<void>;
  /** Kills it; resolves when it has ended, which one that hangs in the kernel does not. */
  stop(): Promise<void>;
}
