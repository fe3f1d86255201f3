import { identityOf, strippedLength } from '../core/identity.ts';
import { type Level, levelAtLeast } from '../core/verdict.ts';
import type { Damage } from '../format/tensors.ts';
import type { FileReader, FileStat } from '../host/host.ts';
import type { CommitRecord, RowRecord } from '../ledger/ledger.ts';
import type { StoredSample, StoreReader } from '../store/store.ts';
import { NOTHING_SEEN, packFacts, type RowFacts } from './facts.ts';
import { type Guard, refusalOf } from './gather-guard.ts';
import { tokensWithoutIds } from './gather-lengths.ts';
import { scanValues } from './gather-values.ts';
import type { RowLookup } from './gathered.ts';
import { DEPTH, type Note, type RowColumns } from './row-columns.ts';

/** One file's structure and ids. */
const OPEN_LIMIT_MS = 30_000;
/** Every byte of one file is allowed to come as slowly as this. */
const SLOWEST_BYTES_PER_MS = 4096;

export interface RowReading {
  readonly files: FileReader;
  readonly store: StoreReader;
  readonly guard: Guard;
  readonly table: RowLookup | null;
  readonly columns: RowColumns;
  /** Rows whose file a live process may be writing now. */
  readonly mayBeOpen: (row: number, modifiedMs: number) => boolean;
  /** Rows that the operator gave up. */
  readonly isAccepted: (row: number) => boolean;
}

type Writable = { -readonly [K in keyof RowFacts]: RowFacts[K] };

/** Everything a level asks of one row, into the columns. Only what the machine refuses becomes a fact; other trouble is thrown. */
export async function readRow(reading: RowReading, row: number, level: Level, record: RowRecord | undefined): Promise<void> {
  const facts: Writable = { ...NOTHING_SEEN, ledger: ledgerWord(reading, row, record) };
  const seen = { note: 'none' as Note, detail: null as string | null };
  const { columns, guard, files, store } = reading;
  columns.depth[row] = 0;
  columns.otherIds.delete(row);
  try {
    const path = `${store.folder}/${store.layout.pathOf(row)}`;
    const commit = record !== undefined && isCommit(record) ? record : null;
    // What is opened says itself what it is: only a level that opens nothing looks at the name.
    const opens = levelAtLeast(level, 'structure');
    const opened = opens ? await guard.run(`opening ${path}`, OPEN_LIMIT_MS, () => store.open(row)) : null;
    const stat = opens ? (opened?.stat ?? null) : await guard.run(`looking at ${path}`, OPEN_LIMIT_MS, () => files.stat(path));
    if (stat !== null) {
      takeStat(reading, row, stat, facts);
      if (stat.kind === 'file' && stat.bytes === 0) {
        facts.whole = 'no';
        note(seen, 'empty', 'the file is there and empty');
      } else if (opened !== null && !opened.ok) {
        takeDamage(opened.damage, commit, facts, seen);
      } else if (opened !== null) {
        const limitMs = OPEN_LIMIT_MS + (levelAtLeast(level, 'checksum') ? stat.bytes / SLOWEST_BYTES_PER_MS : 0);
        await guard.run(`reading ${path}`, limitMs, () => readSample(reading, row, level, commit, opened.sample, facts, seen));
      }
      if (commit !== null && commit.bytes !== stat.bytes && facts.checksum !== 'differs') {
        facts.checksum = 'differs';
        if (facts.whole !== 'no') note(seen, 'checksum', `it has ${stat.bytes} bytes, the journal recorded ${commit.bytes}`);
      }
    }
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === null) throw error;
    if (facts.file === 'no') {
      facts.file = 'yes';
      // What may not be opened may still be looked at; a mount that does not answer is not asked again.
      const stat =
        refusal.reason === 'permission' ? await files.stat(`${store.folder}/${store.layout.pathOf(row)}`).catch(() => null) : null;
      if (stat !== null) takeStat(reading, row, stat, facts);
    }
    facts.readable = 'no';
    note(seen, refusal.reason, refusal.detail);
  }
  // A committed file counts whatever was said of its row; once it is gone the operator's word does.
  if ((facts.file as RowFacts['file']) === 'no' && reading.isAccepted(row)) facts.ledger = 'accepted';
  columns.facts[row] = packFacts(facts);
  columns.setNote(row, seen.note, seen.detail);
}

interface Seen {
  note: Note;
  detail: string | null;
}

function takeStat(reading: RowReading, row: number, stat: FileStat, facts: Writable): void {
  const { columns } = reading;
  columns.bytes[row] = stat.bytes;
  columns.modifiedMs[row] = stat.modifiedMs;
  columns.allocated[row] = stat.allocatedBytes;
  facts.file = reading.mayBeOpen(row, stat.modifiedMs) ? 'open' : 'yes';
}

async function readSample(
  reading: RowReading,
  row: number,
  level: Level,
  commit: CommitRecord | null,
  sample: StoredSample,
  facts: Writable,
  seen: Seen,
): Promise<void> {
  try {
    facts.readable = 'yes';
    facts.whole = 'yes';
    if (!sample.provable) reading.columns.depth[row] = (reading.columns.depth[row] ?? 0) | DEPTH.unprovable;
    readShape(reading, row, sample, facts, seen);
    if (commit !== null && !recordsAgree(sample, commit)) {
      facts.checksum = 'differs';
      note(seen, 'checksum', 'its checksums are not those that the journal recorded');
    }
    if (levelAtLeast(level, 'identity')) await readIds(reading, row, sample, commit, facts, seen);
    if (levelAtLeast(level, 'checksum') && facts.whole === 'yes') await readBytes(reading, row, sample, commit, facts, seen);
    if (level === 'content' && facts.whole === 'yes' && facts.checksum !== 'differs') await readValues(reading, row, sample, facts, seen);
  } finally {
    await sample.close();
  }
}

function readShape(reading: RowReading, row: number, sample: StoredSample, facts: Writable, seen: Seen): void {
  const { layout } = reading.store;
  // The row's own length is left out: a file of another row has another length, which is drift and not the engine's fault.
  // Only the ids tell the two apart, and below the identity level they are not read.
  const misfit = layout.misfit(sample.tensors, { tokens: null, width: null, auxiliaryLayers: null });
  facts.shape = misfit === null ? 'fits' : 'misfit';
  if (misfit !== null) {
    note(seen, 'shape', misfit);
    const tokens = tokensWithoutIds(layout, sample.tensors);
    if (tokens === null) return;
    reading.columns.depth[row] = (reading.columns.depth[row] ?? 0) | DEPTH.noIds;
    reading.columns.fileTokens[row] = tokens;
  }
  const parts = layout.stateTensors.map((name) => {
    const tensor = sample.tensors.get(name);
    return tensor === undefined ? `${name} -` : `${name} ${tensor.dtype} rank ${tensor.shape.length} x${tensor.shape.at(-1) ?? 0}`;
  });
  reading.columns.shapeOf[row] = reading.columns.shapeNumber(parts.join(', '));
}

async function readIds(
  reading: RowReading,
  row: number,
  sample: StoredSample,
  commit: CommitRecord | null,
  facts: Writable,
  seen: Seen,
): Promise<void> {
  const read = await sample.readIds();
  if (!read.ok) {
    // A file whose shapes are wrong may well lack readable ids; the shape says it better.
    if (read.damage.kind === 'torn' && facts.shape === 'misfit') return;
    takeDamage(read.damage, commit, facts, seen);
    return;
  }
  const { inputIds, lossMask } = read.value;
  reading.columns.fileTokens[row] = inputIds.length;
  const wanted = reading.table === null ? null : reading.table.at(row);
  if (reading.table === null && commit === null) {
    facts.ids = 'unknown';
    return;
  }
  const identity = identityOf(inputIds);
  if (identity === (wanted?.identity ?? (reading.table === null ? commit?.identity : undefined))) {
    facts.ids = 'match';
    return;
  }
  // SpecForge pads a row to the longest of its batch: id 0 under mask 0 behind the row's own ids is no damage.
  const length = lossMask === null ? inputIds.length : strippedLength(inputIds, lossMask);
  const stripped = length === inputIds.length ? identity : identityOf(inputIds.subarray(0, length));
  if (wanted !== null && stripped === wanted.stripped && inputIds.length >= wanted.tokens) {
    facts.ids = 'match';
    return;
  }
  facts.ids = 'differ';
  reading.columns.otherIds.set(row, stripped);
  const tokens = wanted === null ? 'a row without a sample' : `a row of ${wanted.tokens}`;
  if (facts.shape !== 'misfit' || wanted !== null) note(seen, 'none', `it holds ${length} token ids that are not its row's (${tokens})`);
}

async function readBytes(
  reading: RowReading,
  row: number,
  sample: StoredSample,
  commit: CommitRecord | null,
  facts: Writable,
  seen: Seen,
): Promise<void> {
  const checked = await sample.checkBytes();
  if (!checked.ok) {
    takeDamage(checked.damage, commit, facts, seen);
    return;
  }
  reading.columns.crc32[row] = checked.crc32;
  reading.columns.depth[row] = (reading.columns.depth[row] ?? 0) | DEPTH.bytes;
  if (facts.checksum === 'differs') return;
  if (commit !== null && commit.crc32 !== checked.crc32) {
    facts.checksum = 'differs';
    note(seen, 'checksum', `its CRC-32 is ${hex(checked.crc32)}, the journal recorded ${hex(commit.crc32)}`);
  } else {
    facts.checksum = commit !== null || sample.provable ? 'holds' : 'unprovable';
  }
}

async function readValues(reading: RowReading, row: number, sample: StoredSample, facts: Writable, seen: Seen): Promise<void> {
  // In the order of the file: an inflated one cannot be read backwards.
  const place = (name: string): number => sample.tensors.get(name)?.fileOffset ?? 0;
  const values = await scanValues(
    sample,
    [...reading.store.layout.stateTensors].sort((a, b) => place(a) - place(b)),
  );
  switch (values.kind) {
    case 'good':
      facts.values = 'good';
      break;
    case 'unknown':
      return;
    case 'bad':
      facts.values = 'bad';
      if (facts.ids !== 'differ') note(seen, values.reason, values.detail);
      break;
    case 'zero-pages':
      if (facts.checksum === 'holds') {
        // The writer summed these zeros itself: they were computed, not lost.
        facts.values = 'bad';
        if (facts.ids !== 'differ') note(seen, 'zero', values.detail);
      } else {
        facts.whole = 'no';
        note(seen, 'zero-filled', values.detail);
      }
  }
  reading.columns.depth[row] = (reading.columns.depth[row] ?? 0) | DEPTH.values;
}

/** The records' own CRCs are in the directory: comparing them with the journal's costs no further read. */
function recordsAgree(sample: StoredSample, commit: CommitRecord): boolean {
  return commit.records.length === sample.records.length && commit.records.every((crc, at) => crc === sample.records[at]?.crc32);
}

function takeDamage(damage: Damage, commit: CommitRecord | null, facts: Writable, seen: Seen): void {
  switch (damage.kind) {
    case 'torn':
      facts.readable = 'yes';
      facts.whole = 'no';
      break;
    case 'corrupt':
      facts.readable = 'yes';
      facts.whole = 'yes';
      facts.checksum = 'differs';
      break;
    case 'refused':
      if (commit !== null) {
        // What a journal vouches for was whole and harmless when it was written: this is another file under its name.
        facts.readable = 'yes';
        facts.whole = 'yes';
        facts.checksum = 'differs';
        note(seen, 'checksum', `it is not the file that was committed: ${damage.detail}`);
        return;
      }
      facts.readable = 'no';
      note(seen, 'permission', `tidemark refuses to read it: ${damage.detail}`);
      return;
  }
  const known: readonly string[] = ['empty', 'truncated', 'zero-filled', 'structure', 'trailing-bytes', 'checksum'];
  note(seen, known.includes(damage.reason) ? (damage.reason as Note) : 'structure', damage.detail);
}

export function ledgerWord(
  reading: Pick<RowReading, 'table' | 'isAccepted'>,
  row: number,
  record: RowRecord | undefined,
): RowFacts['ledger'] {
  const { table } = reading;
  // A row that its own run's limit left out was given up by whoever set the limit; a malformed one was given up by nobody.
  if (table !== null && table.at(row) === null && !reading.isAccepted(row)) return table.isDropped(row) ? 'accepted' : 'failed';
  if (reading.isAccepted(row) && (record === undefined || !isCommit(record))) return 'accepted';
  switch (record?.kind) {
    case undefined:
      return 'none';
    case 'commit':
    case 'adopt':
      return 'committed';
    case 'failure':
      return record.final ? 'failed' : 'tried';
    case 'set-aside':
      return 'set-aside';
  }
}

export function isCommit(record: RowRecord): record is CommitRecord {
  return record.kind === 'commit' || record.kind === 'adopt';
}

function note(seen: Seen, word: Note, detail: string): void {
  seen.note = word;
  seen.detail = detail;
}

function hex(value: number): string {
  return value.toString(16).padStart(8, '0');
}
