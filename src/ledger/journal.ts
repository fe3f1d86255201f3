import { createHash } from 'node:crypto';
import { z } from 'zod';
import { isTidemarkError } from '../core/errors.ts';
import type { Digest128 } from '../core/identity.ts';
import { encodeLine, parseLines } from '../format/checked-lines.ts';
import type { FileReader, FileStore, WritableFile } from '../host/host.ts';
import type { JournalProblem, JournalWriter, RowRecord, RunJournalRecord } from './ledger.ts';
import { journalName, memoryPath, parseNumbered, type Scope } from './paths.ts';
import { ensureFolder } from './whole-file.ts';

const FORMAT = 'tidemark.journal/1';
/** A journal larger than this is not read whole: 1 GiB is about four million records, far beyond one shard. */
const MOST_JOURNAL_BYTES = 1024 * 1024 * 1024;

const fenceSchema = z.object({ lease: z.int().positive(), bytes: z.int().nonnegative(), sha256: z.string() });

const headerSchema = z.object({
  format: z.string().regex(/^tidemark\.journal\/\d{1,9}$/),
  run: z.string().regex(/^[0-9a-f]{32}$/),
  scope: z.string().regex(/^(run|shard-\d{1,10})$/),
  lease: z.int().positive(),
  previous: fenceSchema.nullable(),
});

const closeSchema = z.object({ kind: z.literal('close'), scope: z.string(), lease: z.int() });

type Header = z.infer<typeof headerSchema>;
type Fence = z.infer<typeof fenceSchema>;

/** What stands in one journal file, before any fence is applied. */
interface JournalFile {
  readonly lease: number;
  readonly header: Header;
  readonly bytes: Uint8Array;
  readonly validBytes: number;
}

/** The records of a scope that count, oldest first, over all its leases. */
export interface ScopeRecords {
  readonly records: readonly { readonly lease: number; readonly record: unknown }[];
  readonly problems: readonly JournalProblem[];
  /** Whether the newest lease ended its journal with `close`. */
  readonly closed: boolean;
  /** For the header of the next journal: what of the newest one counts. */
  readonly fence: Fence | null;
}

/**
 * Reads the journals of `leases` (ascending). Each header names the journal before it and how many of
 * its bytes count, so the chain from the newest header backwards is all that counts: a journal that
 * an overtaken process made or wrote later is not on it. Damage is data: it comes back as problems.
 */
export async function readScope(
  files: FileReader,
  folder: string,
  run: Digest128,
  scope: Scope,
  leases: readonly number[],
): Promise<ScopeRecords> {
  const problems: JournalProblem[] = [];
  const journals = new Map<number, JournalFile>();
  for (const lease of leases) {
    const journal = await readJournal(files, folder, run, scope, lease, problems);
    if (journal !== null) journals.set(lease, journal);
  }
  const newest = [...journals.keys()].reduce((most, lease) => Math.max(most, lease), 0);
  const chain: { lease: number; values: readonly unknown[] }[] = [];
  let link: Fence | null = null;
  let closed = false;
  let fence: Fence | null = null;
  for (let journal = journals.get(newest); journal !== undefined; journal = link === null ? undefined : journals.get(link.lease)) {
    const counted = link === null ? journal.validBytes : Math.min(link.bytes, journal.validBytes);
    const bytes = journal.bytes.subarray(0, counted);
    if (link !== null && (counted < link.bytes || sha256(bytes) !== link.sha256)) {
      problems.push({
        path: memoryPath(folder, 'journal', journalName(scope, journal.lease)),
        kind: 'fence-broken',
        detail: `its successor saw ${link.bytes} bytes of it, and these are not the same bytes now`,
      });
    }
    const { values } = parseLines(bytes, isOtherFile);
    if (link === null) {
      closed = journal.lease === leases.at(-1) && isCloseOf(values.at(-1), scope, journal.lease);
      fence = { lease: journal.lease, bytes: counted, sha256: sha256(bytes) };
    }
    chain.push({ lease: journal.lease, values: values.slice(1).filter((value) => !isClose(value)) });
    const previous: Fence | null = journal.header.previous;
    if (previous !== null && !journals.has(previous.lease)) {
      problems.push({
        path: memoryPath(folder, 'journal', journalName(scope, previous.lease)),
        kind: 'fence-broken',
        detail: `lease ${journal.lease} was started behind it, and it is not readable now; its records are unknown`,
      });
    }
    link = previous;
  }
  const records = chain.reverse().flatMap(({ lease, values }) => values.map((record) => ({ lease, record })));
  return { records, problems, closed, fence };
}

async function readJournal(
  files: FileReader,
  folder: string,
  run: Digest128,
  scope: Scope,
  lease: number,
  problems: JournalProblem[],
): Promise<JournalFile | null> {
  const path = memoryPath(folder, 'journal', journalName(scope, lease));
  let bytes: Uint8Array | null;
  try {
    bytes = await files.readSmall(path, MOST_JOURNAL_BYTES);
  } catch (error) {
    if (!isTidemarkError(error)) throw error;
    problems.push({ path, kind: 'unreadable', detail: error.message });
    return null;
  }
  // A crash between taking the lease and making its journal leaves no file: nothing was written under that lease.
  if (bytes === null) return null;
  const { values, validBytes, tail } = parseLines(bytes, isOtherFile);
  const header = headerSchema.safeParse(values[0]);
  if (!header.success) {
    problems.push({ path, kind: 'no-header', detail: 'its first line is not a whole header; it holds no records' });
    return null;
  }
  if (header.data.format !== FORMAT) {
    problems.push({ path, kind: 'unknown-version', detail: `its format is ${header.data.format}, this tidemark reads ${FORMAT}` });
    return null;
  }
  const backwards = header.data.previous === null || header.data.previous.lease < lease;
  if (header.data.run !== run || header.data.scope !== scope || header.data.lease !== lease || !backwards) {
    problems.push({
      path,
      kind: 'no-header',
      detail: `its header names run ${header.data.run}, ${header.data.scope}, lease ${header.data.lease}`,
    });
    return null;
  }
  if (tail === 'torn') {
    problems.push({ path, kind: 'torn-tail', detail: `${bytes.length - validBytes} bytes behind its last whole line are dropped` });
  }
  return { lease, header: header.data, bytes, validBytes };
}

/** The run ids that the journals of a folder name in their headers; how a run without its run.json is known. */
export async function journalRuns(files: FileReader, folder: string): Promise<readonly Digest128[]> {
  const ids = new Set<Digest128>();
  for (const entry of (await files.list(memoryPath(folder, 'journal'))) ?? []) {
    if (entry.kind !== 'file' || parseNumbered(entry.name, '.log') === null) continue;
    const bytes = await files.readSmall(memoryPath(folder, 'journal', entry.name), MOST_JOURNAL_BYTES);
    const header = headerSchema.safeParse(bytes === null ? null : parseLines(bytes).values[0]);
    if (header.success) ids.add(header.data.run);
  }
  return [...ids];
}

/**
 * Starts the journal of a lease that we hold. Records that wait share one write and one fsync (group
 * commit); nothing is acknowledged before its fsync has returned.
 */
export async function createJournal(
  files: FileStore,
  folder: string,
  run: Digest128,
  scope: Scope,
  lease: number,
  fence: Fence | null,
): Promise<JournalWriter> {
  const path = memoryPath(folder, 'journal', journalName(scope, lease));
  await ensureFolder(files, memoryPath(folder, 'journal'));
  const file = await files.create(path, 0o644);
  const header: Header = { format: FORMAT, run, scope, lease, previous: fence };
  await file.write(encodeLine(header));
  await file.sync();
  await files.syncDirectory(memoryPath(folder, 'journal'));
  return new GroupJournal(file, scope, lease);
}

interface Waiting {
  readonly line: Uint8Array;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

class GroupJournal implements JournalWriter {
  readonly scope: string;
  readonly lease: number;
  readonly #file: WritableFile;
  #waiting: Waiting[] = [];
  #flushing: Promise<void> | null = null;
  #failure: unknown = null;

  constructor(file: WritableFile, scope: string, lease: number) {
    this.#file = file;
    this.scope = scope;
    this.lease = lease;
  }

  append(record: RowRecord | RunJournalRecord): Promise<void> {
    return this.#appendLine(encodeLine(record));
  }

  async close(): Promise<void> {
    await this.#appendLine(encodeLine({ kind: 'close', scope: this.scope, lease: this.lease }));
    await this.#file.close();
  }

  #appendLine(line: Uint8Array): Promise<void> {
    // After one failed write or fsync nobody can say what the file holds: every later append fails too.
    if (this.#failure !== null) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ line, resolve, reject });
      this.#flushing ??= this.#flush();
    });
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        if (this.#failure !== null) throw this.#failure;
        await this.#file.write(Buffer.concat(batch.map((waiting) => waiting.line)));
        await this.#file.sync();
        for (const waiting of batch) waiting.resolve();
      } catch (error) {
        this.#failure = error;
        for (const waiting of batch) waiting.reject(error);
      }
    }
    this.#flushing = null;
  }
}

/** Behind the header every line is a record. One with a `format` begins another file, which a repaired filesystem may have put behind this one. */
function isOtherFile(line: unknown, index: number): boolean {
  return index > 0 && typeof line === 'object' && line !== null && 'format' in line;
}

/** Only a journal's own last word lets others in: the end of another's may come to stand behind it. */
function isCloseOf(record: unknown, scope: Scope, lease: number): boolean {
  const parsed = closeSchema.safeParse(record);
  return parsed.success && parsed.data.scope === scope && parsed.data.lease === lease;
}

function isClose(record: unknown): boolean {
  return typeof record === 'object' && record !== null && 'kind' in record && record.kind === 'close';
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
