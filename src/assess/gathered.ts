import type { RowIdentity } from '../core/identity.ts';
import type { IndexRange } from '../core/ranges.ts';
import type { Extra } from '../core/report.ts';
import type { Level } from '../core/verdict.ts';
import type { LogErrors } from './log-errors.ts';
import type { Placed } from './placement.ts';
import type { RowColumns } from './row-columns.ts';

/** An observation with its source, or the reason why there is none. */
export type Known<T> =
  | { readonly known: true; readonly value: T; readonly source: string }
  | { readonly known: false; readonly why: string };

/** The rows as the assessment needs them: the dataset's table, or the one the folder keeps. */
export interface RowLookup {
  readonly rows: number;
  readonly root: string;
  at(index: number): RowIdentity | null;
  /** Of a row without a sample: whether the limit on tokens left it out, and nothing is wrong with it. */
  isDropped(index: number): boolean;
}

/** A dataset that cannot be compared with files. */
export interface CountedRows {
  readonly path: string;
  readonly rows: number;
  readonly why: string;
}

export interface FolderSeen {
  readonly path: string;
  readonly from: number;
  readonly to: number;
  readonly files: number;
}

export interface HostSeen {
  readonly hostname: string;
  readonly bootId: Known<string>;
  readonly bootedAt: Known<string>;
  /** When the machine's first process started; null where the host does not tell. Later than the boot in a container. */
  readonly initStartedAt: Known<string> | null;
  readonly memoryBytes: Known<number>;
  readonly dirty: Known<{
    readonly expireCentisecs: number;
    readonly writebackCentisecs: number;
    readonly ratio: number;
    readonly bytes: number;
  }>;
  readonly mount: Known<{
    readonly mountPoint: string;
    readonly filesystem: string;
    readonly source: string;
    readonly options: string;
    readonly device?: string;
  }>;
  /** The mount that the folder should lie on after a boot; null where the machine has no such plan. */
  readonly planned: Known<{ readonly mountPoint: string; readonly filesystem: string; readonly source: string } | null> | null;
  readonly space: Known<{ readonly totalBytes: number; readonly freeBytes: number }>;
}

export interface WriterSeen {
  readonly pid: number;
  readonly command: string;
  /** Relative to the folder. */
  readonly path: string;
}

/** A process in uninterruptible sleep that has something of the folder open. */
export interface BlockedSeen {
  readonly pid: number;
  readonly command: string;
  /** What it holds, relative to the folder; `''` for the folder itself. */
  readonly path: string;
  /** The kernel function that it waits in, where that is shown. */
  readonly waitsIn: string | null;
  /** Whether it holds that for writing, as far as can be told. */
  readonly mayWrite: boolean;
}

/** An exclusive lock that a process holds on something of the folder. */
export interface LockSeen {
  readonly kind: 'flock' | 'posix' | 'ofd' | 'lease';
  /** null where the kernel names nobody. */
  readonly pid: number | null;
  readonly command: string;
  /** Relative to the folder. */
  readonly path: string;
}

/** What was different when the newest files were looked at a second time: nobody needs to be seen for that. */
export interface SecondLook {
  /** Between the first look and the second. */
  readonly passedMs: number;
  readonly filesLooked: number;
  /** Rows whose file has another size or time. */
  readonly grown: readonly number[];
  /** Rows that have a file now. */
  readonly added: readonly number[];
  /** Relative paths of what is no row's file: temporaries that are new or have another size. */
  readonly others: readonly string[];
}

/** What a mount that keeps names and sizes for a while was asked a second time. */
export interface AskedAgain {
  readonly folders: number;
  readonly files: number;
  /** Rows whose file was not there, or broken, at first. */
  readonly appeared: number;
  readonly mended: number;
  /** What the limits left out, in words; null where nothing was. */
  readonly leftOut: string | null;
}

/** A log that the operator gave, and what it says of rows. */
export interface GivenLog extends LogErrors {
  readonly path: string;
  /** Bytes at the end that were not read. */
  readonly bytesLeftOut: number;
}

/** Files cut at one common length: the writer's limit on tokens, and no damage. */
export interface Truncation {
  /** Tokens that every cut file holds. */
  readonly tokens: number;
  /** Rows whose file's ids were compared with the row's first `tokens` ids and are the same. */
  readonly proved: readonly IndexRange[];
  /** Rows cut at the same length that were not compared: there are too many, or no way to read the row. */
  readonly unproved: readonly IndexRange[];
  /** Why none was compared; null where they were. */
  readonly why: string | null;
}

/** A tree whose files carry no token ids: how many are as long as their row, longer, or those of another row as far as lengths tell. */
export interface LengthsSeen {
  readonly files: number;
  readonly equal: number;
  readonly longer: number;
  readonly others: number;
}

/** The newest `run` lease was never released, and its file says nothing that checks. */
export interface LostHolderSeen {
  readonly lease: number;
  readonly alive: 'unreadable';
}

export interface HolderSeen {
  readonly hostname: string;
  readonly pid: number;
  readonly since: string;
  readonly lease: number;
  readonly alive: 'alive' | 'dead' | 'unknown';
}

export interface StartSeen {
  readonly at: number;
  readonly lease: number;
  readonly hostname: string | null;
  readonly bootId: string | null;
  readonly mountSource: string | null;
  readonly filesystem: string | null;
}

export interface LedgerSeen {
  readonly runId: string;
  readonly createdAt: string;
  /** Requests in flight at most; null where the settings are gone. */
  readonly concurrency: number | null;
  readonly reserveBytes: number;
  readonly datasetPath: string | null;
  readonly shardRows: number;
  readonly holder: HolderSeen | LostHolderSeen | null;
  readonly lastStart: StartSeen | null;
  /** The newest run's own last word; null when it left none. */
  readonly lastEnd: { readonly at: number; readonly outcome: string; readonly message: string } | null;
  readonly segments: readonly { readonly id: string; readonly state: Readonly<Record<string, string>> }[];
  readonly segmentRows: ReadonlyMap<string, readonly (readonly [number, number])[]>;
  readonly problems: readonly { readonly path: string; readonly kind: string; readonly detail: string }[];
  readonly tableProblem: string | null;
  readonly settingsProblem: string | null;
  /** Failures by class, rows ascending, of rows that have no file. */
  readonly failures: ReadonlyMap<string, { readonly rows: readonly number[]; readonly message: string; readonly final: number }>;
  /** Rows whose earlier file was set aside as poisoned and whose new one is poisoned again. */
  readonly poisonedTwice: readonly number[];
  /** Rows that the operator gave up, and the records that say so. */
  readonly accepted: readonly IndexRange[];
  readonly acceptances: readonly { readonly at: number; readonly ranges: readonly IndexRange[]; readonly reason: string }[];
  /** How the dataset given differs from the one the folder keeps; null when it does not or one is absent. */
  readonly datasetChange: {
    readonly rowsThen: number;
    readonly rowsNow: number;
    readonly grown: boolean;
    readonly firstDifferences: readonly number[];
  } | null;
}

/** Everything that was seen, before anything is concluded. */
export interface Gathered {
  readonly folder: string;
  readonly nowMs: number;
  readonly level: Level;
  readonly layout: { readonly name: string; readonly pattern: string; readonly codec: string; readonly groupSize: number };
  readonly dataset: { readonly path: string; readonly table: RowLookup } | null;
  /** A dataset whose rows were counted only, and why; null where it was read, or none was given. */
  readonly counted: CountedRows | null;
  /** Flags that commands on this folder need beside its name. */
  readonly told: readonly string[];
  /** How many rows there are, and how that is known; without a dataset only as far as files reach. */
  readonly rows: { readonly count: number; readonly source: 'dataset' | 'rows.bin' | 'run.json' | 'highest file' };
  readonly columns: RowColumns;
  readonly folders: readonly FolderSeen[];
  readonly extras: readonly Extra[];
  /** Extras beyond the listed ones. */
  readonly extrasLeftOut: number;
  readonly linkedFolders: readonly string[];
  /** Folders that could not be listed, with the reason. */
  readonly unlisted: readonly { readonly path: string; readonly why: string }[];
  /** Temporaries under our own naming, by row. */
  readonly temporaryRows: ReadonlySet<number>;
  readonly host: HostSeen;
  readonly writers: Known<readonly WriterSeen[]>;
  /** null where the machine has no way to tell. */
  readonly blocked: Known<readonly BlockedSeen[]> | null;
  /** null where the machine has no way to tell. */
  readonly locks: Known<readonly LockSeen[]> | null;
  /** null where nothing was looked at again. */
  readonly secondLook: SecondLook | null;
  /** null where the mount keeps nothing that could be old. */
  readonly askedAgain: AskedAgain | null;
  readonly logs: readonly GivenLog[];
  readonly truncation: Truncation | null;
  /** null where files carry ids, as they should. */
  readonly lengths: LengthsSeen | null;
  /** Set where the files' numbers are no row numbers: `columns` are by content then. */
  readonly placed?: Placed;
  readonly ledger: LedgerSeen | null;
}
