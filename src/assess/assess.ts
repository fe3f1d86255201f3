import type { Finding, Severity } from '../core/finding.ts';
import { indicesOf, rangesOf } from '../core/ranges.ts';
import type { Plan, Rate, Report, VerdictGroup } from '../core/report.ts';
import { levelAtLeast, VERDICT_KINDS } from '../core/verdict.ts';
import { crashFindings, type EndSeen } from './crash-rules.ts';
import { type FindingContext, sampleFindings, twicePoisoned } from './findings.ts';
import { type AssessDeps, type Gathering, type GatherOptions, gather } from './gather.ts';
import type { Gathered, SecondLook } from './gathered.ts';
import { hostFindings } from './host-rules.ts';
import { type Judged, judge } from './judge.ts';
import { ledgerFindings } from './ledger-rules.ts';
import { leftoverFindings } from './leftover-findings.ts';
import { mountFindings } from './mount-rules.ts';
import { placeByContent } from './placement.ts';
import { reportOf } from './report.ts';
import { isRunning, markOpenFiles, waitBeforeSecondLook } from './running-signs.ts';
import { fitsNow, type Suspicion, suspicionOf } from './suspicion.ts';
import { eventsAround } from './system-log.ts';
import { readTimes, type TimesSeen } from './times.ts';
import { treeFindings } from './tree-findings.ts';

export interface AssessOptions extends GatherOptions {
  /** Makes the plan: `planOf` of recover/planner.ts. Handed in, because assessment knows nothing of recovery. */
  readonly plan: (facts: PlanInput) => Plan;
  /** Samples a second that the operator expects: one more source for the time that is left. */
  readonly rate?: number;
  /** What is odd about a run's own dataset file, which was not read. */
  readonly datasetNote?: string | null;
  /** Why the run's own record cannot be used, where the folder was a run of ours. */
  readonly lostRun?: string | null;
  /** Files left in the engine's staging folder, where the caller has looked. */
  readonly staged?: { readonly folder: string; readonly files: number; readonly bytes: number } | null;
}

/** The shape of recover/planner.ts's `PlanFacts`; the compiler compares the two where they meet. */
export interface PlanInput {
  readonly groups: readonly VerdictGroup[];
  readonly finalFailures: Report['suspect'];
  readonly poisonedTwice: Report['suspect'];
  readonly suspect: Report['suspect'];
  readonly unrecorded: Report['suspect'];
  readonly blockers: readonly string[];
  readonly tokensOf: ((row: number) => number | null) | null;
  readonly bytesPerToken: number | null;
  readonly rates: readonly Rate[];
  readonly accepted: Report['suspect'];
}

/** A finding of these is nothing that a program may settle. */
const BLOCKERS = ['TM-D01', 'TM-D02', 'TM-S03', 'TM-E01', 'TM-E02', 'TM-H21'];

/**
 * Says of every row what is true of it now, to the level asked, and what to do next. Writes nothing, starts nothing,
 * kills nothing.
 */
export async function assessFolder(deps: AssessDeps, options: AssessOptions): Promise<Report> {
  const gathering = await gather(deps, options);
  try {
    return await conclude(gathering, options);
  } finally {
    gathering.dispose();
  }
}

async function conclude(gathering: Gathering, options: AssessOptions): Promise<Report> {
  const times = timesOf(gathering.gathered);
  const usualGapMs = times?.usualGapMs ?? 0;
  let gathered = placeByContent(gathering.gathered);
  let judged = judge(gathered, usualGapMs);
  let suspicion = suspicionOf(gathered, judged, times);
  let readAtOnce: Suspicion | null = null;
  if (options.level === 'identity' && fitsNow(suspicion)) {
    readAtOnce = suspicion;
    await gathering.deepen([...indicesOf(suspicion.ranges)].map((row) => numberOf(gathered, row)));
    gathered = placeByContent(gathering.gathered);
    judged = judge(gathered, usualGapMs);
    suspicion = suspicionOf(gathered, judged, times);
  }
  const secondLook = await lookAgain(gathering, gathered, times, options);
  if (secondLook !== null || judged.running) {
    gathered = placeByContent(openNow(gathering.gathered, secondLook));
    judged = judge(gathered, usualGapMs);
    suspicion = suspicionOf(gathered, judged, times);
  }
  const context: FindingContext = { gathered, judged, lostRun: options.lostRun ?? null, datasetNote: options.datasetNote ?? null };
  const norms = levelAtLeast(options.level, 'identity')
    ? await gathering.norms(soundRows(gathered, judged), (row) => numberOf(gathered, row))
    : null;
  const end = await endOf(gathering, judged, times);
  const samples = [...sampleFindings(context), ...leftoverFindings(context), ...treeFindings({ ...context, norms })];
  const ledger = ledgerFindings(context);
  const mounts = mountFindings(context);
  const codes = new Set([...samples, ...ledger, ...mounts].map((found) => found.code));
  const plan = options.plan({
    groups: judged.groups,
    finalFailures: rangesOf(judged.finalFailures),
    poisonedTwice: rangesOf(twicePoisoned(context)),
    suspect: suspicion.ranges,
    // While the run lives, a file without a record is one whose record is on its way.
    unrecorded: judged.running ? [] : rangesOf(judged.unrecorded),
    blockers: BLOCKERS.filter((code) => codes.has(code)),
    tokensOf: tokensOf(gathered),
    bytesPerToken: bytesPerToken(gathered, judged),
    rates: [
      ...(times?.rates ?? []),
      ...(options.rate === undefined || !(options.rate > 0) ? [] : [{ perSecond: options.rate, source: 'given with --rate' }]),
    ],
    accepted: gathered.ledger?.accepted ?? [],
  });
  const host = hostFindings({
    ...context,
    suspect: suspicion,
    readAtOnce,
    timesProblem: gathered.ledger === null ? (times?.implausible ?? null) : null,
    lastMs: times?.lastMs ?? null,
    extract: plan.extract,
    staged: options.staged ?? null,
  });
  const crash = crashFindings({ ...context, end, pace: times?.pace ?? null });
  const findings = inOrder([...samples, ...ledger, ...mounts, ...host, ...crash]);
  return reportOf({ gathered, judged, times, suspicion, plan, findings, end });
}

/** A second look at the newest files. Who holds the run's own lease changes them itself; where somebody is known to write, nothing is left to be told. */
async function lookAgain(
  gathering: Gathering,
  gathered: Gathered,
  times: TimesSeen | null,
  options: AssessOptions,
): Promise<SecondLook | null> {
  if (times === null || options.ownLease !== undefined || isRunning(gathered)) return null;
  const { nowMs, columns } = gathered;
  // A run of ours holds a lease while it lives, and it holds none: nothing is worth a wait.
  const waits = gathered.ledger === null || gathered.ledger.holder?.alive === 'unknown';
  const lastMs = columns.modifiedMs.reduce((most, ms) => Math.max(most, ms), 0);
  const { usualGapMs } = times;
  return gathering.lookAgain((passedMs) => (waits ? waitBeforeSecondLook({ lastMs, nowMs, usualGapMs, passedMs }) : 0));
}

/** While something runs, files that are still growing are not torn. */
function openNow(gathered: Gathered, secondLook: SecondLook | null): Gathered {
  const seen = { ...gathered, secondLook };
  if (isRunning(seen)) markOpenFiles(seen.columns, secondLook?.grown ?? []);
  return seen;
}

/** The number of the file that a row's facts were read from. */
function numberOf(gathered: Gathered, row: number): number {
  return gathered.placed?.fileOf[row] ?? row;
}

function soundRows(gathered: Gathered, judged: Judged): number[] {
  const sound = VERDICT_KINDS.indexOf('sound');
  const rows: number[] = [];
  for (let row = 0; row < gathered.columns.rows; row += 1) if (judged.kinds[row] === sound) rows.push(row);
  return rows;
}

/** What the machine's logs say of the end. While something runs there was none; without a file nobody knows where to look. */
async function endOf(gathering: Gathering, judged: Judged, times: TimesSeen | null): Promise<EndSeen> {
  if (judged.running || times === null) return { events: [], notRead: [] };
  const { events, notRead } = await gathering.systemLog();
  const { bootedAt } = gathering.gathered.host;
  return { events: eventsAround(events, times.lastMs, bootedAt.known ? Date.parse(bootedAt.value) : null), notRead };
}

const SEVERITIES: readonly Severity[] = ['error', 'warning', 'info'];

/** The worst first; within one severity as the rules gave them. */
function inOrder(findings: readonly Finding[]): Finding[] {
  return SEVERITIES.flatMap((severity) => findings.filter((found) => found.severity === severity));
}

/** When each file came: the journals' word where they have one, the files' own times otherwise. */
function timesOf(gathered: Gathered): TimesSeen | null {
  const { columns } = gathered;
  const table = gathered.dataset?.table;
  const times: number[] = [];
  const tokens: number[] = [];
  let recorded = 0;
  for (let row = 0; row < columns.rows; row += 1) {
    const modified = columns.modifiedMs[row] ?? 0;
    if (modified === 0) continue;
    const committed = columns.committedMs[row] ?? 0;
    if (committed !== 0) recorded += 1;
    times.push(committed !== 0 ? committed : modified);
    // What the file holds, where that was read; padding takes its time, too.
    const held = columns.fileTokens[row] ?? 0;
    tokens.push(held > 0 ? held : (table?.at(row)?.tokens ?? 0));
  }
  const source =
    recorded === times.length ? "the journals' commit times" : recorded === 0 ? "the files' own times" : "journals and files' own times";
  const known = tokens.length > 0 && tokens.every((count) => count > 0);
  return readTimes(Float64Array.from(times), gathered.nowMs, source, known ? Float64Array.from(tokens) : null);
}

function tokensOf(gathered: Gathered): ((row: number) => number | null) | null {
  const table = gathered.dataset?.table;
  return table === undefined ? null : (row) => table.at(row)?.tokens ?? null;
}

/** What a token of a row costs on disk, padding and headers included, in files that are known good. */
function bytesPerToken(gathered: Gathered, judged: Judged): number | null {
  const table = gathered.dataset?.table;
  if (table === undefined) return null;
  const sound = VERDICT_KINDS.indexOf('sound');
  let bytes = 0;
  let tokens = 0;
  for (let row = 0; row < gathered.columns.rows; row += 1) {
    if (judged.kinds[row] !== sound) continue;
    bytes += gathered.columns.bytes[row] ?? 0;
    tokens += table.at(row)?.tokens ?? 0;
  }
  return tokens === 0 ? null : bytes / tokens;
}
