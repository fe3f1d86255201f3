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
}

export interface VerdictGroup {
  readonly verdict: VerdictKind;
  readonly reason: Reason;
  readonly ranges: readonly IndexRange[];
  readonly count: number;
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
  readonly rates: readonly { readonly perSecond: number; readonly source: string }[];
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
  readonly dataset: { readonly path: string; readonly rows: number; readonly identity: string } | null;
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
  } | null;
  readonly findings: readonly Finding[];
  readonly plan: Plan;
  /** SHA-256 over the sound rows' lines; equal folders of equal runs have equal digests. Only where every sound file's bytes were read. */
  readonly digest: string | null;
}
