import type { FileProbe } from '../assess/gather-probe.ts';
import type { Prober } from '../assess/gather-prober.ts';
import { levelAtLeast } from '../core/verdict.ts';
import type { Clock } from '../host/host.ts';

/** Files between two looks at the clock: a rate is held over them, so one huge file comes at once and is slept for. */
const GROUP_FILES = 4;

/**
 * Reads no faster than so many bytes a second, on average, so that a run that goes on keeps its disk. Only levels that read every byte
 * are held back.
 */
export function throttled(prober: Prober, bytesPerSecond: number, clock: Clock): Prober {
  let dueMs = 0;
  return {
    async probe(tasks, level, options) {
      if (!levelAtLeast(level, 'checksum')) return prober.probe(tasks, level, options);
      for (let from = 0; from < tasks.length; from += GROUP_FILES) {
        const now = clock.monotonicMs();
        if (dueMs > now) await clock.sleep(dueMs - now, options.signal);
        let bytes = 0;
        const onProbe = (row: number, probe: FileProbe): void => {
          bytes += probe.stat?.bytes ?? 0;
          options.onProbe(row, probe);
        };
        await prober.probe(tasks.slice(from, from + GROUP_FILES), level, { ...options, onProbe });
        dueMs = Math.max(dueMs, now) + (1000 * bytes) / bytesPerSecond;
      }
    },
  };
}
