import type { Damage } from '../format/tensors.ts';
import type { CommitRecord, RowRecord } from '../ledger/ledger.ts';
import { NOTHING_SEEN, packFacts, type RowFacts } from './facts.ts';
import { type FileProbe, type IdsProbe, type ProbeStat, recordsCrc32, type SampleProbe } from './gather-probe.ts';
import type { ValuesSeen } from './gather-values.ts';
import type { RowLookup } from './gathered.ts';
import { DEPTH, type Note, type RowColumns } from './row-columns.ts';

export interface RowReading {
  readonly table: RowLookup | null;
  readonly columns: RowColumns;
  /** Rows whose file a live process may be writing now. */
  readonly mayBeOpen: (row: number, modifiedMs: number) => boolean;
  /** Rows that the operator gave up. */
  readonly isAccepted: (row: number) => boolean;
}

type Writable = { -readonly [K in keyof RowFacts]: RowFacts[K] };

interface Seen {
  note: Note;
  detail: string | null;
}

/** What a row's file says of itself, held against its row and its journal record: the row's facts, into the columns. */
export function takeProbe(reading: RowReading, row: number, probe: FileProbe, record: RowRecord | undefined): void {
  const { columns } = reading;
  const facts: Writable = { ...NOTHING_SEEN, ledger: ledgerWord(reading, row, record) };
  const seen: Seen = { note: 'none', detail: null };
  const commit = record !== undefined && isCommit(record) ? record : null;
  const { stat, sample } = probe;
  columns.depth[row] = 0;
  columns.otherIds.delete(row);
  if (stat !== null) takeStat(reading, row, stat, facts);
  if (stat?.kind === 'file' && stat.bytes === 0) {
    facts.whole = 'no';
    note(seen, 'empty', 'the file is there and empty');
  } else if (probe.damage !== null) takeDamage(probe.damage, commit, facts, seen);
  else if (sample !== null) takeSample(reading, row, sample, commit, facts, seen);
  if (commit !== null && stat !== null && probe.refusal === null && commit.bytes !== stat.bytes && facts.checksum !== 'differs') {
    facts.checksum = 'differs';
    if (facts.whole !== 'no') note(seen, 'checksum', `it has ${stat.bytes} bytes, the journal recorded ${commit.bytes}`);
  }
  if (probe.refusal !== null) {
    if (stat === null) facts.file = 'yes';
    facts.readable = 'no';
    note(seen, probe.refusal.reason, probe.refusal.detail);
  }
  // A committed file counts whatever was said of its row; once it is gone the operator's word does.
  if (facts.file === 'no' && reading.isAccepted(row)) facts.ledger = 'accepted';
  columns.facts[row] = packFacts(facts);
  columns.setNote(row, seen.note, seen.detail);
}

function takeStat(reading: RowReading, row: number, stat: ProbeStat, facts: Writable): void {
  const { columns } = reading;
  columns.bytes[row] = stat.bytes;
  columns.modifiedMs[row] = stat.modifiedMs;
  columns.allocated[row] = stat.allocatedBytes;
  facts.file = reading.mayBeOpen(row, stat.modifiedMs) ? 'open' : 'yes';
}

function takeSample(reading: RowReading, row: number, sample: SampleProbe, commit: CommitRecord | null, facts: Writable, seen: Seen): void {
  facts.readable = 'yes';
  facts.whole = 'yes';
  if (!sample.provable) mark(reading, row, DEPTH.unprovable);
  takeShape(reading, row, sample, facts, seen);
  if (commit !== null && !recordsAgree(sample, commit)) {
    facts.checksum = 'differs';
    note(seen, 'checksum', 'its checksums are not those that the journal recorded');
  }
  if (sample.ids !== null) takeIds(reading, row, sample.ids, commit, facts, seen);
  if (sample.bytes !== null && facts.whole === 'yes') takeBytes(reading, row, sample, commit, facts, seen);
  if (sample.values !== null && facts.whole === 'yes' && facts.checksum !== 'differs') takeValues(reading, row, sample.values, facts, seen);
}

function takeShape(reading: RowReading, row: number, sample: SampleProbe, facts: Writable, seen: Seen): void {
  facts.shape = sample.misfit === null ? 'fits' : 'misfit';
  if (sample.misfit !== null) {
    note(seen, 'shape', sample.misfit);
    if (sample.tokensWithoutIds === null) return;
    mark(reading, row, DEPTH.noIds);
    reading.columns.fileTokens[row] = sample.tokensWithoutIds;
  }
  reading.columns.shapeOf[row] = reading.columns.shapeNumber(sample.shape);
}

function takeIds(reading: RowReading, row: number, ids: IdsProbe, commit: CommitRecord | null, facts: Writable, seen: Seen): void {
  if ('damage' in ids) {
    // A file whose shapes are wrong may well lack readable ids; the shape says it better.
    if (ids.damage.kind === 'torn' && facts.shape === 'misfit') return;
    takeDamage(ids.damage, commit, facts, seen);
    return;
  }
  reading.columns.fileTokens[row] = ids.tokens;
  const wanted = reading.table === null ? null : reading.table.at(row);
  if (reading.table === null && commit === null) {
    facts.ids = 'unknown';
    return;
  }
  if (ids.identity === (wanted?.identity ?? (reading.table === null ? commit?.identity : undefined))) {
    facts.ids = 'match';
    return;
  }
  if (wanted !== null && ids.stripped === wanted.stripped && ids.tokens >= wanted.tokens) {
    facts.ids = 'match';
    return;
  }
  facts.ids = 'differ';
  reading.columns.otherIds.set(row, ids.stripped);
  const tokens = wanted === null ? 'a row without a sample' : `a row of ${wanted.tokens}`;
  if (facts.shape !== 'misfit' || wanted !== null)
    note(seen, 'none', `it holds ${ids.strippedTokens} token ids that are not its row's (${tokens})`);
}

function takeBytes(reading: RowReading, row: number, sample: SampleProbe, commit: CommitRecord | null, facts: Writable, seen: Seen): void {
  const { bytes } = sample;
  if (bytes === null) return;
  if ('damage' in bytes) {
    takeDamage(bytes.damage, commit, facts, seen);
    return;
  }
  reading.columns.crc32[row] = bytes.crc32;
  mark(reading, row, DEPTH.bytes);
  if (facts.checksum === 'differs') return;
  if (commit !== null && commit.crc32 !== bytes.crc32) {
    facts.checksum = 'differs';
    note(seen, 'checksum', `its CRC-32 is ${hex(bytes.crc32)}, the journal recorded ${hex(commit.crc32)}`);
  } else {
    facts.checksum = commit !== null || sample.provable ? 'holds' : 'unprovable';
  }
}

function takeValues(reading: RowReading, row: number, values: ValuesSeen, facts: Writable, seen: Seen): void {
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
  mark(reading, row, DEPTH.values);
}

/** The records' own CRCs are in the directory: comparing them with the journal's costs no further read. */
function recordsAgree(sample: SampleProbe, commit: CommitRecord): boolean {
  return commit.records.length === sample.recordCount && recordsCrc32(commit.records) === sample.recordsCrc32;
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

function mark(reading: RowReading, row: number, depth: number): void {
  reading.columns.depth[row] = (reading.columns.depth[row] ?? 0) | depth;
}

function note(seen: Seen, word: Note, detail: string): void {
  seen.note = word;
  seen.detail = detail;
}

function hex(value: number): string {
  return value.toString(16).padStart(8, '0');
}
