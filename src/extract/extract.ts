import { TidemarkError } from '../core/errors.ts';
import { countOf, type IndexRange, indicesOf } from '../core/ranges.ts';
import type { Settings } from '../core/settings.ts';
import { shellLine } from '../core/shell-line.ts';
import { counted } from '../core/units.ts';
import type { Verdict } from '../core/verdict.ts';
import type { Engine } from '../engine/engine.ts';
import type { Clock } from '../host/host.ts';
import type { CommitRecord, FailureRecord, JournalWriter, RunWriter } from '../ledger/ledger.ts';
import { waitMs } from './backoff.ts';
import { EngineGate } from './engine-gate.ts';
import { type Consequence, consequenceOf } from './failures.ts';
import { proveStored } from './prove.ts';
import { extractSample, type SampleDeps, setAside } from './sample.ts';
import { OpenShards } from './shards.ts';

/** What the planner named: nothing else is touched. */
export interface Work {
  readonly extract: readonly IndexRange[];
  /** Files to move into quarantine before their rows are made again. */
  readonly setAside: readonly { readonly row: number; readonly verdict: Verdict }[];
  /** Sound files that no journal has recorded. */
  readonly adopt: readonly IndexRange[];
}

export interface ExtractDeps extends SampleDeps {
  /** One for each endpoint, all of one model. */
  readonly engines: readonly Engine[];
  readonly writer: RunWriter;
  readonly clock: Clock;
  /** In [0, 1). */
  random(): number;
  readonly limits: Settings['limits'];
  readonly inFlight: number;
  /** How long an engine may be gone before the run gives up. */
  readonly engineWaitMs: number;
  onEvent(event: ExtractEvent): void;
}

export type ExtractEvent =
  | { readonly kind: 'committed'; readonly record: CommitRecord }
  | { readonly kind: 'failed'; readonly record: FailureRecord }
  | { readonly kind: 'set-aside'; readonly row: number; readonly verdict: Verdict }
  | { readonly kind: 'engine-lost'; readonly message: string }
  | { readonly kind: 'engine-back' };

export interface ExtractOutcome {
  readonly committed: number;
  readonly adopted: number;
  readonly failed: number;
  /** Rows of the work that are still to be done: the run was told to stop or had to. */
  readonly left: number;
  readonly interrupted: boolean;
  /** Why the run stopped early, when it did. */
  readonly stopped: TidemarkError | null;
}

export interface StopSignals {
  /** Stop sending; what is in flight is finished and recorded. */
  readonly drain: AbortSignal;
  /** Leave at once. Still safe: what is not recorded is not committed. */
  readonly abort: AbortSignal;
}

/** Files that are proved at once before they are recorded. */
const ADOPT_WIDTH = 8;

/** Carries a plan out. Resolves when nothing is in flight any more; every committed sample is in its journal. */
export async function extract(deps: ExtractDeps, work: Work, signals: StopSignals): Promise<ExtractOutcome> {
  const run = new ExtractRun(deps, work, signals);
  return run.finish();
}

class ExtractRun {
  readonly #deps: ExtractDeps;
  readonly #work: Work;
  readonly #signals: StopSignals;
  readonly #shards: OpenShards;
  readonly #gate: EngineGate;
  /** Aborted when the run stops for a reason of its own. */
  readonly #halt = new AbortController();
  readonly #unsettled = new Map<number, number>();
  readonly #load: number[];
  /** Any reason to begin nothing new. */
  readonly #anyStop: AbortSignal;
  #stopped: TidemarkError | null = null;
  #committed = 0;
  #adopted = 0;
  #failed = 0;
  #inARow = 0;

  constructor(deps: ExtractDeps, work: Work, signals: StopSignals) {
    this.#deps = deps;
    this.#work = work;
    this.#signals = signals;
    this.#shards = new OpenShards(deps.writer, this.#shardRows);
    this.#gate = new EngineGate(deps.engines, deps.clock, { patienceMs: deps.engineWaitMs, folder: deps.store.folder });
    this.#load = deps.engines.map(() => 0);
    this.#anyStop = AbortSignal.any([signals.drain, signals.abort, this.#halt.signal]);
    for (const row of indicesOf(work.extract)) this.#count(row);
    for (const row of indicesOf(work.adopt)) this.#count(row);
    for (const { row } of work.setAside) this.#count(row);
  }

  get #shardRows(): number {
    return this.#deps.writer.run.identity.shardRows;
  }

  async finish(): Promise<ExtractOutcome> {
    try {
      await this.#guard(() => this.#prepare());
      const rows = indicesOf(this.#work.extract);
      const lanes = Array.from({ length: this.#deps.inFlight * this.#deps.engines.length }, () => this.#lane(rows));
      await Promise.all(lanes);
    } finally {
      await this.#shards.closeAll();
    }
    const left = countOf(this.#work.extract) - this.#committed - this.#failed;
    const interrupted = this.#signals.drain.aborted && left > 0;
    return { committed: this.#committed, adopted: this.#adopted, failed: this.#failed, left, interrupted, stopped: this.#stopped };
  }

  /** Sets bad files aside and adopts unrecorded ones, before the first new sample. */
  async #prepare(): Promise<void> {
    for (const { row, verdict } of this.#work.setAside) {
      if (this.#stopping) return;
      await this.#inShard(row, async (journal) => {
        await setAside(this.#deps.store, journal, row, verdict, this.#deps.now());
        this.#deps.onEvent({ kind: 'set-aside', row, verdict });
      });
    }
    // Side by side, so that reading one file and syncing the record of another overlap.
    const rows = indicesOf(this.#work.adopt);
    await Promise.all(
      Array.from({ length: ADOPT_WIDTH }, async () => {
        for (let next = rows.next(); next.done !== true && !this.#stopping; next = rows.next()) {
          const row = next.value;
          await this.#inShard(row, (journal) => this.#adopt(row, journal));
        }
      }),
    );
  }

  async #adopt(row: number, journal: JournalWriter): Promise<void> {
    const { dataset, store, now, segment } = this.#deps;
    const indexed = dataset.table.at(row);
    if (indexed === null) return;
    // The ids tie a file to its row; whose mask it carries is the file's own affair, and is recorded.
    const proof = await proveStored(store, row, { ...indexed, mask: null });
    // Not sound after all, or gone since the assessment: it stays as it is and the next assessment says so.
    if (proof?.ok !== true) return;
    await store.settle(row);
    const { identity, tokens } = indexed;
    // A layout without masks leaves the row's own.
    const mask = proof.value.mask ?? indexed.mask;
    const record: CommitRecord = { kind: 'adopt', row, identity, tokens, segment, attempt: 0, ...proof.value, mask, at: now() };
    await journal.append(record);
    this.#adopted += 1;
    this.#deps.onEvent({ kind: 'committed', record });
  }

  async #lane(rows: Iterator<number>): Promise<void> {
    while (!this.#stopping) {
      const next = rows.next();
      if (next.done === true) return;
      await this.#guard(() => this.#inShard(next.value, (journal) => this.#row(next.value, journal)));
    }
  }

  async #row(row: number, journal: JournalWriter): Promise<void> {
    const { limits } = this.#deps;
    let attempt = 1;
    let losses = 0;
    let waits = 0;
    while (!this.#stopping) {
      await this.#gate.open(this.#anyStop);
      if (this.#stopping) return;
      const consequence = await this.#try(row, journal, attempt);
      if (consequence === null) return;
      switch (consequence.kind) {
        case 'wait':
          await this.#pause(waitMs({ firstMs: 200, mostMs: 10_000 }, waits, this.#deps.random()));
          waits += 1;
          break;
        case 'engine-lost':
          losses += 1;
          this.#deps.onEvent({ kind: 'engine-lost', message: consequence.message });
          // An engine that comes back and dies of the same row again has met a poison row.
          if (losses > limits.attempts) return this.#fail(row, journal, 'engine-lost', consequence.message, attempt, true);
          if (await this.#gate.lost(consequence.message, this.#anyStop)) this.#deps.onEvent({ kind: 'engine-back' });
          break;
        case 'retry': {
          const final = attempt >= limits.attempts;
          await this.#fail(row, journal, consequence.class, consequence.message, attempt, final);
          if (final) return;
          await this.#pause(waitMs({ firstMs: 250, mostMs: 8_000 }, attempt - 1, this.#deps.random()));
          attempt += 1;
          break;
        }
        case 'final':
          return this.#fail(row, journal, consequence.class, consequence.message, attempt, true);
        case 'stop':
          throw consequence.error;
        case 'interrupted':
          return;
      }
    }
  }

  /** One try on the least loaded engine; null when it committed. */
  async #try(row: number, journal: JournalWriter, attempt: number): Promise<Consequence | null> {
    const lane = this.#load.indexOf(Math.min(...this.#load));
    const engine = this.#deps.engines[lane];
    if (engine === undefined) throw new RangeError('a run has at least one engine');
    this.#load[lane] = (this.#load[lane] ?? 0) + 1;
    try {
      const record = await extractSample(this.#deps, engine, journal, row, attempt, this.#signals.abort);
      this.#inARow = 0;
      this.#committed += 1;
      this.#deps.onEvent({ kind: 'committed', record });
      return null;
    } catch (error) {
      return consequenceOf(error);
    } finally {
      this.#load[lane] = (this.#load[lane] ?? 0) - 1;
    }
  }

  async #fail(row: number, journal: JournalWriter, kind: FailureRecord['class'], message: string, attempt: number, final: boolean) {
    const record: FailureRecord = { kind: 'failure', row, class: kind, message, attempt, final, at: this.#deps.now() };
    await journal.append(record);
    this.#deps.onEvent({ kind: 'failed', record });
    if (final) this.#failed += 1;
    // A row that the server refuses is the row's fault; anything else says something about the server.
    if (kind === 'engine-lost' || kind === 'bad-capture') this.#inARow += 1;
    const { limits, dataset, store } = this.#deps;
    if (this.#inARow >= limits.consecutiveFailures) {
      throw new TidemarkError(
        'capture-bad',
        `${this.#inARow} tries in a row have failed, the last one: ${message}; the server is sick, not the rows`,
        {
          where: store.folder,
          hint: `look at the server, then: ${shellLine(['tidemark', 'resume', store.folder])}`,
        },
      );
    }
    if (this.#failed > Math.max(limits.failureSamples, limits.failureShare * dataset.rows)) {
      throw new TidemarkError(
        'capture-bad',
        `${counted(this.#failed, 'row has', 'rows have')} failed for good, more than the failure budget allows; the last one: ${message}`,
        {
          where: store.folder,
          hint: `${shellLine(['tidemark', 'assess', store.folder])} lists them by cause; raise limits.failureSamples to go on`,
        },
      );
    }
  }

  async #inShard(row: number, act: (journal: JournalWriter) => Promise<void>): Promise<void> {
    const journal = await this.#shards.enter(row);
    try {
      await act(journal);
    } finally {
      const shard = Math.floor(row / this.#shardRows);
      const unsettled = (this.#unsettled.get(shard) ?? 1) - 1;
      this.#unsettled.set(shard, unsettled);
      await this.#shards.settle(row, unsettled > 0);
    }
  }

  /** A failure that stops the run stops it once; what is in flight elsewhere is finished first. */
  async #guard(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof TidemarkError)) throw error;
      if (error.code === 'interrupted') return;
      this.#stopped ??= error;
      this.#halt.abort(error);
    }
  }

  #count(row: number): void {
    const shard = Math.floor(row / this.#shardRows);
    this.#unsettled.set(shard, (this.#unsettled.get(shard) ?? 0) + 1);
  }

  get #stopping(): boolean {
    return this.#anyStop.aborted;
  }

  async #pause(ms: number): Promise<void> {
    // Being told to stop ends a pause; the loop above sees why.
    await this.#deps.clock.sleep(ms, this.#anyStop).catch(() => undefined);
  }
}
