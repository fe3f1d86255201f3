import { isTidemarkError, messageOf } from '../core/errors.ts';
import { groupNames } from '../core/name-ranges.ts';
import { parseLines } from '../format/checked-lines.ts';
import type { DirectoryEntry, Host } from '../host/host.ts';
import { openLedger } from '../ledger/open.ts';
import { memoryPath, parseNumbered } from '../ledger/paths.ts';
import { parseSettings } from './config-settings.ts';
import { EVIDENCE_BOUNDS } from './evidence-bounds.ts';
import type { EvidenceLine, Gathered, GatheredPart, Unknown } from './evidence-member.ts';
import { digestOf, type EvidenceReader, tailOf, tryRead } from './evidence-read.ts';

interface FileFacts {
  readonly name: string;
  readonly bytes: number | null;
  readonly modifiedAt: string | null;
  sha256?: string;
}

/** The run's own small records, whole; of its journals the ends, with size and digest of the whole. */
export async function gatherRunRecords(reader: EvidenceReader, host: Host, folder: string): Promise<GatheredPart> {
  const members: Gathered[] = [];
  const unknown: Unknown[] = [];
  const top = await listed(reader, memoryPath(folder), unknown);
  if (top === null) {
    if (unknown.length === 0)
      unknown.push({ what: 'run', why: `there is no ${memoryPath(folder)}: this is no run of tidemark, or its memory is gone` });
    return { members, unknown };
  }
  for (const name of ['run.json', 'settings.json']) {
    const record = await smallRecord(reader, memoryPath(folder, name), `run/${name}`, unknown);
    if (record !== null) members.push(record);
  }
  const history = await historyOf(host, folder, unknown);
  if (history !== null) members.push(history);
  const journals = await listed(reader, memoryPath(folder, 'journal'), unknown);
  const names = journalsInOrder(journals ?? []);
  members.push(await memoryOf(reader, folder, top, names, unknown));
  members.push(...(await journalEnds(reader, folder, names, unknown)));
  return { members, unknown };
}

async function listed(reader: EvidenceReader, path: string, unknown: Unknown[]): Promise<readonly DirectoryEntry[] | null> {
  const entries = await tryRead(reader, `listing ${path}`, () => reader.files.list(path));
  if (entries.ok) return entries.value;
  unknown.push({ what: path, why: entries.why });
  return null;
}

async function smallRecord(reader: EvidenceReader, path: string, name: string, unknown: Unknown[]): Promise<Gathered | null> {
  const read = await tryRead(reader, `reading ${path}`, () => reader.files.readSmall(path, EVIDENCE_BOUNDS.recordBytes));
  if (!read.ok || read.value === null) {
    unknown.push({ what: name, why: read.ok ? `${path} is not there` : read.why });
    return null;
  }
  const text = Buffer.from(read.value).toString('utf8');
  try {
    return { name, source: path, content: { kind: 'json', value: JSON.parse(text) as unknown }, leftOut: [] };
  } catch {
    return {
      name,
      source: path,
      content: { kind: 'lines', lines: text.split('\n'), lineCharacters: EVIDENCE_BOUNDS.recordLineCharacters },
      leftOut: ['it is no JSON: packed as text'],
    };
  }
}

async function historyOf(host: Host, folder: string, unknown: Unknown[]): Promise<Gathered | null> {
  try {
    const ledger = await openLedger(host, folder, { parseSettings });
    if (ledger === null) return null;
    const { records, problems } = await ledger.history();
    const kept = records.slice(-EVIDENCE_BOUNDS.historyRecords);
    return {
      name: 'run/history.json',
      source: `${memoryPath(folder, 'journal')}/run.*.log`,
      content: { kind: 'json', value: { holder: await ledger.holder(), records: kept, problems } },
      leftOut: kept.length < records.length ? [`${records.length - kept.length} older records`] : [],
    };
  } catch (error) {
    if (!isTidemarkError(error)) throw error;
    unknown.push({ what: 'run/history.json', why: messageOf(error) });
    return null;
  }
}

/** The run's own first, then of every shard the newest, then the rest: what comes last is left out first. */
function journalsInOrder(entries: readonly DirectoryEntry[]): string[] {
  const journals = entries.flatMap((entry) => {
    const parsed = entry.kind === 'file' && entry.openable ? parseNumbered(entry.name, '.log') : null;
    return parsed === null ? [] : [{ name: entry.name, ...parsed, shard: parsed.scope === 'run' ? -1 : Number(parsed.scope.slice(6)) }];
  });
  const newest = new Map<string, number>();
  for (const { scope, lease } of journals) newest.set(scope, Math.max(lease, newest.get(scope) ?? 0));
  const rank = (one: (typeof journals)[number]): number => (one.scope === 'run' ? 0 : one.lease === newest.get(one.scope) ? 1 : 2);
  return journals.sort((a, b) => rank(a) - rank(b) || a.shard - b.shard || b.lease - a.lease).map(({ name }) => name);
}

/** Names, sizes, times and digests of what `.tidemark/` holds, and who held its leases. */
async function memoryOf(
  reader: EvidenceReader,
  folder: string,
  top: readonly DirectoryEntry[],
  journals: readonly string[],
  unknown: Unknown[],
): Promise<Gathered> {
  const leftOut: string[] = [];
  const digests = new DigestBudget(reader);
  const at = (...parts: string[]): string => memoryPath(folder, ...parts);
  const topFiles: FileFacts[] = [];
  for (const entry of top.filter(({ kind, openable }) => kind === 'file' && openable).slice(0, EVIDENCE_BOUNDS.treeNames)) {
    const facts = await factsOf(reader, at(entry.name), entry.name, unknown);
    topFiles.push(entry.name === 'rows.bin' ? await digests.add(facts, at(entry.name)) : facts);
  }
  const journalFiles: FileFacts[] = [];
  for (const name of journals.slice(0, EVIDENCE_BOUNDS.journals))
    journalFiles.push(await digests.add(await factsOf(reader, at('journal', name), name, unknown), at('journal', name)));
  if (journals.length > journalFiles.length) leftOut.push(`${journals.length - journalFiles.length} more journals`);
  if (digests.without > 0)
    leftOut.push(`digests of ${digests.without} files: ${EVIDENCE_BOUNDS.digestBytesTogether} bytes were read for the others`);
  const leases = await leasesOf(reader, folder, leftOut, unknown);
  const quarantine = groupNames(((await listed(reader, at('quarantine'), unknown)) ?? []).map(({ name }) => name));
  return {
    name: 'run/memory.json',
    source: memoryPath(folder),
    content: { kind: 'json', value: { files: topFiles, journals: journalFiles, leases, quarantine } },
    leftOut,
  };
}

/** Digests cost a reading of every byte: so many together, and no more. */
class DigestBudget {
  without = 0;
  readonly #reader: EvidenceReader;
  #left: number = EVIDENCE_BOUNDS.digestBytesTogether;

  constructor(reader: EvidenceReader) {
    this.#reader = reader;
  }

  async add(facts: FileFacts, path: string): Promise<FileFacts> {
    if (facts.bytes === null || facts.bytes > this.#left) {
      this.without += 1;
      return facts;
    }
    this.#left -= facts.bytes;
    const read = await tryRead(this.#reader, `reading ${path}`, () => digestOf(this.#reader.files, path), 60_000);
    if (read.ok && read.value !== null) return { ...facts, sha256: read.value };
    this.without += 1;
    return facts;
  }
}

async function factsOf(reader: EvidenceReader, path: string, name: string, unknown: Unknown[]): Promise<FileFacts> {
  const stat = await tryRead(reader, `looking at ${path}`, () => reader.files.stat(path));
  if (!stat.ok) unknown.push({ what: path, why: stat.why });
  const seen = stat.ok ? stat.value : null;
  return { name, bytes: seen?.bytes ?? null, modifiedAt: seen === null ? null : new Date(seen.modifiedMs).toISOString() };
}

async function leasesOf(reader: EvidenceReader, folder: string, leftOut: string[], unknown: Unknown[]): Promise<unknown[]> {
  const entries = (await listed(reader, memoryPath(folder, 'leases'), unknown)) ?? [];
  const names = entries.flatMap((entry) => (entry.openable && parseNumbered(entry.name, '') !== null ? [entry.name] : [])).sort();
  if (names.length > EVIDENCE_BOUNDS.leases) leftOut.push(`${names.length - EVIDENCE_BOUNDS.leases} more leases`);
  const leases: unknown[] = [];
  for (const name of names.slice(-EVIDENCE_BOUNDS.leases)) {
    const path = memoryPath(folder, 'leases', name);
    const read = await tryRead(reader, `reading ${path}`, () => reader.files.readSmall(path, 64 * 1024));
    if (!read.ok) unknown.push({ what: path, why: read.why });
    else
      leases.push({
        name,
        bytes: read.value?.length ?? null,
        lease: read.value === null ? null : (parseLines(read.value).values[0] ?? null),
      });
  }
  return leases;
}

async function journalEnds(reader: EvidenceReader, folder: string, names: readonly string[], unknown: Unknown[]): Promise<Gathered[]> {
  const members: Gathered[] = [];
  let left: number = EVIDENCE_BOUNDS.journalBytesTogether;
  for (const name of names.slice(0, EVIDENCE_BOUNDS.journals)) {
    if (left <= 0) {
      unknown.push({
        what: `run/journal/${name}`,
        why: `left out: the journals before it fill ${EVIDENCE_BOUNDS.journalBytesTogether} bytes`,
      });
      continue;
    }
    const path = memoryPath(folder, 'journal', name);
    const read = await tryRead(reader, `reading ${path}`, () => tailOf(reader.files, path, EVIDENCE_BOUNDS.journalTailBytes));
    if (!read.ok || read.value === null) {
      unknown.push({ what: `run/journal/${name}`, why: read.ok ? `${path} has just gone` : read.why });
      continue;
    }
    const { text, bytes, whole } = read.value;
    const lines = text.replace(/\n$/, '').split('\n');
    const kept = lines.slice(-EVIDENCE_BOUNDS.journalLines);
    left -= kept.reduce((sum, line) => sum + line.length, 0);
    members.push({
      name: `run/journal/${name}`,
      source: path,
      content: { kind: 'lines', lines: kept.map(journalLine), lineCharacters: EVIDENCE_BOUNDS.recordLineCharacters },
      leftOut: whole && kept.length === lines.length ? [] : [`all but the last ${kept.length} lines of ${bytes} bytes`],
    });
  }
  return members;
}

/** `LLLLLL CCCCCCCC JSON`: the JSON is redacted by its keys; length and checksum stay those of the original. */
function journalLine(line: string): EvidenceLine {
  const before = /^\d{6,9} [0-9a-f]{8} (?=\{)/.exec(line)?.[0];
  if (before === undefined) return line;
  try {
    return { before, value: JSON.parse(line.slice(before.length)) as unknown, origin: 'ours' };
  } catch {
    return line;
  }
}
