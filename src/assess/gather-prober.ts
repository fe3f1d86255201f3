import type { Level } from '../core/verdict.ts';
import type { FileReader } from '../host/host.ts';
import type { StoreReader } from '../store/store.ts';
import { type Guard, pooled } from './gather-guard.ts';
import { type FileProbe, probeFile } from './gather-probe.ts';

export interface ProbeTask {
  /** The caller's own number for the file. */
  readonly row: number;
  /** Relative to the store's folder. */
  readonly path: string;
}

/** Reads many files. Here, or in other processes that may hang in place of this one. */
export interface Prober {
  /**
   * Each file is read to `level` and handed over as it comes, in no order. A file that was not answered for is a probe with a refusal.
   * @throws only for trouble that is no refusal, and the signal's reason
   */
  probe(
    tasks: readonly ProbeTask[],
    level: Level,
    options: { readonly onProbe: (row: number, probe: FileProbe) => void; readonly signal?: AbortSignal | undefined },
  ): Promise<void>;
}

/** @param width files open at once */
export function proberHere(files: FileReader, store: StoreReader, guard: Guard, width: number): Prober {
  const tools = { files, store, limit: guard.run };
  return {
    probe: (tasks, level, { onProbe, signal }) =>
      pooled(tasks, width, async ({ row, path }) => {
        signal?.throwIfAborted();
        onProbe(row, await probeFile(tools, path, level));
      }),
  };
}
