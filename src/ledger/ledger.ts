import type { Digest128 } from '../core/identity.ts';
import type { IndexRange } from '../core/ranges.ts';
import type { RunIdentity, Settings } from '../core/settings.ts';
import type { RowTable } from '../format/row-table.ts';
import type { ProcessIdentity } from '../host/host.ts';

/** `run.json`. */
export interface RunRecord {
  readonly format: 'tidemark.run/1';
  readonly id: Digest128;
  readonly folderId: Digest128;
  readonly createdAt: string;
  readonly identity: RunIdentity;
}

export interface CommitRecord {
  readonly kind: 'commit' | 'adopt';
  readonly row: number;
  readonly identity: Digest128;
  readonly mask: Digest128;
  readonly bytes: number;
  /** CRC-32 of the whole file, as is each of `records` (the zip's own, in file order). */
  readonly crc32: number;
  readonly records: readonly number[];
  readonly tokens: number;
  readonly segment: string;
  readonly attempt: number;
  readonly at: number;
}

/** Why a row has no sample; each class has its own retry rule. */
export type FailureClass = 'engine-refused' | 'engine-lost' | 'bad-capture' | 'too-long' | 'bad-row' | 'storage';

export interface FailureRecord {
  readonly kind: 'failure';
  readonly row: number;
  readonly class: FailureClass;
  readonly message: string;
  readonly attempt: number;
  readonly final: boolean;
  readonly at: number;
}

export interface SetAsideRecord {
  readonly kind: 'set-aside';
  readonly row: number;
  readonly verdict: string;
  readonly reason: string;
  readonly to: string;
  readonly at: number;
}

export type RowRecord = CommitRecord | FailureRecord | SetAsideRecord;

export interface StartRecord {
  readonly kind: 'start';
  readonly at: number;
  readonly argv: readonly string[];
  /** Host facts, mounts and versions as plain JSON. */
  readonly facts: Readonly<Record<string, unknown>>;
}

export interface SegmentRecord {
  readonly kind: 'segment';
  readonly id: string;
  readonly at: number;
  /** The engine's own account of what may change the numbers. */
  readonly state: Readonly<Record<string, string>>;
}

export interface EndRecord {
  readonly kind: 'end';
  readonly at: number;
  readonly outcome: 'complete' | 'incomplete' | 'interrupted' | 'failed';
  readonly message: string;
}

/** Rows that the operator has given up: they count as done. */
export interface AcceptRecord {
  readonly kind: 'accept';
  readonly at: number;
  readonly ranges: readonly IndexRange[];
  readonly reason: string;
}

export type RunJournalRecord = StartRecord | SegmentRecord | EndRecord | AcceptRecord;

/** What is wrong with a journal; becomes a finding. A torn tail after a crash is normal and says nothing is lost. */
export interface JournalProblem {
  readonly path: string;
  readonly kind: 'torn-tail' | 'no-header' | 'fence-broken' | 'unknown-version' | 'unreadable';
  readonly detail: string;
}

/** One shard's last word on each of its rows. Memory: one shard at a time. */
export interface ShardState {
  readonly shard: number;
  readonly range: IndexRange;
  /** The highest lease ever taken; 0 when none was. */
  readonly lease: number;
  readonly rows: ReadonlyMap<number, RowRecord>;
  readonly problems: readonly JournalProblem[];
}

export interface Holder {
  readonly scope: string;
  readonly lease: number;
  readonly process: ProcessIdentity;
  readonly takenAt: string;
  readonly alive: 'alive' | 'dead' | 'unknown';
}

/** A lease that was never released and whose own file is gone or says nothing that checks: somebody may still write here. */
export interface LostHolder {
  readonly scope: string;
  readonly lease: number;
  readonly alive: 'unreadable';
}

/** What the folder remembers of its run; reads only. */
export interface LedgerReader {
  readonly run: RunRecord;
  /** null when settings.json is gone or cannot be used; `settingsProblem` says why. Only a new start needs it. */
  readonly settings: Settings | null;
  readonly settingsProblem: string | null;
  /** null when rows.bin is gone; `tableProblem` says why. */
  readonly table: RowTable | null;
  readonly tableProblem: string | null;
  readonly shardCount: number;
  shard(shard: number): Promise<ShardState>;
  /** All starts, segments, ends and acceptances, oldest first, with the lease that wrote them. */
  history(): Promise<{
    readonly records: readonly (RunJournalRecord & { readonly lease: number })[];
    readonly problems: readonly JournalProblem[];
  }>;
  /** Rows that `accept` records gave up, ascending and merged. A committed file of such a row counts all the same. */
  accepted(): Promise<readonly IndexRange[]>;
  /** The newest `run` lease unless it was released: alive, dead or unknown, or not readable, which is no better than unknown. */
  holder(): Promise<Holder | LostHolder | null>;
}

/** A journal that we hold the lease of. */
export interface JournalWriter {
  readonly scope: string;
  readonly lease: number;
  /** Resolves when the record is durable; waiting records share one fsync. Rejects for good after the first storage failure. */
  append(record: RowRecord | RunJournalRecord): Promise<void>;
  /** Writes `close` and lets go. */
  close(): Promise<void>;
}

/** The right to write to a run: the `run` lease from the start, a shard's lease when it is entered. */
export interface RunWriter {
  readonly run: RunRecord;
  readonly journal: JournalWriter;
  /** Takes the next lease of a shard and begins its journal. @throws TidemarkError `run-locked`, `run-unknown-holder` */
  shard(shard: number): Promise<JournalWriter>;
  /** Closes the run's journal in good order. */
  close(): Promise<void>;
}
