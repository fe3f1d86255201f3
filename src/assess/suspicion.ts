import { countOf, type IndexRange, indicesOf, rangesOf } from '../core/ranges.ts';
import { VERDICT_KINDS } from '../core/verdict.ts';
import type { Gathered } from './gathered.ts';
import { volumeChange } from './host-rules.ts';
import type { Judged } from './judge.ts';
import { isRunning } from './running-signs.ts';
import { type SuspectWindow, suspectRows, suspectWindow } from './suspects.ts';
import type { TimesSeen } from './times.ts';

export interface Suspicion {
  readonly ranges: readonly IndexRange[];
  readonly bytes: number;
  readonly window: SuspectWindow | null;
  readonly source: string | null;
}

/** Which sound files may have lost bytes, and why. Nothing is suspect while the run lives or where the page cache never went away. */
export function suspicionOf(gathered: Gathered, judged: Judged, times: TimesSeen | null): Suspicion {
  const change = volumeChange(gathered);
  const none = { ranges: [], bytes: 0, window: null, source: null };
  if (times === null || (change === null && (isRunning(gathered) || sameBoot(gathered)))) return none;
  const window = suspectWindow(times.lastMs, gathered.host, times.endStall);
  const wholeTree =
    change !== null ? { why: change, recorded: true } : times.implausible !== null ? { why: times.implausible, recorded: false } : null;
  const sound = VERDICT_KINDS.indexOf('sound');
  const rows = suspectRows(gathered.columns, { window, wholeTree, isSound: (row) => judged.kinds[row] === sound });
  const ranges = rangesOf(rows);
  return {
    ranges,
    bytes: bytesOf(gathered, ranges),
    window,
    source: wholeTree === null ? window.source : `the whole tree: ${wholeTree.why}`,
  };
}

/** The machine has not booted since the last start: what was written is in its memory still, or on disk. */
function sameBoot(gathered: Gathered): boolean {
  const start = gathered.ledger?.lastStart;
  const { bootId, hostname } = gathered.host;
  return start != null && bootId.known && start.bootId === bootId.value && start.hostname === hostname;
}

function bytesOf(gathered: Gathered, ranges: readonly IndexRange[]): number {
  let bytes = 0;
  for (const row of indicesOf(ranges)) bytes += gathered.columns.bytes[row] ?? 0;
  return bytes;
}

const DEEPEN_FILES_MOST = 512;
const DEEPEN_BYTES_MOST = 4 * 2 ** 30;

/** Whether the suspects are few enough to be read to the end at once; more than that becomes a step of the plan. */
export function fitsNow(suspicion: Suspicion): boolean {
  const count = countOf(suspicion.ranges);
  return count > 0 && count <= DEEPEN_FILES_MOST && suspicion.bytes <= DEEPEN_BYTES_MOST;
}
