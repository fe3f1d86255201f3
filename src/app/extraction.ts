import { createHash } from 'node:crypto';
import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import { countOf, indicesOf } from '../core/ranges.ts';
import type { Report } from '../core/report.ts';
import type { Settings } from '../core/settings.ts';
import { counted, formatBytes, formatCount } from '../core/units.ts';
import type { Engine, EngineDescription } from '../engine/engine.ts';
import { createVllmEngine } from '../engine/vllm.ts';
import { type ExtractEvent, type ExtractOutcome, extract, type StopSignals, type Work } from '../extract/extract.ts';
import type { Host } from '../host/host.ts';
import type { RunWriter } from '../ledger/ledger.ts';
import { openLedger } from '../ledger/open.ts';
import { canonicalJson } from '../ledger/run-record.ts';
import { openRunWriter, writeSettings } from '../ledger/write.ts';
import { workOf } from '../recover/work.ts';
import { createStore } from '../store/local-store.ts';
import { sampleBytes } from '../store/size.ts';
import type { Layout } from '../store/store.ts';
import { assessRun } from './assessment.ts';
import type { CacheOptions } from './cache-store.ts';
import { captureOwner } from './capture-owner.ts';
import { parseSettings, settingsDocument } from './config-settings.ts';
import { rowIndexStore } from './row-index.ts';
import { prepareFolder, refuseOverlap } from './run-folder.ts';
import { openInputs, type RunInputs } from './run-inputs.ts';
import { openRunLayout } from './run-layout.ts';
import { VERSION } from './version.ts';

export type { ExtractEvent } from '../extract/extract.ts';

/** How long a lost engine may stay away before the run ends and says so. */
const ENGINE_WAIT_MS = 120_000;

export interface ExtractionOptions {
  readonly argv: readonly string[];
  /** A person says that the holder of the lease is dead. */
  readonly takeOver: boolean;
  /** Rows that failed for good are tried again. */
  readonly retryFailed: boolean;
  readonly cache?: CacheOptions['cache'];
  readonly signals: StopSignals;
  onPhase(phase: ExtractionPhase): void;
  onEvent(event: ExtractEvent): void;
}

export type ExtractionPhase =
  | { readonly kind: 'scanning'; readonly rows: number; readonly bytes: number; readonly totalBytes: number }
  | {
      readonly kind: 'opened';
      readonly rows: number;
      readonly problems: number;
      /** The first of them, in words with its line. */
      readonly firstProblem: string | null;
      readonly created: boolean;
      readonly engine: EngineDescription;
    }
  | { readonly kind: 'planned'; readonly report: Report; readonly work: Work };

export interface ExtractionResult {
  readonly outcome: ExtractOutcome;
  /** The folder after the run, from its files; null when the run had to stop and the folder would not be read either. */
  readonly report: Report | null;
}

/**
 * Starts a run or goes on with one: inputs, identity, lease, plan, work. Nothing is written before the
 * folder is known to be this run's or nobody's.
 */
export async function runExtraction(host: Host, settings: Settings, options: ExtractionOptions): Promise<ExtractionResult> {
  const inputs = await openInputs(host.files, settings, {
    signal: options.signals.drain,
    rowIndex: rowIndexStore(host, { outside: settings.output, cache: options.cache }),
    onScan: (progress) => options.onPhase({ kind: 'scanning', ...progress }),
  });
  await refuseOverlap(host, settings);
  const ledger = await openLedger(host, settings.output, { parseSettings });
  const folderId = ledger?.run.folderId ?? Buffer.from(host.randomBytes(16)).toString('hex');
  const engines = settings.engine.urls.map((url) => engineOf(host, settings, inputs, url, folderId));
  try {
    const description = await describeAll(engines, options.signals.drain);
    refuseLongRows(inputs, description);
    await prepareFolder(host, settings, inputs, ledger, folderId);
    const { dataset } = inputs;
    const [first] = dataset.problems;
    options.onPhase({
      kind: 'opened',
      rows: dataset.rows,
      problems: dataset.problemCount,
      firstProblem: first === undefined ? null : `line ${first.line} of ${dataset.path}: ${first.message}`,
      created: ledger === null,
      engine: description,
    });
    const writer = await openRunWriter(host, settings.output, { takeOver: options.takeOver });
    return await withWriter(host, settings, inputs, engines, description, writer, options);
  } finally {
    await Promise.all(engines.map((engine) => engine.close()));
    await inputs.dataset.close();
  }
}

async function withWriter(
  host: Host,
  settings: Settings,
  inputs: RunInputs,
  engines: readonly Engine[],
  description: EngineDescription,
  writer: RunWriter,
  options: ExtractionOptions,
): Promise<ExtractionResult> {
  try {
    await writeSettings(host, settings.output, settingsDocument(settings));
    await writer.journal.append({ kind: 'start', at: host.clock.now(), argv: options.argv, facts: await startFacts(host, settings) });
    const segment = segmentIdOf(description);
    await writer.journal.append({
      kind: 'segment',
      id: segment,
      at: host.clock.now(),
      state: { engine: description.engine, model: description.model, ...description.state },
    });
    const assess = () => assessRun(host, settings.output, { retryFailed: options.retryFailed, ownLease: writer.journal.lease });
    const report = await assess();
    const work = workOf(report);
    const layout = await openRunLayout(host.files, settings.output, settings.layout);
    await refuseFullVolume(host, settings, inputs, layout, work);
    options.onPhase({ kind: 'planned', report, work });
    const outcome = await extract(
      {
        dataset: inputs.dataset,
        store: createStore(host, settings.output, layout, { fileMode: settings.fileMode }),
        norm: inputs.model.norm,
        lastState: settings.states.lastState,
        dtype: settings.states.dtype,
        segment,
        now: () => host.clock.now(),
        engines,
        writer,
        clock: host.clock,
        random: () => Buffer.from(host.randomBytes(4)).readUInt32LE() / 2 ** 32,
        limits: settings.limits,
        inFlight: settings.engine.inFlight,
        engineWaitMs: ENGINE_WAIT_MS,
        onEvent: options.onEvent,
      },
      work,
      options.signals,
    );
    await writer.journal.append({ kind: 'end', at: host.clock.now(), ...endOf(outcome) });
    return { outcome, report: await lastLook(assess, outcome) };
  } finally {
    await leave(writer);
  }
}

/** Why a run had to stop is its outcome, also when the same trouble keeps the folder from being read. */
async function lastLook(assess: () => Promise<Report>, outcome: ExtractOutcome): Promise<Report | null> {
  try {
    return await assess();
  } catch (error) {
    if (outcome.stopped === null || !isTidemarkError(error)) throw error;
    return null;
  }
}

/** Lets go of the run. A journal that refuses has failed before, and that failure is the outcome. */
async function leave(writer: RunWriter): Promise<void> {
  try {
    await writer.close();
  } catch (error) {
    if (!isTidemarkError(error)) throw error;
  }
}

function endOf(outcome: ExtractOutcome): { outcome: 'complete' | 'incomplete' | 'interrupted' | 'failed'; message: string } {
  const counts = `${outcome.committed} committed, ${outcome.adopted} adopted, ${outcome.failed} failed, ${outcome.left} left`;
  if (outcome.stopped !== null) return { outcome: 'failed', message: `${counts}; ${outcome.stopped.message}` };
  if (outcome.interrupted) return { outcome: 'interrupted', message: counts };
  return { outcome: outcome.failed + outcome.left > 0 ? 'incomplete' : 'complete', message: counts };
}

function engineOf(host: Host, settings: Settings, inputs: RunInputs, url: string, folderId: string): Engine {
  return createVllmEngine(host, {
    url,
    staging: settings.engine.staging,
    timeoutMs: settings.engine.timeoutMs,
    auxiliaryLayers: settings.states.auxiliaryLayers,
    lastLayer: inputs.model.layerCount,
    width: inputs.model.hiddenSize,
    owner: captureOwner(folderId),
  });
}

/** All endpoints must serve one model: a sample must not depend on which of them answered. */
async function describeAll(engines: readonly Engine[], signal: AbortSignal): Promise<EngineDescription> {
  const all = await Promise.all(engines.map((engine) => engine.describe(signal)));
  const [first, ...others] = all;
  if (first === undefined) throw new TidemarkError('config', 'engine.urls names no server', { hint: 'give --url http://127.0.0.1:8000' });
  const other = others.find((description) => canonicalJson(comparable(description)) !== canonicalJson(comparable(first)));
  if (other !== undefined) {
    throw new TidemarkError(
      'engine-protocol',
      `the endpoints serve different engines: ${first.model} and ${other.model}, or other versions of one`,
      {
        hint: 'give only endpoints of one deployment',
      },
    );
  }
  return first;
}

function comparable(description: EngineDescription): unknown {
  return {
    engine: description.engine,
    model: description.model,
    maxTokens: description.maxTokens,
    version: description.state.version ?? null,
  };
}

/** Single rows that are too long fail as rows; a server that takes none of them is the wrong server. */
function refuseLongRows(inputs: RunInputs, description: EngineDescription): void {
  if (description.maxTokens === null) return;
  const { table } = inputs.dataset;
  let longest = 0;
  let count = 0;
  for (let index = 0; index < table.rows; index += 1) {
    const tokens = table.at(index)?.tokens ?? 0;
    longest = Math.max(longest, tokens);
    if (tokens > description.maxTokens) count += 1;
  }
  if (count < table.rows) return;
  throw new TidemarkError(
    'engine-refused',
    `every row is too long for the server: it takes ${counted(description.maxTokens, 'token')}, the longest row has ${formatCount(longest)}`,
    {
      hint: 'start the server with a larger --max-model-len',
    },
  );
}

/** Stops before the disk does: a run that will not fit does not start. Sizes follow from token counts, before a byte is written. */
async function refuseFullVolume(host: Host, settings: Settings, inputs: RunInputs, layout: Layout, work: Work): Promise<void> {
  const { table } = inputs.dataset;
  const { auxiliaryLayers, dtype } = settings.states;
  const shape = { width: inputs.model.hiddenSize, auxiliaryLayers: auxiliaryLayers.length, dtype };
  let needed = 0;
  let fitting = 0;
  const { freeBytes } = await host.files.space(settings.output);
  for (const row of indicesOf(work.extract)) {
    needed += sampleBytes(layout, row, { ...shape, tokens: table.at(row)?.tokens ?? 0 });
    if (needed + settings.limits.reserveBytes <= freeBytes) fitting += 1;
  }
  const count = countOf(work.extract);
  if (fitting === count) return;
  const figures = `${counted(count, 'sample needs', 'samples need')} ${formatBytes(needed)} beside the reserve of ${formatBytes(settings.limits.reserveBytes)}, and ${formatBytes(freeBytes)} are free: ${formatCount(fitting)} would fit`;
  throw new TidemarkError('storage-full', `the run was not started: ${figures}`, {
    where: settings.output,
    retry: 'later',
    hint: `df -h ${settings.output}; make room, or lower limits.reserve`,
  });
}

/** The engine's own account of what may change the numbers, as one short name. */
function segmentIdOf(description: EngineDescription): string {
  return createHash('sha256').update(canonicalJson(description)).digest('hex').slice(0, 12);
}

/** Enough to notice later that the file is another one now. */
async function datasetFacts(host: Host, path: string): Promise<Record<string, unknown>> {
  const real = await host.files.realPath(path);
  const stat = real === null ? null : await host.files.stat(real);
  return { path, bytes: stat?.bytes ?? null, modifiedMs: stat?.modifiedMs ?? null };
}

async function startFacts(host: Host, settings: Settings): Promise<Record<string, unknown>> {
  return {
    tidemark: VERSION,
    host: await host.machine.facts(),
    process: await host.machine.self(),
    dataset: await datasetFacts(host, settings.dataset.path),
    mounts: {
      output: await host.machine.mountOf(settings.output),
      staging: await host.machine.mountOf(settings.engine.staging),
      dataset: await host.machine.mountOf(settings.dataset.path),
    },
  };
}
