import { resolve } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import type { Report } from '../core/report.ts';
import type { Settings } from '../core/settings.ts';
import type { Dataset } from '../dataset/dataset.ts';
import { type ExtractOutcome, extract, type Work } from '../extract/extract.ts';
import type { RowTable } from '../format/row-table.ts';
import type { Host } from '../host/host.ts';
import { openLedger } from '../ledger/open.ts';
import { openRunWriter, writeSettings } from '../ledger/write.ts';
import { workOf } from '../recover/work.ts';
import { createStore } from '../store/local-store.ts';
import { assessAt, assessRun } from './assessment.ts';
import { parseSettings, settingsDocument } from './config-settings.ts';
import { openRunLayout } from './run-layout.ts';

export interface RepairResult {
  /** What was done, or with `dryRun` what would be. */
  readonly work: Pick<Work, 'setAside' | 'adopt'>;
  readonly outcome: ExtractOutcome | null;
  readonly report: Report;
}

export interface RepairOptions {
  readonly dryRun: boolean;
  readonly takeOver: boolean;
  readonly cwd: string;
}

/** Mode of files that a repair would create; it creates none. */
const NO_NEW_FILES = 0o644;
/** Of files that no engine of ours made. */
const SEGMENT = 'adopted';

/**
 * The part of `resume` that needs no engine: damaged files go into quarantine, sound files that no journal has are proved, every byte of them, and
 * recorded. Nothing is deleted, nothing sound is touched.
 * @throws TidemarkError `no-run`, `run-locked`, `decision-needed`
 */
export async function repair(host: Host, folder: string, options: RepairOptions): Promise<RepairResult> {
  const root = resolve(options.cwd, folder);
  if (options.dryRun) {
    const report = await assessAt(host, root, { dataset: null, model: null, level: 'identity', cwd: options.cwd });
    return { work: workOf(report), outcome: null, report };
  }
  return adoptUnrecorded(host, root, { takeOver: options.takeOver, setAside: true, onAdopted: () => undefined });
}

/** Proves and records what no journal has, under the run's lease; sets damaged files aside where that is asked. */
export async function adoptUnrecorded(
  host: Host,
  root: string,
  options: {
    readonly takeOver: boolean;
    readonly setAside: boolean;
    /** Written anew, where the folder had lost them. */
    readonly settings?: Settings | null;
    onAdopted(): void;
  },
): Promise<RepairResult> {
  const writer = await openRunWriter(host, root, { takeOver: options.takeOver });
  try {
    if (options.settings != null) await writeSettings(host, root, settingsDocument(options.settings));
    const ledger = await openLedger(host, root, { parseSettings });
    const table = ledger?.table ?? null;
    if (ledger === null || table === null) {
      throw new TidemarkError('no-run', `${root} has lost its row table, so nothing can be proved`, {
        where: root,
        hint: `tidemark resume ${root}`,
      });
    }
    const layout = await openRunLayout(host.files, root, ledger.run.identity.layout);
    const look = () => assessRun(host, root, { retryFailed: false, ownLease: writer.journal.lease });
    const work = workOf(await look());
    const setAside = options.setAside ? work.setAside : [];
    const never = new AbortController().signal;
    const outcome = await extract(
      {
        dataset: tableOnly(table),
        store: createStore(host, root, layout, { fileMode: NO_NEW_FILES }),
        norm: null,
        lastState: 'none',
        dtype: 'BF16',
        segment: SEGMENT,
        now: () => host.clock.now(),
        engines: [],
        writer,
        clock: host.clock,
        random: () => 0,
        limits: { attempts: 1, failureSamples: 0, failureShare: 0, consecutiveFailures: 1, reserveBytes: 0 },
        inFlight: 1,
        engineWaitMs: 0,
        onEvent: (event) => {
          if (event.kind === 'committed') options.onAdopted();
        },
      },
      { extract: [], setAside, adopt: work.adopt },
      { drain: never, abort: never },
    );
    if (outcome.stopped !== null) throw outcome.stopped;
    const message = `${outcome.adopted} proved and recorded, ${setAside.length} set aside; nothing extracted`;
    await writer.journal.append({ kind: 'end', at: host.clock.now(), outcome: 'incomplete', message });
    return { work: { setAside, adopt: work.adopt }, outcome, report: await look() };
  } finally {
    await writer.close();
  }
}

/** The rows as the folder remembers them; none is read again, because nothing is extracted. */
function tableOnly(table: RowTable): Dataset {
  return {
    path: 'rows.bin',
    rows: table.rows,
    problems: [],
    problemCount: 0,
    table,
    read: () => Promise.reject(new TidemarkError('dataset', 'a repair reads no rows')),
    close: () => Promise.resolve(),
  };
}
