import type { FileProbe } from '../assess/gather-probe.ts';
import type { Prober, ProbeTask } from '../assess/gather-prober.ts';
import { PROBE_BYTES, readProbe } from '../assess/probe-bytes.ts';
import { isTidemarkError, type TidemarkError } from '../core/errors.ts';
import { type Level, levelAtLeast } from '../core/verdict.ts';
import { filesThroughHelpers } from '../host/file-calls.ts';
import type { Clock, FileReader, Host } from '../host/host.ts';
import type { StoreReader } from '../store/store.ts';
import { HelperPool } from './helper-pool.ts';
import type { ProbeQuestion, ProbeWord } from './reader-question.ts';

/** Processes that read a folder in place of this one: what hangs, hangs there. */
export interface Readers {
  readonly files: FileReader;
  prober(store: StoreReader): Prober;
  /** Kills them; one that hangs in the kernel is not waited for. */
  stop(): Promise<void>;
}

/**
 * null where the host has no helper processes: the caller reads itself.
 * @param silentMs a helper that says nothing for so long is given up, and the file that it reads with it
 */
export function startReaders(host: Host, silentMs = SILENT_MS): Readers | null {
  if (host.helpers === undefined) return null;
  const pool = new HelperPool(host.helpers, host.clock);
  return {
    files: filesThroughHelpers(pool, silentMs),
    prober: (store) => ({
      probe: (tasks, level, options) => new ProbeRun(pool, host.clock, store, level, { ...options, silentMs }).run(tasks),
    }),
    stop: () => pool.stop(),
  };
}

/** Longer than a loaded server takes, shorter than people wait. */
const SILENT_MS = 30_000;
/** So many files one after the other that were not answered for are a mount that is dead: nothing more is asked of it. */
const SILENT_MOST = 3;
/** So many helpers one after the other that ended by themselves are no fault of a file. */
const GONE_MOST = 8;
/** A question is worth about so much time: a short one costs more to ask than to answer, and after a long one the others wait for the last. */
const BATCH_MS = 60;
const BATCH_FILES_FIRST = 8;
const BATCH_FILES_MOST = 512;
/** Where a file takes so long and the helper does nothing meanwhile, it waits for a network: more of them wait side by side. */
const DISTANT_MS_A_FILE = 3;
const DISTANT_PROCESSOR_SHARE = 0.2;
const LANES_MOST = 8;

type ProbeOptions = Parameters<Prober['probe']>[2] & { readonly silentMs: number };

/** One pass over many files. */
class ProbeRun {
  readonly #pool: HelperPool;
  readonly #clock: Clock;
  readonly #store: StoreReader;
  readonly #level: Level;
  readonly #options: ProbeOptions;
  #tasks: readonly ProbeTask[] = [];
  #next = 0;
  #lanes: Promise<void>[] = [];
  #silent = 0;
  #gone = 0;
  #failure: { readonly error: unknown } | null = null;

  constructor(pool: HelperPool, clock: Clock, store: StoreReader, level: Level, options: ProbeOptions) {
    this.#pool = pool;
    this.#clock = clock;
    this.#store = store;
    this.#level = level;
    this.#options = options;
  }

  async run(tasks: readonly ProbeTask[]): Promise<void> {
    this.#tasks = tasks;
    for (let lane = 0; lane < this.#pool.cores; lane += 1) this.#lanes.push(this.#lane());
    // Lanes may join while the first ones run. One that fails ends the others after their batch.
    for (let lane = 0; lane < this.#lanes.length; lane += 1) await this.#lanes[lane];
    if (this.#failure !== null) throw this.#failure.error;
  }

  async #lane(): Promise<void> {
    const deep = levelAtLeast(this.#level, 'checksum');
    let size = BATCH_FILES_FIRST;
    let questions = 0;
    try {
      while (this.#next < this.#tasks.length && this.#failure === null) {
        this.#options.signal?.throwIfAborted();
        const batch = this.#tasks.slice(this.#next, this.#next + size);
        this.#next += batch.length;
        const beganMs = this.#clock.monotonicMs();
        const processorMs = await this.#batch(batch);
        const tookMs = Math.max(1, this.#clock.monotonicMs() - beganMs);
        size = Math.max(1, Math.min(BATCH_FILES_MOST, 2 * size, Math.round((size * BATCH_MS) / tookMs)));
        const distant = tookMs > batch.length * DISTANT_MS_A_FILE && processorMs < tookMs * DISTANT_PROCESSOR_SHARE;
        // The first answer of a helper that starts is late for other reasons.
        questions += 1;
        if (distant && !deep && questions > 2 && this.#lanes.length < LANES_MOST && this.#next < this.#tasks.length) {
          this.#pool.grow();
          this.#lanes.push(this.#lane());
        }
      }
    } catch (error) {
      this.#failure ??= { error };
    }
  }

  /** All files of a batch; gives the processor time that it took. A helper that is lost costs one file, found by asking one by one. */
  async #batch(batch: readonly ProbeTask[]): Promise<number> {
    let processorMs = 0;
    let done = 0;
    const onWord = (word: unknown): void => {
      if (word === 'reading') return;
      const said = word as Exclude<ProbeWord, 'reading'>;
      if ('processorMs' in said) {
        processorMs += said.processorMs;
        return;
      }
      const { count, plain, words, others } = said;
      const bytes = new DataView(plain.buffer, plain.byteOffset, plain.byteLength);
      for (let at = 0; at < count; at += 1) this.#hand(batch[done++], others.get(at) ?? readProbe(bytes, at * PROBE_BYTES, words));
      this.#silent = 0;
      this.#gone = 0;
    };
    for (let each = false; done < batch.length; ) {
      if (this.#silent >= SILENT_MOST) {
        this.#hand(batch[done++], refused('timeout', `not tried: ${SILENT_MOST} files in a row were not answered for`));
        continue;
      }
      const rest = batch.slice(done);
      try {
        await this.#pool.lend((helper) => helper.ask(this.#question(rest, each), { silentMs: this.#options.silentMs, onWord }));
      } catch (error) {
        if (!isTidemarkError(error, 'storage-silent', 'storage-failed')) throw error;
        if (each) this.#give(batch[done++], error);
        each = true;
      }
    }
    return processorMs;
  }

  /** A file at which a helper was lost while it was asked for alone. */
  #give(task: ProbeTask | undefined, error: TidemarkError): void {
    if (error.code === 'storage-silent') {
      this.#silent += 1;
      this.#hand(task, refused('timeout', `it was not read within ${this.#options.silentMs / 1000} s`));
      return;
    }
    this.#gone += 1;
    if (this.#gone >= GONE_MOST) throw error;
    this.#hand(task, refused('io-error', `the process that read it ended: ${error.message}`));
  }

  #hand(task: ProbeTask | undefined, probe: FileProbe): void {
    if (task !== undefined) this.#options.onProbe(task.row, probe);
  }

  #question(tasks: readonly ProbeTask[], each: boolean): ProbeQuestion {
    const { folder, layout } = this.#store;
    const paths = tasks.map((task) => task.path);
    return { call: 'probe', folder, layout: layout.name, form: layout.form, codec: layout.codec, level: this.#level, paths, each };
  }
}

function refused(reason: 'timeout' | 'io-error', detail: string): FileProbe {
  return { stat: null, refusal: { reason, detail }, damage: null, sample: null };
}
