import { TidemarkError } from '../core/errors.ts';
import type { IndexRange } from '../core/ranges.ts';
import type { Level } from '../core/verdict.ts';
import type { RowTable } from '../format/row-table.ts';
import type { Clock, FileReader, Machine } from '../host/host.ts';
import type { LedgerReader } from '../ledger/ledger.ts';
import type { StoreReader } from '../store/store.ts';
import { NOTHING_SEEN, packFacts } from './facts.ts';
import { createGuard, type Guard } from './gather-guard.ts';
import { gatherBlocked, gatherHost, gatherWriters } from './gather-host.ts';
import { gatherLedger, LedgerNotes } from './gather-ledger.ts';
import { applyLengths } from './gather-lengths.ts';
import { gatherLocks } from './gather-locks.ts';
import { gatherExtras, gatherNames, type Names } from './gather-names.ts';
import { gatherNorms } from './gather-norms.ts';
import { type Prober, type ProbeTask, proberHere } from './gather-prober.ts';
import { revalidate } from './gather-revalidate.ts';
import { isCommit, ledgerWord, type RowReading, takeProbe } from './gather-rows.ts';
import { lookAgain } from './gather-second-look.ts';
import { gatherSystemLog, type SystemLogSeen } from './gather-system-log.ts';
import { applyTruncation, gatherTruncation } from './gather-truncation.ts';
import type { CountedRows, FolderSeen, Gathered, GivenLog, RowLookup, SecondLook } from './gathered.ts';
import type { NormMix } from './norm-mix.ts';
import { RowColumns } from './row-columns.ts';
import { mayBeOld } from './shared-mounts.ts';

export interface AssessDeps {
  readonly files: FileReader;
  readonly machine: Machine;
  readonly clock: Clock;
  readonly store: StoreReader;
  /** Who reads the sample files. Default: this process. */
  readonly prober?: Prober | null;
  readonly ledger: LedgerReader | null;
  /** The dataset that was given; without it the table that the folder keeps is used. */
  readonly dataset: {
    readonly path: string;
    readonly table: RowTable;
    /** The token ids of one row, read again: with it files cut at a common length are told from files of another row. */
    readonly readRow?: (row: number) => Promise<Uint32Array>;
  } | null;
}

export interface GatherOptions {
  readonly level: Level;
  /** A dataset whose rows can only be counted. */
  readonly counted?: CountedRows | null;
  /** Flags that commands on this folder need beside its name. Default: `--dataset`, where one was given and no run remembers it. */
  readonly told?: readonly string[];
  /** Files open at once. Default 32: more gains nothing on one disk and hurts a network mount. */
  readonly width?: number;
  /** The `run` lease that the caller holds itself, so that it does not take itself for another writer. */
  readonly ownLease?: number;
  readonly signal?: AbortSignal;
  /** Old logs of the driver or the server (gather-log.ts): rows named there count as failed where they have no file. */
  readonly logs?: readonly GivenLog[];
  /** Rows read so far, of those that have a file. */
  readonly onProgress?: (done: number, total: number) => void;
}

/** Rows whose files are read at a time where there is no journal, so that their names are not all held twice. */
const CHUNK_ROWS = 16_384;
const WIDTH = 32;
/** While something writes here, an unrecorded file younger than this may still be growing. */
const YOUNG_MS = 10 * 60_000;

/** A tree and what it takes to read more of it: the suspect files are read again, deeper, once they are known. */
export interface Gathering {
  readonly gathered: Gathered;
  deepen(numbers: readonly number[]): Promise<void>;
  /** Whether the last states of these rows are of one kind; `fileOf` gives a row's file number. */
  norms(rows: readonly number[], fileOf: (row: number) => number): Promise<NormMix | null>;
  /** Whether the newest files have changed since they were read; waits as long as `waitMs` says of the time that has passed. */
  lookAgain(waitMs: (passedMs: number) => number): Promise<SecondLook>;
  /** What the machine's logs say. */
  systemLog(): Promise<SystemLogSeen>;
  /** Lets go of the watch over hanging calls. */
  dispose(): void;
}

/** Looks at everything once, to the level asked. Writes nothing, and bounds every probe in time. */
export async function gather(deps: AssessDeps, options: GatherOptions): Promise<Gathering> {
  const guard = createGuard(deps.clock);
  try {
    return await gatherWith(deps, options, guard);
  } catch (error) {
    guard.dispose();
    throw error;
  }
}

async function gatherWith(deps: AssessDeps, options: GatherOptions, guard: Guard): Promise<Gathering> {
  const { store } = deps;
  const width = options.width ?? WIDTH;
  const nowMs = deps.clock.now();
  const host = await gatherHost(deps, guard);
  const writers = await gatherWriters(deps, guard);
  const blocked = await gatherBlocked(deps, guard);
  const isAccepted = memberOf(deps.ledger === null ? [] : await deps.ledger.accepted());
  const holder = deps.ledger === null ? null : await deps.ledger.holder();
  const names = await gatherNames({ files: deps.files, folder: store.folder, layout: store.layout, guard, signal: options.signal });
  if (names === null) {
    throw new TidemarkError('no-run', `there is no folder ${store.folder}`, { where: store.folder, hint: 'check the path' });
  }
  const locks = await gatherLocks(deps, guard, names, host.mount);
  const dataset = datasetOf(deps);
  const rows = rowsOf(deps, dataset?.table ?? null, options.counted ?? null, names);
  const columns = new RowColumns(rows.count);
  const present = new Uint8Array(rows.count);
  for (const row of names.present) if (row < rows.count) present[row] = 1;

  const hanging = blocked?.known === true ? blocked.value.filter((one) => one.mayWrite) : [];
  const held = [...(writers.known ? writers.value : []), ...(locks?.known === true ? locks.value : []), ...hanging];
  const alive = (holder?.alive === 'alive' && holder.lease !== options.ownLease) || held.length > 0;
  const openPaths = new Set(held.map((one) => one.path));
  const reading: RowReading = {
    table: dataset?.table ?? null,
    columns,
    isAccepted,
    mayBeOpen: (row, modifiedMs) => alive && (openPaths.has(store.layout.pathOf(row)) || nowMs - modifiedMs < YOUNG_MS),
  };
  const prober = deps.prober ?? proberHere(deps.files, store, guard, width);
  const closed = closedRows(deps, names, rows.count);
  const notes = new LedgerNotes();
  await readRows(deps, options, reading, { present, closed, prober, notes, total: names.present.length });
  const { signal } = options;
  const readAgain = async (some: readonly number[], level: Level): Promise<void> => {
    for (const [shard, rowsOfShard] of byShard(some, deps.ledger)) {
      const records = deps.ledger === null ? null : (await deps.ledger.shard(shard)).rows;
      const tasks = rowsOfShard.map((row) => ({ row, path: store.layout.pathOf(row) }));
      await prober.probe(tasks, level, { signal, onProbe: (row, probe) => takeProbe(reading, row, probe, records?.get(row)) });
    }
  };
  const place = { files: deps.files, folder: store.folder, layout: store.layout, guard, columns, present, width };
  const askedAgain = mayBeOld(host.mount)
    ? await revalidate({ ...place, signal, readAgain: (some) => readAgain(some, options.level) })
    : null;
  const firstLookMs = deps.clock.monotonicMs();
  const lengths = applyLengths(columns, dataset?.table ?? null);
  const truncation = await gatherTruncation(columns, dataset?.table ?? null, deps.dataset?.readRow ?? null);
  applyTruncation(columns, truncation);
  const { extras, leftOut } = await gatherExtras(names, {
    files: deps.files,
    folder: store.folder,
    layout: store.layout,
    guard,
    width,
    rows: rows.count,
    hasFile: (row) => present[row] === 1,
  });
  const ledger =
    deps.ledger === null
      ? null
      : await gatherLedger(deps.ledger, notes, { given: deps.dataset?.table ?? null, ownLease: options.ownLease ?? null });
  const { name, pattern, codec, groupSize } = store.layout;
  const gathered: Gathered = {
    folder: store.folder,
    nowMs,
    level: options.level,
    layout: { name, pattern, codec, groupSize },
    dataset,
    counted: options.counted ?? null,
    told: options.told ?? (deps.ledger !== null || deps.dataset === null ? [] : ['--dataset', deps.dataset.path]),
    rows,
    columns,
    folders: foldersOf(deps, rows.count, present),
    extras,
    extrasLeftOut: leftOut,
    linkedFolders: names.linkedFolders,
    unlisted: names.unlisted,
    temporaryRows: names.temporaryRows,
    host,
    writers,
    blocked,
    locks,
    secondLook: null,
    askedAgain,
    logs: options.logs ?? [],
    truncation,
    lengths,
    ledger,
  };
  return {
    gathered,
    dispose: () => guard.dispose(),
    deepen: async (deeper) => {
      await readAgain(deeper, 'content');
      applyLengths(columns, dataset?.table ?? null);
      applyTruncation(columns, truncation);
    },
    lookAgain: async (waitMs) => {
      const ms = waitMs(deps.clock.monotonicMs() - firstLookMs);
      if (ms > 0) await deps.clock.sleep(ms, options.signal);
      const temporaries = new Map(extras.filter((extra) => extra.kind === 'temp').map(({ path, bytes }) => [path, bytes]));
      return lookAgain({ ...place, clock: deps.clock, names, temporaries, firstLookMs });
    },
    norms: (some, fileOf) => gatherNorms({ store, guard, width, rows: some, fileOf }),
    systemLog: () => gatherSystemLog(deps.files, guard),
  };
}

interface Pass {
  readonly present: Uint8Array;
  /** Rows whose folder could not be listed, with the reason. */
  readonly closed: ReadonlyMap<number, Names['unlisted'][number]>;
  readonly prober: Prober;
  readonly notes: LedgerNotes;
  readonly total: number;
}

/** All rows, shard by shard where there is a ledger: one shard's records and a few dozen files are in memory at a time. */
async function readRows(deps: AssessDeps, options: GatherOptions, reading: RowReading, pass: Pass): Promise<void> {
  const { columns } = reading;
  const { present } = pass;
  const size = deps.ledger?.run.identity.shardRows ?? CHUNK_ROWS;
  let done = 0;
  let before: Promise<void> = Promise.resolve();
  for (let from = 0; from < columns.rows; from += size) {
    const to = Math.min(columns.rows, from + size);
    const state = deps.ledger === null ? null : await deps.ledger.shard(from / size);
    const work: ProbeTask[] = [];
    for (let row = from; row < to; row += 1) {
      const record = state?.rows.get(row);
      const closed = pass.closed.get(row);
      // When a file was adopted says nothing about the pace at which samples are made.
      if (record?.kind === 'commit') columns.committedMs[row] = record.at;
      // A committed row that was not listed is looked at by name: its file may have come after the listing.
      if (present[row] === 1 || (record !== undefined && isCommit(record))) work.push({ row, path: deps.store.layout.pathOf(row) });
      else if (closed !== undefined) {
        // Not listed is not missing: extracting these rows again could write over good files.
        columns.facts[row] = packFacts({ ...NOTHING_SEEN, ledger: ledgerWord(reading, row, record), file: 'yes', readable: 'no' });
        columns.setNote(row, closed.reason, closed.why);
      } else columns.facts[row] = packFacts({ ...NOTHING_SEEN, ledger: ledgerWord(reading, row, record) });
    }
    const probing = pass.prober.probe(work, options.level, {
      signal: options.signal,
      onProbe: (row, probe) => {
        takeProbe(reading, row, probe, state?.rows.get(row));
        if (columns.modifiedMs[row] !== 0) present[row] = 1;
        done += 1;
        options.onProgress?.(done, pass.total);
      },
    });
    // One shard's files are read while the records of the next are; the shards' notes are taken in order.
    const ready = before;
    before = (async () => {
      await Promise.all([probing, ready]);
      if (state !== null) pass.notes.add(state, (row) => columns.modifiedMs[row] !== 0, reading.isAccepted);
      options.onProgress?.(done, pass.total);
    })();
    before.catch(() => undefined);
    await ready;
  }
  await before;
}

/** So that one shard's records are in memory at a time; without a ledger there is nothing to hold and one group. */
function byShard(rows: readonly number[], ledger: LedgerReader | null): Map<number, number[]> {
  const shards = new Map<number, number[]>();
  for (const row of rows) {
    const shard = ledger === null ? 0 : Math.floor(row / ledger.run.identity.shardRows);
    const group = shards.get(shard);
    if (group === undefined) shards.set(shard, [row]);
    else group.push(row);
  }
  return shards;
}

/** The rows of folders that could not be listed. */
function closedRows(deps: AssessDeps, names: Names, rows: number): Pass['closed'] {
  const closed = new Map<number, Names['unlisted'][number]>();
  const why = new Map(names.unlisted.map((folder) => [folder.path, folder]));
  for (let row = 0; row < rows && why.size > 0; ) {
    const { path, range } = deps.store.layout.folderOf(row);
    const to = Math.min(rows, Math.max(row + 1, range[1]));
    const reason = why.get(path);
    if (reason !== undefined) for (let at = row; at < to; at += 1) closed.set(at, reason);
    row = to;
  }
  return closed;
}

function datasetOf(deps: AssessDeps): { path: string; table: RowLookup } | null {
  if (deps.dataset !== null) return deps.dataset;
  const table = deps.ledger?.table ?? null;
  return table === null ? null : { path: deps.ledger?.settings?.dataset.path ?? `${deps.store.folder}/.tidemark/rows.bin`, table };
}

function rowsOf(deps: AssessDeps, table: RowLookup | null, counted: CountedRows | null, names: Names): Gathered['rows'] {
  if (counted !== null && table === null) return { count: counted.rows, source: 'dataset' };
  if (table !== null) return { count: table.rows, source: deps.dataset !== null ? 'dataset' : 'rows.bin' };
  if (deps.ledger !== null) return { count: deps.ledger.run.identity.dataset.rows, source: 'run.json' };
  // One stray name with a huge number must not cost memory for every row before it.
  const most = 1_000_000 + 64 * names.present.length;
  let count = 0;
  for (const row of names.present) if (row < most && row >= count) count = row + 1;
  return { count, source: 'highest file' };
}

function foldersOf(deps: AssessDeps, rows: number, present: Uint8Array): FolderSeen[] {
  const folders: FolderSeen[] = [];
  for (let row = 0; row < rows; ) {
    const { path, range } = deps.store.layout.folderOf(row);
    const to = Math.min(rows, Math.max(row + 1, range[1]));
    let files = 0;
    for (let at = row; at < to; at += 1) files += present[at] ?? 0;
    folders.push({ path, from: row, to, files });
    row = to;
  }
  return folders;
}

/** Membership in ascending, merged ranges, by halving. */
function memberOf(ranges: readonly IndexRange[]): (row: number) => boolean {
  return (row) => {
    let [low, high] = [0, ranges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((ranges[middle]?.[1] ?? 0) <= row) low = middle + 1;
      else high = middle;
    }
    return (ranges[low]?.[0] ?? Number.POSITIVE_INFINITY) <= row;
  };
}
