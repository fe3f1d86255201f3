/** What the files' own times say about the run. */
export interface TimesSeen {
  readonly files: number;
  readonly firstMs: number;
  readonly lastMs: number;
  /** Why the times prove nothing, or null when they are those of a run. */
  readonly implausible: string | null;
  readonly rates: readonly { readonly perSecond: number; readonly source: string }[];
}

/** No engine writes samples faster; a copy does. */
const FASTEST_PER_SECOND = 2000;
/** Fewer files than this say nothing about a pace. */
const FILES_LEAST = 3;
const CLOCK_SLACK_MS = 5 * 60_000;
/** A gap is a pause when it is this many times the usual distance of two files, and this long. */
const PAUSE_FACTOR = 20;
const PAUSE_LEAST_MS = 60_000;

/**
 * @param times milliseconds of one event per file, in any order; sorted in place
 * @param source `the files' own times` or `the journals' commit times`
 */
export function readTimes(times: Float64Array, nowMs: number, source: string): TimesSeen | null {
  if (times.length === 0) return null;
  times.sort();
  const firstMs = times[0] ?? 0;
  const lastMs = times.at(-1) ?? 0;
  const seen = { files: times.length, firstMs, lastMs };
  const spanMs = lastMs - firstMs;
  const implausible = whyImplausible(times.length, firstMs, lastMs, nowMs);
  if (implausible !== null || times.length < FILES_LEAST || spanMs <= 0) return { ...seen, implausible, rates: [] };
  const whole = ((times.length - 1) / spanMs) * 1000;
  const plateau = plateauOf(times);
  const rates = [{ perSecond: whole, source: `the whole run's, from ${source}` }];
  // Without pauses both are one number, and saying it twice would look like two proofs.
  if (plateau !== null && plateau > whole * 1.02)
    rates.unshift({ perSecond: plateau, source: `the plateau's, from ${source} without pauses` });
  return { ...seen, implausible, rates };
}

function whyImplausible(files: number, firstMs: number, lastMs: number, nowMs: number): string | null {
  if (lastMs > nowMs + CLOCK_SLACK_MS) return `the newest file is dated ${new Date(lastMs).toISOString()}, in the future`;
  if (firstMs < Date.UTC(2015, 0)) return `the oldest file is dated ${new Date(firstMs).toISOString()}, before hidden states were a thing`;
  const spanMs = lastMs - firstMs;
  if (files >= 1000 && files / Math.max(spanMs / 1000, 0.001) > FASTEST_PER_SECOND) {
    return `${files} files within ${(spanMs / 1000).toFixed(1)} s: the times are those of a copy`;
  }
  return null;
}

/** The pace while files were coming: pauses (restarts, stalls) left out. */
function plateauOf(times: Float64Array): number | null {
  const gaps = new Float64Array(times.length - 1);
  for (let i = 0; i < gaps.length; i += 1) gaps[i] = (times[i + 1] ?? 0) - (times[i] ?? 0);
  const sorted = Float64Array.from(gaps).sort();
  const usual = sorted[Math.floor(sorted.length / 2)] ?? 0;
  const pause = Math.max(PAUSE_LEAST_MS, usual * PAUSE_FACTOR);
  let busyMs = 0;
  let count = 0;
  for (const gap of gaps) {
    if (gap > pause) continue;
    busyMs += gap;
    count += 1;
  }
  return busyMs > 0 ? (count / busyMs) * 1000 : null;
}
