import type { Pace, Rate } from '../core/report.ts';

/** What the files' own times say about the run. */
export interface TimesSeen {
  readonly files: number;
  readonly firstMs: number;
  readonly lastMs: number;
  /** Why the times prove nothing, or null when they are those of a run. */
  readonly implausible: string | null;
  readonly rates: readonly Rate[];
  readonly pace: Pace | null;
  /** The longest silence among the last files: storage that stalled before the end. null where there was none. */
  readonly endStall: { readonly fromMs: number; readonly toMs: number } | null;
  /** The usual distance of two files; 0 where there are too few. */
  readonly usualGapMs: number;
}

/** No engine writes samples faster; a copy does. */
const FASTEST_PER_SECOND = 2000;
/** Fewer files than this say nothing about a pace. */
const FILES_LEAST = 3;
/** So many files with one and the same time, and that many of all, were not written one after the other. */
const EQUAL_LEAST = 64;
const EQUAL_SHARE = 0.5;
const ALL_EQUAL_LEAST = 16;
const CLOCK_SLACK_MS = 5 * 60_000;
/** A gap is a pause when it is this many times the usual distance of two files, and this long. */
const PAUSE_FACTOR = 20;
const PAUSE_LEAST_MS = 60_000;
const STALLS_NAMED = 10;
/** So many files at the end are looked at for a stall of the storage; it may be shorter than what counts as a pause. */
const END_FILES = 64;
const END_STALL_LEAST_MS = 10_000;

/**
 * @param times milliseconds of one event per file, in any order; sorted in place
 * @param source `the files' own times` or `the journals' commit times`
 * @param tokens of each file in the order of `times` as given, where all are known
 */
export function readTimes(times: Float64Array, nowMs: number, source: string, tokens: Float64Array | null = null): TimesSeen | null {
  if (times.length === 0) return null;
  const inOrder = tokens === null ? null : sortedWith(times, tokens);
  if (inOrder === null) times.sort();
  const firstMs = times[0] ?? 0;
  const lastMs = times.at(-1) ?? 0;
  const seen = { files: times.length, firstMs, lastMs, pace: null, endStall: null, usualGapMs: 0 };
  const spanMs = lastMs - firstMs;
  const implausible = whyImplausible(times, nowMs);
  if (implausible !== null || times.length < FILES_LEAST || spanMs <= 0) return { ...seen, implausible, rates: [] };
  const gaps = gapsOf(times);
  const usualGapMs = Float64Array.from(gaps).sort()[Math.floor(gaps.length / 2)] ?? 0;
  const pauseMs = Math.max(PAUSE_LEAST_MS, usualGapMs * PAUSE_FACTOR);
  const whole = rateOf(gaps, inOrder, () => true, `the whole run's, from ${source}`);
  const plateau = rateOf(gaps, inOrder, (gap) => gap <= pauseMs, `the plateau's, from ${source} without pauses`);
  // Without pauses both are one number, and saying it twice would look like two proofs.
  const apart = plateau !== null && whole !== null && plateau.perSecond > whole.perSecond * 1.02;
  return {
    ...seen,
    implausible,
    rates: [...(apart ? [plateau] : []), ...(whole === null ? [] : [whole])],
    pace: { plateau: plateau?.perSecond ?? null, whole: whole?.perSecond ?? null, ...stallsOf(times, gaps, pauseMs), source },
    endStall: endStallOf(times, gaps, usualGapMs),
    usualGapMs,
  };
}

/** Sorts the times and gives the tokens in the same order. */
function sortedWith(times: Float64Array, tokens: Float64Array): Float64Array {
  const order = Uint32Array.from(times, (_, at) => at).sort((a, b) => (times[a] ?? 0) - (times[b] ?? 0));
  const sorted = Float64Array.from(order, (at) => times[at] ?? 0);
  const beside = Float64Array.from(order, (at) => tokens[at] ?? 0);
  times.set(sorted);
  return beside;
}

function gapsOf(times: Float64Array): Float64Array {
  const gaps = new Float64Array(times.length - 1);
  for (let i = 0; i < gaps.length; i += 1) gaps[i] = (times[i + 1] ?? 0) - (times[i] ?? 0);
  return gaps;
}

/** The pace over the gaps that count; each gap made the file behind it. */
function rateOf(gaps: Float64Array, tokens: Float64Array | null, counts: (gap: number) => boolean, source: string): Rate | null {
  let busyMs = 0;
  let files = 0;
  let made = 0;
  for (const [i, gap] of gaps.entries()) {
    if (!counts(gap)) continue;
    busyMs += gap;
    files += 1;
    made += tokens?.[i + 1] ?? 0;
  }
  if (busyMs <= 0) return null;
  const perSecond = (files / busyMs) * 1000;
  return made > 0 ? { perSecond, tokensPerSecond: (made / busyMs) * 1000, source } : { perSecond, source };
}

function stallsOf(times: Float64Array, gaps: Float64Array, pauseMs: number): Pick<Pace, 'stalls' | 'stallCount' | 'stalledSeconds'> {
  const found: { fromMs: number; ms: number }[] = [];
  let stalledMs = 0;
  for (const [i, ms] of gaps.entries()) {
    if (ms <= pauseMs) continue;
    stalledMs += ms;
    found.push({ fromMs: times[i] ?? 0, ms });
  }
  const stalls = found
    .sort((a, b) => b.ms - a.ms)
    .slice(0, STALLS_NAMED)
    .map(({ fromMs, ms }) => ({ from: iso(fromMs), to: iso(fromMs + ms) }));
  return { stalls, stallCount: found.length, stalledSeconds: Math.round(stalledMs / 1000) };
}

/** Storage that is about to go away answers more and more slowly: what was written before its last long silence may be lost, too. */
function endStallOf(times: Float64Array, gaps: Float64Array, usualGapMs: number): TimesSeen['endStall'] {
  const least = Math.max(END_STALL_LEAST_MS, usualGapMs * PAUSE_FACTOR);
  let at = -1;
  for (let i = Math.max(0, gaps.length - END_FILES); i < gaps.length; i += 1) {
    if ((gaps[i] ?? 0) >= least && (at < 0 || (gaps[i] ?? 0) > (gaps[at] ?? 0))) at = i;
  }
  return at < 0 ? null : { fromMs: times[at] ?? 0, toMs: times[at + 1] ?? 0 };
}

function iso(ms: number): string {
  return new Date(Math.round(ms)).toISOString();
}

/** @param times ascending, not empty */
function whyImplausible(times: Float64Array, nowMs: number): string | null {
  const files = times.length;
  const firstMs = times[0] ?? 0;
  const lastMs = times.at(-1) ?? 0;
  if (lastMs > nowMs + CLOCK_SLACK_MS) return `the newest file is dated ${iso(lastMs)}, in the future`;
  if (firstMs < Date.UTC(2015, 0)) return `the oldest file is dated ${iso(firstMs)}, before hidden states were a thing`;
  const spanMs = lastMs - firstMs;
  if (files >= 1000 && files / Math.max(spanMs / 1000, 0.001) > FASTEST_PER_SECOND) {
    return `${files} files within ${(spanMs / 1000).toFixed(1)} s: the times are those of a copy`;
  }
  const equal = mostEqual(times);
  if (equal.files >= (equal.files === files ? ALL_EQUAL_LEAST : Math.max(EQUAL_LEAST, files * EQUAL_SHARE))) {
    return `${equal.files} of ${files} files are dated ${iso(equal.ms)}: the times were set, by a copy or an archive`;
  }
  return null;
}

/** The time that most files have. */
function mostEqual(times: Float64Array): { readonly files: number; readonly ms: number } {
  let most = { files: 0, ms: 0 };
  let from = 0;
  for (let at = 1; at <= times.length; at += 1) {
    if (times[at] === times[from]) continue;
    if (at - from > most.files) most = { files: at - from, ms: times[from] ?? 0 };
    from = at;
  }
  return most;
}
