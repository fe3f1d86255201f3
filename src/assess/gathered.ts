import type { RowIdentity } from '../core/identity.ts';
import type { Extra } from '../core/report.ts';
import type { Level } from '../core/verdict.ts';
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
  readonly memoryBytes: Known<number>;
  readonly dirty: Known<{
    readonly expireCentisecs: number;
    readonly writebackCentisecs: number;
    readonly ratio: number;
    readonly bytes: number;
  }>;
  readonly mount: Known<{ readonly mountPoint: string; readonly filesystem: string; readonly source: string; readonly options: string }>;
  readonly space: Known<{ readonly totalBytes: number; readonly freeBytes: number }>;
}

export interface WriterSeen {
  readonly pid: number;
  readonly command: string;
  /** Relative to the folder. */
  readonly path: string;
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
  readonly holder: HolderSeen | null;
  readonly lastStart: StartSeen | null;
  /** The newest run's own last word; null when it left none. */
  readonly lastEnd: { readonly at: number; readonly outcome: string; readonly message: string } | null;
  readonly segments: readonly { readonly id: string; readonly state: Readonly<Record<string, string>> }[];
  readonly segmentRows: ReadonlyMap<string, readonly (readonly [number, number])[]>;
  readonly problems: readonly { readonly path: string; readonly kind: string; readonly detail: string }[];
  readonly tableProblem: string | null;
  /** Failures by class, rows ascending, of rows that have no file. */
  readonly failures: ReadonlyMap<string, { readonly rows: readonly number[]; readonly message: string; readonly final: number }>;
  /** Rows whose earlier file was set aside as poisoned and whose new one is poisoned again. */
  readonly poisonedTwice: readonly number[];
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
  readonly ledger: LedgerSeen | null;
}
