import { resolve } from 'node:path';
import { type AssessOptions, assessFolder } from '../assess/assess.ts';
import type { AssessDeps } from '../assess/gather.ts';
import { readLog } from '../assess/gather-log.ts';
import type { CountedRows } from '../assess/gathered.ts';
import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import type { Report } from '../core/report.ts';
import { shellLine } from '../core/shell-line.ts';
import type { Level } from '../core/verdict.ts';
import type { Dataset } from '../dataset/dataset.ts';
import { countRows, needsTokenizer, openDataset } from '../dataset/open-dataset.ts';
import { listOrphanCaptures } from '../engine/staged-list.ts';
import type { Host } from '../host/host.ts';
import { journalRuns } from '../ledger/journal.ts';
import type { LedgerReader } from '../ledger/ledger.ts';
import { openLedger } from '../ledger/open.ts';
import { isOtherVersion } from '../ledger/run-record.ts';
import { planOf } from '../recover/planner.ts';
import { detectLayout } from '../store/detect.ts';
import { parseLayoutOption } from '../store/layout-option.ts';
import { placeFiles } from '../store/place.ts';
import { createStoreReader } from '../store/reader.ts';
import type { Layout } from '../store/store.ts';
import type { CacheOptions } from './cache-store.ts';
import { captureOwner } from './capture-owner.ts';
import { parseSettings } from './config-settings.ts';
import { openProofs } from './proofs.ts';
import { type Readers, startReaders } from './readers.ts';
import { rowIndexStore } from './row-index.ts';
import { encoderIfAny } from './run-inputs.ts';
import { openRunLayout } from './run-layout.ts';
import { throttled } from './throttled.ts';

export { exitOf } from '../recover/planner.ts';

export interface AssessmentOptions {
  /** The rows that the files belong to; a run of ours remembers its own. */
  readonly dataset: string | null;
  /** Model folder, for datasets of conversations. */
  readonly model: string | null;
  readonly level: Level;
  /** `--layout`: a known layout's name or a pattern of the user's own. Default null: told by looking. Not for a run of ours, which has its own. */
  readonly layout?: string | null;
  /** A driver's or server's old log, for the rows that it names with an error. */
  readonly log?: string | null;
  /** Samples a second that the operator expects. */
  readonly rate?: number | null;
  /** `off`: dataset and files are read anew, and nothing of that is kept. Default `use`. */
  readonly cache?: CacheOptions['cache'] | undefined;
  /** Read every file to `level` since the scrub began, which goes on with one that was stopped. Default: what was ever proved and did not change counts. */
  readonly scrub?: boolean;
  /** Bytes a second that files are read at, at most. Default null: as fast as they come. */
  readonly throttle?: number | null;
  readonly cwd: string;
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
}

/** Assesses any folder: a run of ours by its ledger and files, any other tree by its files. Reads only. */
export async function assessAt(host: Host, folder: string, options: AssessmentOptions): Promise<Report> {
  return withReaders(host, (reading) => assessThrough(reading, folder, options));
}

/** A host whose files are read by other processes, where it has those, and who reads samples there. */
interface ReadingHost extends Host {
  readonly readers: Readers | null;
  /** The host itself, for a dataset that has answered: its many bytes come faster on the straight way. */
  readonly direct: Host;
}

/** Nothing of a folder that may hang is touched by this process itself: then nothing can keep it from ending. */
async function withReaders<T>(host: Host, work: (reading: ReadingHost) => Promise<T>): Promise<T> {
  const readers = await answering(startReaders(host));
  try {
    return await work({ ...host, readers, direct: host, files: readers === null ? host.files : { ...host.files, ...readers.files } });
  } finally {
    await readers?.stop();
  }
}

/** A machine that is short of processes or memory may start none of them: then this process reads itself, as it can. */
async function answering(readers: Readers | null): Promise<Readers | null> {
  try {
    await readers?.files.realPath('/');
    return readers;
  } catch {
    await readers?.stop();
    return null;
  }
}

async function assessThrough(host: ReadingHost, folder: string, options: AssessmentOptions): Promise<Report> {
  const root = resolve(options.cwd, folder);
  const there = await host.files.stat((await host.files.realPath(root)) ?? root);
  if (there?.kind === 'file')
    throw new TidemarkError('usage', `${root} is a file, not a folder`, { where: root, hint: shellLine(['tidemark', 'inspect', root]) });
  const { ledger, lost } = await ledgerOrLoss(host, root);
  const choice = options.layout == null ? null : parseLayoutOption(options.layout);
  if (ledger !== null && choice !== null) {
    throw new TidemarkError('usage', `${root} is a run of tidemark's, whose layout its run.json says`, { hint: 'leave --layout out' });
  }
  const found =
    ledger === null ? await detectLayout(host.files, root, choice) : await openRunLayout(host.files, root, ledger.run.identity.layout);
  const given =
    options.dataset === null ? null : await givenDataset(host, resolve(options.cwd, options.dataset), ledger, { ...options, root });
  const dataset = given?.dataset ?? null;
  const counted = given?.counted ?? null;
  try {
    const { layout } = await placeFiles(host.files, root, found, dataset?.table ?? null, options.signal);
    const log = options.log == null ? null : await readLog(host.files, resolve(options.cwd, options.log));
    return await assessWith(host, root, ledger, layout, {
      dataset:
        dataset === null ? null : { path: dataset.path, table: dataset.table, readRow: async (row) => (await dataset.read(row)).inputIds },
      // What cannot be compared is not claimed to have been.
      level: counted !== null && options.level === 'identity' ? 'structure' : options.level,
      counted,
      cache: options.cache ?? 'use',
      scrub: options.scrub === true,
      throttle: options.throttle ?? null,
      told: ledger === null ? toldIn(options) : [],
      retryFailed: false,
      lostRun: lost,
      datasetNote: dataset === null ? await datasetNote(host, ledger) : null,
      ...(log === null ? {} : { logs: [log] }),
      ...(options.rate == null ? {} : { rate: options.rate }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
      ...(options.onProgress === undefined ? {} : { onProgress: options.onProgress }),
    });
  } finally {
    await dataset?.close();
  }
}

/** What can be told of a run's dataset without reading it; null when it looks as it did at the last start, or nothing tells. */
async function datasetNote(host: Host, ledger: LedgerReader | null): Promise<string | null> {
  const path = ledger?.settings?.dataset.path;
  if (ledger === null || path === undefined) return null;
  const real = await host.files.realPath(path).catch(() => null);
  const stat = real === null ? null : await host.files.stat(real).catch(() => null);
  if (stat === null) return `${path} is not there; the rows are those that .tidemark/rows.bin remembers`;
  const { records } = await ledger.history();
  const start = records.findLast((record) => record.kind === 'start');
  const then = start?.kind === 'start' ? start.facts.dataset : undefined;
  if (typeof then !== 'object' || then === null || !('bytes' in then) || !('modifiedMs' in then)) return null;
  if (then.bytes === stat.bytes && then.modifiedMs === stat.modifiedMs) return null;
  return `${path} has ${stat.bytes} bytes and another time than the ${String(then.bytes)} bytes of the last start; the rows are those that .tidemark/rows.bin remembers`;
}

/** A run record that is damaged or gone is a finding, and the files are judged by themselves; one of another version is refused. */
async function ledgerOrLoss(host: Host, root: string): Promise<{ ledger: LedgerReader | null; lost: string | null }> {
  try {
    const ledger = await openLedger(host, root, { parseSettings });
    if (ledger !== null) return { ledger, lost: null };
    const journals = await journalRuns(host.files, root);
    return {
      ledger,
      lost: journals.length === 0 ? null : `.tidemark/run.json is gone; the journals beside it are of run ${journals.join(', ')}`,
    };
  } catch (error) {
    if (!isTidemarkError(error, 'format-refused') || isOtherVersion(error)) throw error;
    return { ledger: null, lost: error.message };
  }
}

/** The driver's own look at its run, under a lease that it holds. */
export async function assessRun(
  host: Host,
  root: string,
  options: { readonly retryFailed: boolean; readonly ownLease: number },
): Promise<Report> {
  const ledger = await openLedger(host, root, { parseSettings });
  if (ledger === null) throw new TidemarkError('no-run', `${root}/.tidemark/run.json has gone`, { where: root });
  return withReaders(host, async (reading) => {
    const layout = await openRunLayout(reading.files, root, ledger.run.identity.layout);
    return assessWith(reading, root, ledger, layout, { dataset: null, level: 'identity', ...options });
  });
}

interface Looking
  extends Pick<
    AssessOptions,
    'level' | 'signal' | 'onProgress' | 'ownLease' | 'logs' | 'rate' | 'lostRun' | 'datasetNote' | 'counted' | 'told'
  > {
  readonly dataset: AssessDeps['dataset'];
  readonly retryFailed: boolean;
  readonly cache?: 'use' | 'off';
  readonly scrub?: boolean;
  readonly throttle?: number | null;
}

async function assessWith(host: ReadingHost, root: string, ledger: LedgerReader | null, layout: Layout, looking: Looking): Promise<Report> {
  const { dataset, retryFailed, cache = 'use', scrub = false, throttle = null, ...options } = looking;
  const { files, machine, clock, readers } = host;
  const store = createStoreReader(files, root, layout);
  const proofs =
    readers === null ? null : await openProofs(host.direct, root, layout, { cache, ...(scrub ? { scrub: options.level } : {}) });
  const direct = readers?.prober(store) ?? null;
  const paced = direct === null || throttle === null ? direct : throttled(direct, throttle, clock);
  const prober = proofs === null || paced === null ? paced : proofs.remembering(paced);
  let finished = false;
  try {
    const report = await assessFolder(
      { files, machine, clock, store, prober, ledger, dataset },
      { ...options, plan: (facts) => planOf(facts, { retryFailed }), staged: await stagedOrphans(host, ledger, options.ownLease ?? null) },
    );
    finished = true;
    const reused = proofs?.reused ?? { files: 0, sinceMs: 0 };
    return reused.files === 0 ? report : { ...report, remembered: { files: reused.files, since: new Date(reused.sinceMs).toISOString() } };
  } finally {
    // Also of one that was stopped: the next goes on from there.
    await proofs?.keep(finished && scrub);
  }
}

/** What this assessment was told, for the commands that it prints: paths as they are from everywhere. */
function toldIn({ dataset, model, layout, cwd }: AssessmentOptions): string[] {
  return [
    ...(dataset === null ? [] : ['--dataset', resolve(cwd, dataset)]),
    ...(model === null ? [] : ['--model', resolve(cwd, model)]),
    ...(layout == null ? [] : ['--layout', layout]),
  ];
}

/**
 * A dataset of conversations needs the target's tokenizer: the one that is named, or the one that the run was begun with. Of a foreign
 * tree the rows are counted where there is none: which of them have a file is worth knowing all the same.
 */
async function givenDataset(
  host: ReadingHost,
  path: string,
  ledger: LedgerReader | null,
  options: AssessmentOptions & { readonly root: string },
): Promise<{ readonly dataset: Dataset; readonly counted: null } | { readonly dataset: null; readonly counted: CountedRows }> {
  const settings = ledger?.settings ?? null;
  const model = options.model === null ? (settings?.target.model ?? null) : resolve(options.cwd, options.model);
  const { encoder, encoderProblem } = model === null ? { encoder: null, encoderProblem: null } : await encoderIfAny(host.files, model);
  const encoding = { encoder, ...(encoderProblem === null ? {} : { encoderProblem }) };
  const signal = options.signal === undefined ? {} : { signal: options.signal };
  // The first look is one that may hang; a mount that answers it is trusted with the rest.
  await host.files.stat(path);
  try {
    const dataset = await openDataset(host.direct.files, path, {
      ...encoding,
      ...signal,
      maxTokens: settings?.states.maxTokens ?? null,
      rowIndex: rowIndexStore(host.direct, { outside: options.root, cache: options.cache }),
    });
    return { dataset, counted: null };
  } catch (error) {
    if (ledger !== null || !needsTokenizer(error)) throw error;
    return { dataset: null, counted: { path, rows: await countRows(host.direct.files, path, options.signal), why: error.message } };
  }
}

/** Captures of ours that a killed driver left in the engine's folder; null while one runs, whose captures in flight look the same. */
async function stagedOrphans(
  host: Host,
  ledger: LedgerReader | null,
  ownLease: number | null,
): Promise<{ folder: string; files: number; bytes: number } | null> {
  const settings = ledger?.settings ?? null;
  if (ledger === null || settings === null) return null;
  const holder = await ledger.holder();
  if (holder !== null && holder.lease !== ownLease && holder.alive !== 'dead') return null;
  const { staging } = settings.engine;
  const orphans = await listOrphanCaptures(host.files, staging, captureOwner(ledger.run.folderId));
  return { folder: staging, files: orphans.length, bytes: orphans.reduce((sum, orphan) => sum + orphan.reclaimableBytes, 0) };
}
