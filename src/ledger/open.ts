import { isTidemarkError, messageOf } from '../core/errors.ts';
import { type IndexRange, mergeRanges } from '../core/ranges.ts';
import type { Settings } from '../core/settings.ts';
import { parseDocument } from '../format/checked-document.ts';
import { isOtherTableVersion, RowTable } from '../format/row-table.ts';
import type { FileReader, Machine } from '../host/host.ts';
import { readScope, type ScopeRecords } from './journal.ts';
import { listLeases, readHolder } from './lease.ts';
import type { Holder, JournalProblem, LedgerReader, LostHolder, RowRecord, RunJournalRecord, RunRecord, ShardState } from './ledger.ts';
import { memoryPath, type Scope, shardScope } from './paths.ts';
import { parseRowRecord, parseRunRecord } from './records.ts';
import { readRunRecord } from './run-record.ts';

/** 64 bytes a row: a hundred million rows. */
const MOST_TABLE_BYTES = 64 * 100_000_000;
const MOST_SETTINGS_BYTES = 1024 * 1024;

export interface OpenLedgerOptions {
  /** Checks `settings.json`; throws a `TidemarkError` that names the field. */
  readonly parseSettings: (value: unknown, where: string) => Settings;
}

/** What a folder remembers; null when it is no run of ours. Reads only. */
export async function openLedger(
  host: { readonly files: FileReader; readonly machine: Machine },
  folder: string,
  options: OpenLedgerOptions,
): Promise<LedgerReader | null> {
  const run = await readRunRecord(host.files, folder);
  if (run === null) return null;
  const { settings, problem: settingsProblem } = await readSettings(host.files, folder, options);
  const { table, problem } = await readTable(host.files, folder);
  const { leases, problem: leasesProblem } = await readLeases(host.files, folder);
  return new FolderLedger(host, folder, { run, settings, settingsProblem, table, tableProblem: problem, leases, leasesProblem });
}

interface LedgerParts {
  readonly run: RunRecord;
  readonly settings: Settings | null;
  readonly settingsProblem: string | null;
  readonly table: RowTable | null;
  readonly tableProblem: string | null;
  readonly leases: ReadonlyMap<Scope, readonly number[]>;
  readonly leasesProblem: JournalProblem | null;
}

class FolderLedger implements LedgerReader {
  readonly run: RunRecord;
  readonly settings: Settings | null;
  readonly settingsProblem: string | null;
  readonly table: RowTable | null;
  readonly tableProblem: string | null;
  readonly shardCount: number;
  readonly #host: { readonly files: FileReader; readonly machine: Machine };
  readonly #folder: string;
  readonly #leases: ReadonlyMap<Scope, readonly number[]>;
  readonly #leasesProblem: JournalProblem | null;

  constructor(host: { readonly files: FileReader; readonly machine: Machine }, folder: string, parts: LedgerParts) {
    this.#host = host;
    this.#folder = folder;
    this.run = parts.run;
    this.settings = parts.settings;
    this.settingsProblem = parts.settingsProblem;
    this.table = parts.table;
    this.tableProblem = parts.tableProblem;
    this.#leases = parts.leases;
    this.#leasesProblem = parts.leasesProblem;
    this.shardCount = Math.ceil((this.table?.rows ?? this.run.identity.dataset.rows) / this.run.identity.shardRows);
  }

  async shard(shard: number): Promise<ShardState> {
    const scope = shardScope(shard);
    const { records, problems } = await this.#scope(scope);
    const rows = new Map<number, RowRecord>();
    const range = shardRange(this.run, this.table, shard);
    for (const { record } of records) {
      const parsed = parseRowRecord(record);
      if (parsed !== null && parsed.row >= range[0] && parsed.row < range[1]) rows.set(parsed.row, parsed);
    }
    return { shard, range, lease: this.#leases.get(scope)?.at(-1) ?? 0, rows, problems };
  }

  async history(): Promise<{ records: (RunJournalRecord & { lease: number })[]; problems: ScopeRecords['problems'] }> {
    const { records, problems } = await this.#scope('run');
    const parsed: (RunJournalRecord & { lease: number })[] = [];
    for (const { lease, record } of records) {
      const known = parseRunRecord(record);
      if (known !== null) parsed.push({ ...known, lease });
    }
    return { records: parsed, problems: this.#leasesProblem === null ? problems : [this.#leasesProblem, ...problems] };
  }

  async accepted(): Promise<readonly IndexRange[]> {
    const { records } = await this.history();
    return mergeRanges(records.flatMap((record) => (record.kind === 'accept' ? record.ranges : [])));
  }

  async holder(): Promise<Holder | LostHolder | null> {
    const newest = this.#leases.get('run')?.at(-1);
    if (newest === undefined) return null;
    const { closed } = await this.#scope('run');
    if (closed) return null;
    return (await readHolder(this.#host, this.#folder, 'run', newest)) ?? { scope: 'run', lease: newest, alive: 'unreadable' };
  }

  #scope(scope: Scope): Promise<ScopeRecords> {
    return readScope(this.#host.files, this.#folder, this.run.id, scope, this.#leases.get(scope) ?? []);
  }
}

/** Shards are ranges of rows; the last one ends with the dataset. */
export function shardRange(run: RunRecord, table: RowTable | null, shard: number): IndexRange {
  const rows = table?.rows ?? run.identity.dataset.rows;
  const size = run.identity.shardRows;
  return [shard * size, Math.min(rows, (shard + 1) * size)];
}

async function readSettings(
  files: FileReader,
  folder: string,
  options: OpenLedgerOptions,
): Promise<{ settings: Settings | null; problem: string | null }> {
  const path = memoryPath(folder, 'settings.json');
  try {
    const bytes = await files.readSmall(path, MOST_SETTINGS_BYTES);
    if (bytes === null) return { settings: null, problem: `${path} is not there` };
    const document = parseDocument(bytes);
    if (!document.ok) return { settings: null, problem: `the settings ${path} cannot be used: ${document.why}` };
    return { settings: options.parseSettings(document.value, path), problem: null };
  } catch (error) {
    if (!isTidemarkError(error)) throw error;
    return { settings: null, problem: messageOf(error) };
  }
}

/** Folders of `.tidemark/` that may not be listed hide leases: a survey goes on and says so, a start is refused. */
async function readLeases(
  files: FileReader,
  folder: string,
): Promise<{ leases: ReadonlyMap<Scope, readonly number[]>; problem: JournalProblem | null }> {
  try {
    return { leases: await listLeases(files, folder), problem: null };
  } catch (error) {
    if (!isTidemarkError(error)) throw error;
    return { leases: new Map(), problem: { path: memoryPath(folder), kind: 'unreadable', detail: messageOf(error) } };
  }
}

async function readTable(files: FileReader, folder: string): Promise<{ table: RowTable | null; problem: string | null }> {
  const path = memoryPath(folder, 'rows.bin');
  try {
    const bytes = await files.readSmall(path, MOST_TABLE_BYTES);
    return bytes === null ? { table: null, problem: `${path} is not there` } : { table: RowTable.decode(bytes, path), problem: null };
  } catch (error) {
    // A table of another version is somebody's newer truth: it is never written over.
    if (!isTidemarkError(error) || isOtherTableVersion(error)) throw error;
    return { table: null, problem: messageOf(error) };
  }
}
