import type { Finding } from './finding.ts';
import type { IndexRange } from './ranges.ts';
import type { Level, Reason, VerdictKind } from './verdict.ts';

/** A number with where it comes from: a report never prints one without the other. */
export interface Sourced<T> {
  readonly value: T;
  /** `listing`, `ledger`, `checksum`, `boot log`, `inference: …` */
  readonly source: string;
}

export interface FolderAccount {
  readonly path: string;
  readonly from: number;
  readonly to: number;
  readonly files: number;
  readonly counts: Readonly<Record<VerdictKind, number>>;
}

export interface Extra {
  readonly path: string;
  readonly kind:
    | 'temp'
    | 'lock'
    | 'backup'
    | 'off-pattern'
    | 'beyond-dataset'
    | 'wrong-folder'
    | 'duplicate'
    | 'lost+found'
    | 'empty-folder'
    | 'quarantine'
    | 'other';
  readonly bytes: number;
  /** What the disk gives back when it is removed: holes count for nothing, nor does a file that has another name. */
  readonly reclaimableBytes: number;
}

export interface VerdictGroup {
  readonly verdict: VerdictKind;
  readonly reason: Reason;
  readonly ranges: readonly IndexRange[];
  readonly count: number;
  /** Drifted groups only: `[from, to, row]` says that the files of rows `from` to `to - 1` hold the rows from `row` on. */
  readonly holds?: readonly (readonly [number, number, number])[];
}

/** A pace of the run, for the time that is left. */
export interface Rate {
  /** Samples a second. */
  readonly perSecond: number;
  /** Tokens a second, where the tokens of the files that it was taken from are known: long rows take longer. */
  readonly tokensPerSecond?: number;
  readonly source: string;
}

/** The files' times as a pace. */
export interface Pace {
  /** Samples a second while files were coming; null where pauses cannot be told from the pace. */
  readonly plateau: number | null;
  /** Samples a second from the first file to the last, pauses included. */
  readonly whole: number | null;
  /** The longest pauses, longest first; `stallCount` and `stalledSeconds` count all of them. */
  readonly stalls: readonly { readonly from: string; readonly to: string }[];
  readonly stallCount: number;
  readonly stalledSeconds: number;
  readonly source: string;
}

/** How the numbers of the files go with the rows where the one is not the other: every verdict is by content then. */
export interface Placement {
  /** `round-robin`: the rows were dealt to ranks in turn, and each rank numbered its own. `permuted`: no rule was found. */
  readonly kind: 'round-robin' | 'permuted';
  readonly ranks: number | null;
  /** File number at which each rank's block begins; null where a rank has no file. */
  readonly starts: readonly (number | null)[];
  /** Rows a batch, where dropped tails tell. */
  readonly batch: number | null;
  /** `[from, to, row, step]`: file number `from + i` holds row `row + i * step`. At most 10,000 entries; `holdsLeftOut` counts the rest. */
  readonly holds: readonly (readonly [number, number, number, number])[];
  readonly holdsLeftOut: number;
  /** File numbers whose row is not in this dataset, or cannot be told. */
  readonly strangers: readonly IndexRange[];
  /** File numbers that hold a row which another file holds, too. */
  readonly copies: readonly IndexRange[];
}

/** A line of the machine's own logs that speaks of trouble with storage or memory. */
export interface LogEvent {
  /** null where the line has no time that could be read. */
  readonly at: string | null;
  readonly kind: 'io-error' | 'filesystem' | 'blocked-task' | 'out-of-memory' | 'no-space' | 'network-storage';
  readonly text: string;
  readonly source: string;
}

export interface PlanStep {
  readonly what: 'set-aside' | 'extract' | 'verify' | 'decide' | 'adopt';
  readonly text: string;
  readonly ranges: readonly IndexRange[];
  readonly count: number;
}

export interface PlanExtract {
  readonly ranges: readonly IndexRange[];
  readonly count: number;
  /** null where no dataset tells. */
  readonly tokens: number | null;
  readonly bytes: number | null;
  /** `[least, most]`, or null where no rate is known; `rates` says what it was computed from. */
  readonly seconds: readonly [number, number] | null;
  /** `seconds` of each: by tokens where the rate has them and the rows' tokens are known, by samples otherwise. */
  readonly rates: readonly (Rate & { readonly seconds: number })[];
}

export interface Plan {
  readonly steps: readonly PlanStep[];
  readonly extract: PlanExtract;
  /** Finding codes that must be settled by a person first. */
  readonly blockers: readonly string[];
}

/** `tidemark assess --json`, version 1. Index ranges are half-open, sizes bytes, times ISO 8601 in UTC. */
export interface Report {
  readonly schema: 'tidemark.report/1';
  readonly folder: string;
  readonly assessedAt: string;
  readonly level: Level;
  /** Ranges that were checked deeper than `level`. */
  readonly levels: readonly { readonly level: Level; readonly ranges: readonly IndexRange[] }[];
  /** Rows whose bytes are not yet proved although they may have been lost. */
  readonly suspect: readonly IndexRange[];
  readonly layout: { readonly name: string; readonly pattern: string; readonly codec: string; readonly groupSize: number };
  /** `identity` is null where the rows were counted and not compared: conversations, and no tokenizer to turn them into ids. */
  /** Files that were not read again, because they look as they did when they were; `since` is the time of the oldest such look. null where all were read. */
  readonly remembered: { readonly files: number; readonly since: string } | null;
  readonly dataset: { readonly path: string; readonly rows: number; readonly identity: string | null } | null;
  /** Flags that a command on this folder needs beside its name: a run of ours remembers them, any other tree has to be told. */
  readonly told: readonly string[];
  readonly run: { readonly id: string; readonly createdAt: string } | null;
  readonly totals: Readonly<Record<VerdictKind, number>> & { readonly rows: number; readonly files: number; readonly bytes: number };
  readonly missing: Readonly<Record<Reason<'missing'>, number>>;
  readonly verdicts: readonly VerdictGroup[];
  readonly next: number;
  readonly frontiers: readonly { readonly from: number; readonly to: number; readonly next: number }[];
  readonly folders: readonly FolderAccount[];
  readonly extras: readonly Extra[];
  readonly running: { readonly process: string; readonly host: string; readonly since: string } | null;
  readonly segments: readonly {
    readonly id: string;
    readonly ranges: readonly IndexRange[];
    readonly state: Readonly<Record<string, string>>;
  }[];
  readonly crash: {
    readonly lastWrite: Sourced<string> | null;
    readonly bootedAt: Sourced<string> | null;
    readonly cause: Sourced<string> | null;
    readonly suspectWindow: Sourced<{ readonly from: string; readonly to: string }> | null;
    /** When the container's first process started, where that is another moment than the boot. */
    readonly containerStartedAt: Sourced<string> | null;
    /** Trouble in the machine's logs around the end, oldest first, and what of the logs was not read, and why. */
    readonly logEvents: readonly LogEvent[];
    readonly logsNotRead: readonly { readonly path: string; readonly why: string }[];
  } | null;
  /** Free space of the volume under the folder; null where the machine would not say. */
  readonly space: Sourced<{ readonly totalBytes: number; readonly freeBytes: number }> | null;
  /** null where there are fewer than three files or their times are not those of a run. */
  readonly pace: Pace | null;
  /** null where file numbers are row numbers, as they should be. */
  readonly placement: Placement | null;
  readonly findings: readonly Finding[];
  readonly plan: Plan;
  /** SHA-256 over the sound rows' lines; equal folders of equal runs have equal digests. Only where every sound file's bytes were read. */
  readonly digest: string | null;
}
