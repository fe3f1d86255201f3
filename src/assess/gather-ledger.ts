import { mergeRanges } from '../core/ranges.ts';
import type { RowTable } from '../format/row-table.ts';
import type { LedgerReader, ShardState } from '../ledger/ledger.ts';
import type { HolderSeen, LedgerSeen, LostHolderSeen, StartSeen } from './gathered.ts';

const DIFFERENCES_MOST = 20;
/** Failed rows are listed by index up to here, for each class. */
const FAILED_ROWS_MOST = 100_000;

interface FailureClassSeen {
  rows: number[];
  message: string;
  final: number;
}

/** What the journals say beyond the one word per row: collected shard by shard, so that one shard at a time is in memory. */
export class LedgerNotes {
  readonly problems: { path: string; kind: string; detail: string }[] = [];
  readonly failures = new Map<string, FailureClassSeen>();
  readonly poisonedAgain: number[] = [];
  readonly #segments = new Map<string, [number, number][]>();

  /** @param isAccepted rows that the operator gave up: their failures are no news any more */
  add(state: ShardState, hasFile: (row: number) => boolean, isAccepted: (row: number) => boolean): void {
    this.problems.push(...state.problems);
    for (const [row, record] of [...state.rows].sort((a, b) => a[0] - b[0])) {
      switch (record.kind) {
        case 'commit':
        case 'adopt':
          this.#addSegment(record.segment, row);
          break;
        case 'failure': {
          if (hasFile(row) || isAccepted(row)) break;
          const seen = this.failures.get(record.class) ?? { rows: [], message: record.message, final: 0 };
          if (seen.rows.length < FAILED_ROWS_MOST) seen.rows.push(row);
          if (record.final) seen.final += 1;
          this.failures.set(record.class, seen);
          break;
        }
        case 'set-aside':
          if (record.verdict === 'poisoned' && hasFile(row) && !isAccepted(row)) this.poisonedAgain.push(row);
      }
    }
  }

  get segmentRows(): ReadonlyMap<string, readonly (readonly [number, number])[]> {
    return new Map([...this.#segments].map(([id, ranges]) => [id, mergeRanges(ranges)]));
  }

  #addSegment(id: string, row: number): void {
    const ranges = this.#segments.get(id) ?? [];
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === row) last[1] = row + 1;
    else ranges.push([row, row + 1]);
    this.#segments.set(id, ranges);
  }
}

/** @param ownLease the `run` lease that the caller holds itself: its own start is no news */
export async function gatherLedger(
  ledger: LedgerReader,
  notes: LedgerNotes,
  options: { readonly given: RowTable | null; readonly ownLease: number | null },
): Promise<LedgerSeen> {
  const { records, problems } = await ledger.history();
  // The caller's own start is no news to it, until it has ended: then it is the last that happened here.
  const ended = records.some((record) => record.lease === options.ownLease && record.kind === 'end');
  const others = ended ? records : records.filter((record) => record.lease !== options.ownLease);
  const start = others.findLast((record) => record.kind === 'start');
  const end = others.findLast((record) => record.kind === 'end');
  const holder = await ledger.holder();
  const settings = ledger.settings;
  return {
    runId: ledger.run.id,
    createdAt: ledger.run.createdAt,
    concurrency: settings === null ? null : settings.engine.inFlight * Math.max(1, settings.engine.urls.length),
    reserveBytes: settings?.limits.reserveBytes ?? 0,
    datasetPath: settings?.dataset.path ?? null,
    shardRows: ledger.run.identity.shardRows,
    holder: holder === null || holder.lease === options.ownLease ? null : holderSeen(holder),
    lastStart: start?.kind === 'start' ? startSeen(start) : null,
    lastEnd:
      end?.kind === 'end' && (start === undefined || end.lease >= start.lease)
        ? { at: end.at, outcome: end.outcome, message: end.message }
        : null,
    segments: [...new Map(records.filter((record) => record.kind === 'segment').map((record) => [record.id, record.state]))].map(
      ([id, state]) => ({ id, state }),
    ),
    segmentRows: notes.segmentRows,
    problems: [...problems, ...notes.problems],
    tableProblem: ledger.tableProblem,
    settingsProblem: ledger.settingsProblem,
    failures: notes.failures,
    accepted: await ledger.accepted(),
    acceptances: records.flatMap((record) =>
      record.kind === 'accept' ? [{ at: record.at, ranges: record.ranges, reason: record.reason }] : [],
    ),
    poisonedTwice: notes.poisonedAgain,
    datasetChange: changeOf(ledger, options.given),
  };
}

function holderSeen(holder: NonNullable<Awaited<ReturnType<LedgerReader['holder']>>>): HolderSeen | LostHolderSeen {
  if (holder.alive === 'unreadable') return { lease: holder.lease, alive: holder.alive };
  return {
    hostname: holder.process.hostname,
    pid: holder.process.pid,
    since: holder.takenAt,
    lease: holder.lease,
    alive: holder.alive,
  };
}

function changeOf(ledger: LedgerReader, given: RowTable | null): LedgerSeen['datasetChange'] {
  if (given === null) return null;
  const { rows, root } = ledger.table ?? ledger.run.identity.dataset;
  if (given.rows === rows && given.root === root) return null;
  const grown = given.rows > rows && given.rootOfFirst(rows) === root;
  const firstDifferences = grown || ledger.table === null ? [] : given.differences(ledger.table, DIFFERENCES_MOST);
  return { rowsThen: rows, rowsNow: given.rows, grown, firstDifferences };
}

/** A start's facts are plain JSON of an older version, perhaps: what is not there or of another form is unknown. */
function startSeen(start: { readonly at: number; readonly lease: number; readonly facts: Readonly<Record<string, unknown>> }): StartSeen {
  const host = field(start.facts, 'host');
  const mount = field(field(field(start.facts, 'mounts'), 'output'), 'value');
  return {
    at: start.at,
    lease: start.lease,
    hostname: text(field(host, 'hostname')),
    bootId: text(field(field(host, 'bootId'), 'value')),
    mountSource: text(field(mount, 'source')),
    filesystem: text(field(mount, 'filesystem')),
  };
}

function field(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>)[key] : undefined;
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
