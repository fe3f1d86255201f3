import { createHash } from 'node:crypto';
import type { FileProbe } from '../assess/gather-probe.ts';
import type { Prober, ProbeTask } from '../assess/gather-prober.ts';
import { type ProofOrigin, ProofTable, sameFile } from '../assess/proof-table.ts';
import { type Level, levelAtLeast } from '../core/verdict.ts';
import { keepInCache } from '../dataset/cache-folder.ts';
import type { Host } from '../host/host.ts';
import type { Layout } from '../store/store.ts';
import { cacheStore } from './cache-store.ts';
import { VERSION } from './version.ts';

/** A file changed twice within the grain of its times looks unchanged; what is older than this cannot be in that state. */
const SETTLED_MS = 2000;
const TABLE_BYTES_MOST = 2 * 1024 * 1024 * 1024;
/** So often a long scrub keeps what it has so far. */
const KEEP_MS = 30_000;

export interface ProofOptions {
  /** `off` reads every file and keeps nothing. */
  readonly cache: 'use' | 'off';
  /** Set for a scrub: only what was proved since it began counts, and an unfinished one is gone on with. */
  readonly scrub?: Level;
}

/** What is remembered of a folder's files from one look to the next. */
export interface Proofs {
  /** Reads only files of which nothing is remembered or that changed since. */
  remembering(prober: Prober): Prober;
  /** Files that were not read again, and when the first of them had been. */
  readonly reused: { readonly files: number; readonly sinceMs: number };
  /** @param finished whether the scrub came to its end: the next one begins anew */
  keep(finished: boolean): Promise<void>;
}

/** null where nothing may be remembered: no cache folder, or nothing that tells one boot from the next. */
export async function openProofs(host: Host, folder: string, layout: Layout, options: ProofOptions): Promise<Proofs | null> {
  const place = cacheStore(host, 'proofs', { outside: folder, cache: options.cache });
  const { bootId } = await host.machine.facts();
  const real = await host.files.realPath(folder);
  if (place === null || !bootId.known || real === null) return null;
  const origin: ProofOrigin = {
    folder: real,
    layout: layout.name,
    form: JSON.stringify(layout.form),
    codec: layout.codec,
    bootId: bootId.value,
    version: VERSION,
  };
  const name = `${createHash('sha256').update(JSON.stringify(origin)).digest('hex').slice(0, 32)}.proofs`;
  const known = await load(host, `${place.folder}/${name}`, origin);
  return new FolderProofs(host, known ?? new ProofTable(origin), options, async (bytes) => {
    if (bytes.length <= TABLE_BYTES_MOST) await keepInCache(place, name, bytes);
  });
}

async function load(host: Host, path: string, origin: ProofOrigin): Promise<ProofTable | null> {
  try {
    const bytes = await host.files.readSmall(path, TABLE_BYTES_MOST);
    return bytes === null ? null : ProofTable.decode(bytes, origin);
  } catch {
    // Whatever it is, the files themselves have the answer.
    return null;
  }
}

class FolderProofs implements Proofs {
  readonly reused = { files: 0, sinceMs: Number.POSITIVE_INFINITY };
  readonly #host: Host;
  readonly #table: ProofTable;
  readonly #write: (bytes: Uint8Array) => Promise<void>;
  readonly #sinceMs: number;
  #keptMs: number;
  #keeping: Promise<void> = Promise.resolve();

  constructor(host: Host, table: ProofTable, options: ProofOptions, write: (bytes: Uint8Array) => Promise<void>) {
    this.#host = host;
    this.#table = table;
    this.#write = write;
    this.#keptMs = host.clock.monotonicMs();
    const { scrub } = table;
    const goesOn = options.scrub !== undefined && scrub !== null && levelAtLeast(scrub.level, options.scrub);
    if (options.scrub !== undefined && !goesOn) table.scrub = { level: options.scrub, beganMs: host.clock.now() };
    this.#sinceMs = options.scrub === undefined ? 0 : (table.scrub?.beganMs ?? 0);
  }

  remembering(prober: Prober): Prober {
    return {
      probe: async (tasks, level, options) => {
        if (!levelAtLeast(level, 'structure')) return prober.probe(tasks, level, options);
        const unread = await this.#unchanged(prober, tasks, level, options);
        const paths = new Map(unread.map((task) => [task.row, task.path]));
        await prober.probe(unread, level, {
          ...options,
          onProbe: (row, probe) => {
            this.#remember(row, paths.get(row) ?? '', probe, level);
            options.onProbe(row, probe);
          },
        });
      },
    };
  }

  async keep(finished: boolean): Promise<void> {
    await this.#keeping;
    if (finished) this.#table.scrub = null;
    if (this.#table.changed || finished) await this.#write(this.#table.encode());
    this.#table.changed = false;
  }

  /** Hands over what is remembered of files that look as they did; gives the others. */
  async #unchanged(
    prober: Prober,
    tasks: readonly ProbeTask[],
    level: Level,
    options: Parameters<Prober['probe']>[2],
  ): Promise<ProbeTask[]> {
    const unread: ProbeTask[] = [];
    const known = new Map<number, { readonly task: ProbeTask; readonly probe: FileProbe; readonly madeMs: number }>();
    for (const task of tasks) {
      const found = this.#table.find(task.row, task.path, level, this.#sinceMs);
      if (found === null) unread.push(task);
      else known.set(task.row, { task, ...found });
    }
    await prober.probe(
      [...known.values()].map(({ task }) => task),
      'names',
      {
        signal: options.signal,
        onProbe: (row, looked) => {
          const entry = known.get(row);
          if (entry === undefined) return;
          if (looked.stat === null || entry.probe.stat === null || !sameFile(looked.stat, entry.probe.stat)) unread.push(entry.task);
          else {
            this.reused.files += 1;
            this.reused.sinceMs = Math.min(this.reused.sinceMs, entry.madeMs);
            options.onProbe(row, entry.probe);
          }
        },
      },
    );
    return unread;
  }

  #remember(row: number, path: string, probe: FileProbe, level: Level): void {
    const now = this.#host.clock.now();
    if (probe.stat === null || now - Math.max(probe.stat.changedMs, probe.stat.modifiedMs) < SETTLED_MS) return;
    this.#table.put(row, path, probe, { level, atMs: now });
    const monotonicMs = this.#host.clock.monotonicMs();
    if (monotonicMs - this.#keptMs < KEEP_MS) return;
    this.#keptMs = monotonicMs;
    this.#table.changed = false;
    this.#keeping = this.#keeping.then(() => this.#write(this.#table.encode())).catch(() => undefined);
  }
}
