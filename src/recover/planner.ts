import { EXIT, type ExitCode } from '../core/exit.ts';
import { countOf, type IndexRange, indicesOf, mergeRanges } from '../core/ranges.ts';
import type { Plan, PlanExtract, PlanStep, Rate, Report, VerdictGroup } from '../core/report.ts';

/** What the plan is made from; every range ascending and merged. */
export interface PlanFacts {
  readonly groups: readonly VerdictGroup[];
  /** Missing rows that the run gave up after its tries. */
  readonly finalFailures: readonly IndexRange[];
  /** Poisoned again after they were made anew: extracting a third time would not help. */
  readonly poisonedTwice: readonly IndexRange[];
  readonly suspect: readonly IndexRange[];
  /** Sound files that no journal has. */
  readonly unrecorded: readonly IndexRange[];
  /** Codes of findings that only a person can settle. */
  readonly blockers: readonly string[];
  /** Tokens of a row, or null where no dataset tells. */
  readonly tokensOf: ((row: number) => number | null) | null;
  /** Bytes a token costs in files that are known good; null where there are none. */
  readonly bytesPerToken: number | null;
  readonly rates: readonly Rate[];
  /** Rows that the operator gave up: a bad file of theirs is set aside and not made again. Default: none. */
  readonly accepted?: readonly IndexRange[];
}

export interface PlanOptions {
  /** Rows that failed for good are tried again. Default false: they stay failed. */
  readonly retryFailed: boolean;
}

const SET_ASIDE = ['torn', 'corrupt', 'poisoned'];

/** What to do next, in order, and what it costs. Says nothing of how. */
export function planOf(facts: PlanFacts, options: PlanOptions): Plan {
  const damaged = rangesOfGroups(facts.groups, (group) => SET_ASIDE.includes(group.verdict));
  const accepted = facts.accepted ?? [];
  const poisonedTwice = without(facts.poisonedTwice, accepted);
  const redo = without(damaged, poisonedTwice);
  const missing = rangesOfGroups(facts.groups, (group) => group.verdict === 'missing' && group.reason !== 'accepted');
  const wanted = options.retryFailed ? missing : without(missing, facts.finalFailures);
  const extract = mergeRanges([...wanted, ...without(redo, accepted)]);
  const drifted = rangesOfGroups(facts.groups, (group) => group.verdict === 'drifted');
  const decide = mergeRanges([...drifted, ...poisonedTwice]);
  const steps: PlanStep[] = [];
  const add = (what: PlanStep['what'], text: string, ranges: readonly IndexRange[]): void => {
    if (ranges.length > 0) steps.push({ what, text, ranges, count: countOf(ranges) });
  };
  add('decide', 'settle which dataset is right, or what the engine does wrong, before anything is made again', decide);
  add('verify', 'read every byte of the files that may have lost some', facts.suspect);
  add('set-aside', 'move damaged files into .tidemark/quarantine', redo);
  add('adopt', 'record the sound files that no journal has', facts.unrecorded);
  add('extract', 'extract what is missing and what was set aside', extract);
  return { steps, extract: costOf(extract, facts), blockers: facts.blockers };
}

function costOf(ranges: readonly IndexRange[], facts: PlanFacts): PlanExtract {
  const count = countOf(ranges);
  const tokens = facts.tokensOf === null ? null : sumTokens(ranges, facts.tokensOf);
  const bytes = tokens === null || facts.bytesPerToken === null ? null : Math.round(tokens * facts.bytesPerToken);
  const rates = facts.rates.map((rate) => ({
    ...rate,
    seconds: tokens !== null && rate.tokensPerSecond !== undefined ? tokens / rate.tokensPerSecond : count / rate.perSecond,
  }));
  const seconds = rates.map((rate) => rate.seconds);
  return {
    ranges,
    count,
    tokens,
    bytes,
    seconds: seconds.length === 0 ? null : [Math.min(...seconds), Math.max(...seconds)],
    rates,
  };
}

function sumTokens(ranges: readonly IndexRange[], tokensOf: (row: number) => number | null): number | null {
  let sum = 0;
  for (const row of indicesOf(ranges)) {
    const tokens = tokensOf(row);
    if (tokens === null) return null;
    sum += tokens;
  }
  return sum;
}

function rangesOfGroups(groups: readonly VerdictGroup[], keep: (group: VerdictGroup) => boolean): IndexRange[] {
  return mergeRanges(groups.filter(keep).flatMap((group) => group.ranges));
}

/** `ranges` less `holes`; both ascending and merged. */
export function without(ranges: readonly IndexRange[], holes: readonly IndexRange[]): IndexRange[] {
  const left: IndexRange[] = [];
  let at = 0;
  for (const [from, to] of ranges) {
    let start = from;
    while ((holes[at]?.[1] ?? Number.POSITIVE_INFINITY) <= start) at += 1;
    for (let hole = at; (holes[hole]?.[0] ?? Number.POSITIVE_INFINITY) < to; hole += 1) {
      const [holeFrom, holeTo] = holes[hole] ?? [to, to];
      if (holeFrom > start) left.push([start, holeFrom]);
      start = Math.max(start, holeTo);
    }
    if (start < to) left.push([start, to]);
  }
  return left;
}

/**
 * 0 complete, 3 something that `resume` (or `verify`) can finish, 4 a person must choose first. A report without a dataset is
 * never complete: nothing says how many rows there should be.
 */
export function exitOf(report: Report): ExitCode {
  if (report.dataset === null || report.plan.blockers.length > 0 || report.totals.drifted > 0) return EXIT.decision;
  const workIsLeft = report.plan.extract.count > 0 || report.plan.steps.some((step) => step.what === 'set-aside');
  if (workIsLeft || report.suspect.length > 0 || report.running !== null) {
    return isComplete(report) && report.suspect.length === 0 ? EXIT.complete : EXIT.incomplete;
  }
  // Nothing is left that would be done without being told: what is not sound has failed for good, or the machine will not show it.
  return isComplete(report) ? EXIT.complete : EXIT.decision;
}

function isComplete(report: Report): boolean {
  return report.totals.sound + report.missing.accepted === report.totals.rows;
}
