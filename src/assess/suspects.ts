import { formatBytes } from '../core/units.ts';
import type { HostSeen } from './gathered.ts';
import { DEPTH, type RowColumns } from './row-columns.ts';

export interface SuspectWindow {
  readonly fromMs: number;
  readonly toMs: number;
  /** More than this cannot have been dirty: the kernel makes writers wait first. */
  readonly bytesMost: number;
  /** The formula with its inputs. */
  readonly source: string;
}

/** What Linux has where nobody set anything. */
const DEFAULT_DIRTY = { expireCentisecs: 3000, writebackCentisecs: 500, ratio: 20, bytes: 0 };
const DEFAULT_MEMORY_BYTES = 2 ** 40;

/**
 * Files whose bytes may have been in the page cache only when the machine stopped. Dirty pages are written once they are
 * `dirty_expire` old, by a thread that wakes every `dirty_writeback`, so what is older than the one plus two of the
 * other had its turn as long as the storage answered; and no more than the dirty limit can have been waiting. The machine
 * stopped at the last write or later, so counting from the last write can only name too many files. Where the storage fell silent
 * shortly before the end, nothing was written back since then: the count begins at that silence.
 */
export function suspectWindow(
  lastWriteMs: number,
  host: HostSeen,
  stall: { readonly fromMs: number; readonly toMs: number } | null = null,
): SuspectWindow {
  const dirty = host.dirty.known ? host.dirty.value : DEFAULT_DIRTY;
  const memoryBytes = host.memoryBytes.known ? host.memoryBytes.value : DEFAULT_MEMORY_BYTES;
  const bytesMost = dirty.bytes > 0 ? dirty.bytes : (memoryBytes * dirty.ratio) / 100;
  const windowMs = (dirty.expireCentisecs + 2 * dirty.writebackCentisecs) * 10;
  const limit =
    dirty.bytes > 0
      ? `vm.dirty_bytes ${formatBytes(dirty.bytes)}`
      : `vm.dirty_ratio ${dirty.ratio} % of ${host.memoryBytes.known ? formatBytes(memoryBytes) : 'unknown memory'}`;
  const silence =
    stall === null
      ? 'before the last write'
      : `before the storage fell silent at ${iso(stall.fromMs)} (for ${Math.round((stall.toMs - stall.fromMs) / 1000)} s, the longest gap among the last files)`;
  const origin = host.dirty.known ? `${host.dirty.source} of this machine` : `Linux defaults: ${host.dirty.why}`;
  return {
    fromMs: (stall === null ? lastWriteMs : Math.min(lastWriteMs, stall.fromMs)) - windowMs,
    toMs: lastWriteMs,
    bytesMost,
    source:
      `inference: vm.dirty_expire ${dirty.expireCentisecs / 100} s + 2 x vm.dirty_writeback ${dirty.writebackCentisecs / 100} s ${silence}, ` +
      `at most ${formatBytes(bytesMost)} (${limit}); ${origin}`,
  };
}

/** Sparse files are odd only where most are not: a compressing filesystem makes all of them small. */
const ODD_SHARE_MOST = 0.1;
const ODD_LEAST_BYTES = 8192;

export interface SuspectRules {
  readonly window: SuspectWindow | null;
  /** Why every file is suspect, or null. `recorded`: also those that a journal committed. */
  readonly wholeTree: { readonly why: string; readonly recorded: boolean } | null;
  /** Rows that the assessment holds sound so far. */
  readonly isSound: (row: number) => boolean;
}

/** Sound rows whose bytes are not proved although they may have been lost, ascending. */
export function suspectRows(columns: RowColumns, rules: SuspectRules): number[] {
  const odd = oddRows(columns, rules.isSound);
  const { window, wholeTree } = rules;
  const candidates: number[] = [];
  for (let row = 0; row < columns.rows; row += 1) {
    if (!rules.isSound(row) || isProved(columns, row)) continue;
    const recorded = columns.committedMs[row] !== 0;
    if (wholeTree !== null && (wholeTree.recorded || !recorded)) candidates.push(row);
    else if (odd.has(row)) candidates.push(row);
    else if (!recorded && window !== null && (columns.modifiedMs[row] ?? 0) >= window.fromMs) candidates.push(row);
  }
  return wholeTree !== null || window === null ? candidates : cutToBytes(columns, candidates, window.bytesMost, odd);
}

/** Newest first until the dirty limit is reached; what is older was on disk before. */
function cutToBytes(columns: RowColumns, rows: readonly number[], bytesMost: number, odd: ReadonlySet<number>): number[] {
  const newest = [...rows].sort((a, b) => (columns.modifiedMs[b] ?? 0) - (columns.modifiedMs[a] ?? 0));
  const kept: number[] = [];
  let bytes = 0;
  for (const row of newest) {
    if (bytes <= bytesMost || odd.has(row)) kept.push(row);
    bytes += columns.bytes[row] ?? 0;
  }
  return kept.sort((a, b) => a - b);
}

function oddRows(columns: RowColumns, isSound: (row: number) => boolean): Set<number> {
  const odd = new Set<number>();
  let files = 0;
  for (let row = 0; row < columns.rows; row += 1) {
    if (!isSound(row)) continue;
    files += 1;
    if ((columns.allocated[row] ?? 0) + ODD_LEAST_BYTES < (columns.bytes[row] ?? 0)) odd.add(row);
  }
  return odd.size <= files * ODD_SHARE_MOST ? odd : new Set();
}

/** Every byte was read and either its checksum or its values stand for it. */
export function isProved(columns: RowColumns, row: number): boolean {
  const depth = columns.depth[row] ?? 0;
  if ((depth & DEPTH.values) !== 0) return true;
  return (depth & DEPTH.bytes) !== 0 && (depth & DEPTH.unprovable) === 0;
}

function iso(ms: number): string {
  return new Date(Math.round(ms)).toISOString();
}
