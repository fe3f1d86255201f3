import { formatRanges, rangesOf } from '../core/ranges.ts';
import { formatCount, formatSeconds } from '../core/units.ts';
import { packFacts, unpackFacts } from './facts.ts';
import type { Gathered, LockSeen } from './gathered.ts';
import type { RowColumns } from './row-columns.ts';
import { sharedMount } from './shared-mounts.ts';

/** One reason to take the folder for one that is being written to. */
export interface RunningSign {
  readonly process: string;
  readonly host: string;
  readonly since: string;
  /** Where it was seen, and what. */
  readonly evidence: string;
}

const NAMED_MOST = 4;

/** What says that something writes here now, the surest first: the lease's holder, descriptors, locks, processes that hang, files that change. */
export function runningSigns(gathered: Gathered): RunningSign[] {
  return [...holder(gathered), ...descriptors(gathered), ...locks(gathered), ...hanging(gathered), ...changes(gathered)];
}

export function isRunning(gathered: Gathered): boolean {
  return runningSigns(gathered).length > 0;
}

function holder({ ledger }: Gathered): RunningSign[] {
  const held = ledger?.holder;
  if (held?.alive !== 'alive') return [];
  const evidence = `leases/run.${held.lease}: pid ${held.pid} on ${held.hostname} since ${held.since}, and that process lives`;
  return [{ process: `pid ${held.pid}`, host: held.hostname, since: held.since, evidence }];
}

function descriptors({ writers, ...gathered }: Gathered): RunningSign[] {
  if (!writers.known) return [];
  const named = writers.value.map((writer) => `pid ${writer.pid} (${writer.command || 'unnamed'}) has ${writer.path} open`);
  return local(gathered, writers.value[0], `${writers.source}: ${some(named)}`);
}

function locks({ locks: seen, ...gathered }: Gathered): RunningSign[] {
  if (seen === null || !seen.known) return [];
  const named = seen.value.map((lock) => `${whoLocks(lock)} holds ${lock.path} locked (${lock.kind}, exclusive)`);
  return local(gathered, seen.value[0], `${seen.source}: ${some(named)}`);
}

function whoLocks(lock: LockSeen): string {
  return lock.pid === null ? 'somebody whom the kernel does not name' : `pid ${lock.pid} (${lock.command || 'unnamed'})`;
}

function hanging({ blocked, ...gathered }: Gathered): RunningSign[] {
  if (blocked === null || !blocked.known) return [];
  const writing = blocked.value.filter((one) => one.mayWrite);
  const named = writing.map((one) => `pid ${one.pid} (${one.command}) hangs in uninterruptible I/O with ${one.path || 'the folder'} open`);
  return local(gathered, writing[0], `${blocked.source}: ${some(named)}`);
}

/** A process of this machine. Since when is not told by a descriptor or a lock: it was so when we looked. */
function local(
  { host, nowMs }: Pick<Gathered, 'host' | 'nowMs'>,
  first: { readonly pid: number | null; readonly command: string } | undefined,
  evidence: string,
): RunningSign[] {
  if (first === undefined) return [];
  const process = first.pid === null ? 'a process that the kernel does not name' : `pid ${first.pid} ${first.command}`.trim();
  return [{ process, host: host.hostname, since: iso(nowMs), evidence }];
}

function changes({ secondLook: look, nowMs }: Gathered): RunningSign[] {
  if (look === null) return [];
  const parts = [
    look.grown.length === 0
      ? ''
      : `${count(look.grown.length, 'file has', 'files have')} another size or time (${formatRanges(rangesOf(look.grown), 4)})`,
    look.added.length === 0
      ? ''
      : `${count(look.added.length, 'row has', 'rows have')} a file now (${formatRanges(rangesOf(look.added), 4)})`,
    look.others.length === 0 ? '' : `new or grown beside them: ${some(look.others)}`,
  ].filter((part) => part !== '');
  if (parts.length === 0) return [];
  const evidence = `two looks, ${formatSeconds(look.passedMs / 1000)} apart: ${parts.join('; ')}`;
  return [{ process: 'a writer that is not seen here', host: 'unknown: perhaps another machine', since: iso(nowMs), evidence }];
}

function some(named: readonly string[]): string {
  const more = named.length > NAMED_MOST ? `; and ${named.length - NAMED_MOST} more` : '';
  return named.slice(0, NAMED_MOST).join('; ') + more;
}

function count(number: number, one: string, many: string): string {
  return `${formatCount(number)} ${number === 1 ? one : many}`;
}

/** Files of a run that is alive and has been so for a while are not younger than this against its newest one. */
const YOUNG_MS = 10 * 60_000;

/**
 * Marks the files that whoever runs may still be writing: those that changed, and those not much older than the newest of all. The
 * files' times are compared with each other, because the clock of a file server need not be ours.
 */
export function markOpenFiles(columns: RowColumns, changed: readonly number[]): void {
  const newestMs = columns.modifiedMs.reduce((most, ms) => Math.max(most, ms), 0);
  const open = new Set(changed);
  for (let row = 0; row < columns.rows; row += 1) {
    const facts = unpackFacts(columns.facts[row] ?? 0);
    const young = (columns.modifiedMs[row] ?? 0) >= newestMs - YOUNG_MS;
    if (facts.file === 'yes' && (young || open.has(row))) columns.facts[row] = packFacts({ ...facts, file: 'open' });
  }
}

/** A file this young by our clock is worth a moment's wait between the two looks. */
const FRESH_MS = 30_000;
const WAIT_LEAST_MS = 1000;
const WAIT_MOST_MS = 5000;

/**
 * How long to wait before the second look: nothing where the newest file is old or somebody is known to write. Our clock is used for no more
 * than this: where it is wrong, the looks are as far apart as the assessment took.
 */
export function waitBeforeSecondLook(facts: {
  readonly lastMs: number;
  readonly nowMs: number;
  readonly usualGapMs: number;
  readonly passedMs: number;
}): number {
  if (Math.abs(facts.nowMs - facts.lastMs) > FRESH_MS) return 0;
  const apartMs = Math.min(WAIT_MOST_MS, Math.max(WAIT_LEAST_MS, 2 * facts.usualGapMs));
  return Math.max(0, apartMs - facts.passedMs);
}

const RECENT_MS = 10 * 60_000;

/** Files that came lately on a volume that other machines may write to, where nobody is seen: why that is not known to be the end. Null elsewhere. */
export function unseenWriter(gathered: Gathered, lastMs: number): { readonly ago: string; readonly evidence: string } | null {
  const { mount } = gathered.host;
  const shared = mount.known ? sharedMount(mount.value) : null;
  const agoMs = gathered.nowMs - lastMs;
  if (shared === null || isRunning(gathered) || Math.abs(agoMs) > RECENT_MS) return null;
  const look = gathered.secondLook;
  const looks =
    look === null
      ? 'the files were looked at once'
      : `${formatCount(look.filesLooked)} files were looked at twice, ${formatSeconds(look.passedMs / 1000)} apart, and did not change`;
  const ago = agoMs >= 0 ? `${formatSeconds(agoMs / 1000)} ago` : `${formatSeconds(-agoMs / 1000)} ahead of this machine\u2019s clock`;
  return { ago, evidence: `${shared.filesystem}, which other machines may write to; ${looks}` };
}

function iso(ms: number): string {
  return new Date(Math.round(ms)).toISOString();
}
