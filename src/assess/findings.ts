import { isAdoptable } from '../core/adoptable.ts';
import type { Finding, Remedy, Severity } from '../core/finding.ts';
import { formatRanges, type IndexRange, mergeRanges, rangesOf } from '../core/ranges.ts';
import { counted, formatCount, plural } from '../core/units.ts';
import type { Reason, VerdictKind } from '../core/verdict.ts';
import { unpackFacts } from './facts.ts';
import type { Gathered } from './gathered.ts';
import type { Judged } from './judge.ts';
import { describeRows, oddTokens } from './row-words.ts';

export interface FindingContext {
  readonly gathered: Gathered;
  readonly judged: Judged;
  /** Why the run's own record cannot be used, where the folder was a run of ours. */
  readonly lostRun: string | null;
  /** What is odd about a run's own dataset file, which was not read. */
  readonly datasetNote: string | null;
}

/** Commands that compare a tree with rows. */
const TOLD_THE_DATASET = ['assess', 'verify', 'adopt'];

/** Commands name the folder that was assessed, so that they can be pasted as they are. */
export function command(context: FindingContext, verb: string, ...rest: readonly string[]): readonly string[] {
  const { folder, told } = context.gathered;
  if (!TOLD_THE_DATASET.includes(verb)) return ['tidemark', verb, folder, ...rest];
  // A run of ours remembers its dataset; any other tree has to be told each time, but for what the command says itself.
  const flags: string[] = [];
  for (let at = 0; at < told.length; at += 2) if (!rest.includes(told[at] ?? '')) flags.push(...told.slice(at, at + 2));
  return ['tidemark', verb, folder, ...rest, ...flags];
}

/** The remedy that `resume` carries out. A tree in a layout that we write is adopted first; any other can only be proved. */
export function goOn(context: FindingContext, text: string): Remedy {
  if (context.gathered.ledger !== null) return { text, kind: 'fix', commands: [command(context, 'resume')] };
  if (isAdoptable(context.gathered.layout)) {
    return { text: `${text}: adopt the tree, then resume`, kind: 'fix', commands: [command(context, 'adopt')] };
  }
  return {
    text: `${text}; this tree has no run's record to go on with, but it can be proved`,
    kind: 'fix',
    commands: [command(context, 'verify', '--level', 'checksum')],
  };
}

export function finding(
  code: string,
  severity: Severity,
  title: string,
  evidence: string,
  remedy: Remedy,
  ranges?: readonly IndexRange[],
): Finding {
  return { code, severity, title, evidence, remedy, ...(ranges === undefined ? {} : { ranges }) };
}

/** What is wrong with samples and files, and with the engine that made them. */
export function sampleFindings(context: FindingContext): Finding[] {
  return [
    ...damagedFiles(context),
    ...driftedFiles(context),
    ...poisonedFiles(context),
    ...unreadableFiles(context),
    ...missingFiles(context),
    ...unrecordedFiles(context),
  ];
}

function rangesIn(context: FindingContext, verdict: VerdictKind, reason?: Reason): IndexRange[] {
  const groups = context.judged.groups.filter((group) => group.verdict === verdict && (reason === undefined || group.reason === reason));
  return mergeRanges(groups.flatMap((group) => group.ranges));
}

function byReason(context: FindingContext, verdict: VerdictKind): string {
  const groups = context.judged.groups.filter((group) => group.verdict === verdict);
  return groups.map((group) => `${formatCount(group.count)} ${group.reason}`).join(', ');
}

export function files(count: number): string {
  return `${counted(count, 'file')}`;
}

function damagedFiles(context: FindingContext): Finding[] {
  const { gathered, judged } = context;
  const found: Finding[] = [];
  const repair = goOn(context, 'move them into .tidemark/quarantine and extract their rows again; nothing is deleted');
  if (judged.counts.torn > 0) {
    const ranges = rangesIn(context, 'torn');
    const title = `${files(judged.counts.torn)} ${plural(judged.counts.torn, 'is', 'are')} torn`;
    found.push(
      finding('TM-S01', 'error', title, `${byReason(context, 'torn')}; ${describeRows(gathered.columns, ranges)}`, repair, ranges),
    );
  }
  if (judged.counts.corrupt > 0) {
    const ranges = rangesIn(context, 'corrupt');
    const title = `${files(judged.counts.corrupt)} ${plural(judged.counts.corrupt, 'has', 'have')} the wrong checksum`;
    found.push(finding('TM-S02', 'error', title, `checksum: ${describeRows(gathered.columns, ranges)}`, repair, ranges));
  }
  return found;
}

function driftedFiles(context: FindingContext): Finding[] {
  const { gathered, judged } = context;
  if (judged.counts.drifted === 0) return [];
  const { shifts, holds } = judged.drift;
  const gone = [...holds.values()].filter((held) => held === null).length;
  const parts = shifts.map(
    (shift) =>
      `from row ${shift.from} to ${shift.to - 1} the ${files(shift.count)} ${plural(shift.count, 'holds', 'hold')} the row ${Math.abs(shift.by)} ${shift.by < 0 ? 'before' : 'behind'} ${plural(shift.count, 'its', 'their')} own`,
  );
  if (gone > 0) parts.push(`${files(gone)} with a row that is not in this dataset: ${formatRanges(rangesOf(goneRows(holds)))}`);
  const other = judged.counts.drifted - judged.drift.shifted.size;
  if (other > 0) parts.push(`${files(other)} with another row, without a common shift`);
  const evidence = `token ids stored in the files against ${gathered.dataset?.path ?? 'the journals'}: ${parts.join('; ')}`;
  const remedy: Remedy = {
    text: 'find the dataset that the files were made from; if this one is right, the files are good under other numbers and must not be extracted over',
    kind: 'decision',
    commands: [command(context, 'assess', '--dataset', 'THE-DATASET-OF-THE-RUN.jsonl')],
  };
  const title = `${files(judged.counts.drifted)} ${plural(judged.counts.drifted, 'holds', 'hold')} another row than ${plural(judged.counts.drifted, 'its name says', 'their names say')}`;
  return [finding('TM-S03', 'error', title, evidence, remedy, rangesIn(context, 'drifted'))];
}

function* goneRows(holds: ReadonlyMap<number, number | null>): Generator<number> {
  for (const [row, held] of holds) if (held === null) yield row;
}

function poisonedFiles(context: FindingContext): Finding[] {
  const { gathered, judged } = context;
  const found: Finding[] = [];
  if (judged.counts.poisoned > 0) {
    const ranges = rangesIn(context, 'poisoned');
    const title = `${files(judged.counts.poisoned)} ${plural(judged.counts.poisoned, 'is', 'are')} whole, but what ${plural(judged.counts.poisoned, 'it holds is', 'they hold is')} no hidden state`;
    const remedy = goOn(context, 'set them aside and extract their rows once more; if they come out bad again, the engine is at fault');
    found.push(
      finding('TM-S04', 'error', title, `${byReason(context, 'poisoned')}; ${describeRows(gathered.columns, ranges)}`, remedy, ranges),
    );
  }
  const twice = twicePoisoned(context);
  if (twice.length > 0) {
    const remedy: Remedy = {
      text: 'look at the engine before a third try: prefix cache, precision and parallelism are the usual causes',
      kind: 'decision',
      commands: [command(context, 'assess', '--level', 'content')],
    };
    const evidence = 'the journals say that an earlier file of these rows was set aside as poisoned, and the new one is, too';
    found.push(finding('TM-E01', 'error', 'the engine gives bad states for the same rows again', evidence, remedy, rangesOf(twice)));
  }
  if (judged.shapesDisagree.length > 0) {
    const shapes = judged.shapesDisagree.map(({ shape, files: count }) => `${files(count)}: ${shape}`).join('; ');
    const remedy: Remedy = {
      text: 'two engines or two configurations wrote here; say which one is right and move the other files away',
      kind: 'decision',
      commands: [command(context, 'assess', '--level', 'structure')],
    };
    found.push(finding('TM-E02', 'error', 'the files do not agree on the shape of a hidden state', `tensor headers: ${shapes}`, remedy));
  }
  return found;
}

/** Rows whose file is poisoned now and whose earlier one was. */
export function twicePoisoned(context: FindingContext): number[] {
  const poisoned = rangesIn(context, 'poisoned');
  return (context.gathered.ledger?.poisonedTwice ?? []).filter((row) => poisoned.some(([from, to]) => row >= from && row < to));
}

function unreadableFiles(context: FindingContext): Finding[] {
  const { gathered, judged } = context;
  if (judged.counts.unreadable === 0) return [];
  const ranges = rangesIn(context, 'unreadable');
  const remedy: Remedy = {
    text: 'nothing is known of them and nothing is done to them; see to the disk or the permissions and look again',
    kind: 'decision',
    commands: [command(context, 'assess')],
  };
  const title = `${files(judged.counts.unreadable)} could not be read`;
  const evidence = `${byReason(context, 'unreadable')}; ${describeRows(gathered.columns, ranges)}`;
  return [finding('TM-S05', 'error', title, evidence, remedy, ranges)];
}

function missingFiles(context: FindingContext): Finding[] {
  const { gathered, judged } = context;
  const found: Finding[] = [];
  const resume = goOn(context, 'extract them');
  const setAside = new Set(judged.setAside);
  const lost = [...rangesIn(context, 'missing', 'lost')].flatMap(([from, to]) => rowsIn(from, to).filter((row) => !setAside.has(row)));
  if (lost.length > 0) {
    const evidence = 'the journals recorded them as durable; tidemark removes no committed file without a record, so something else did';
    const title = `${files(lost.length)} that ${plural(lost.length, 'was', 'were')} committed ${plural(lost.length, 'is', 'are')} gone`;
    found.push(finding('TM-S06', 'error', title, evidence, resume, rangesOf(lost)));
  }
  for (const [failureClass, seen] of gathered.ledger?.failures ?? []) {
    const count = seen.rows.length;
    const title = `${counted(count, 'row')} failed: ${failureClass}`;
    const evidence = `journals: ${formatCount(seen.final)} given up, ${formatCount(count - seen.final)} still to be tried; the first said: ${seen.message}`;
    const remedy: Remedy = {
      text: 'see to the cause, then try them again',
      kind: 'decision',
      commands: [command(context, 'resume', '--retry-failed')],
    };
    found.push(finding('TM-S07', 'warning', title, evidence, remedy, rangesOf(seen.rows)));
  }
  if (judged.inferredFailures.length > 0) {
    const rows = judged.inferredFailures;
    const title = `${counted(rows.length, 'row has', 'rows have')} no file far behind the frontier`;
    const evidence =
      `inference: a hole more than ${counted(judged.concurrency.value, 'row')} (concurrency ${judged.concurrency.source}) behind the last file is a failure ` +
      `of its own, not the crash${batches(rows)}${oddTokens(gathered.dataset?.table ?? null, rows)}`;
    found.push(finding('TM-S08', 'warning', title, evidence, resume, rangesOf(rows)));
  }
  if (judged.setAside.length > 0) {
    const title = `${counted(judged.setAside.length, 'row was', 'rows were')} set aside and not made again yet`;
    found.push(finding('TM-S09', 'info', title, 'journals: their files were moved into quarantine', resume, rangesOf(judged.setAside)));
  }
  return found;
}

/** So many neighbours that failed together are a batch. */
const BATCH_LEAST = 4;

/** Rows that failed side by side failed together. */
function batches(rows: readonly number[]): string {
  const clusters = rangesOf(rows).filter(([from, to]) => to - from >= BATCH_LEAST);
  if (clusters.length === 0) return '';
  const sizes = [...new Set(clusters.map(([from, to]) => to - from))].sort((a, b) => a - b);
  const each = sizes.length === 1 ? `of ${sizes[0]} rows` : `of ${sizes[0]} to ${sizes.at(-1)} rows`;
  return `; ${clusters.length === 1 ? 'one cluster' : `${formatCount(clusters.length)} clusters`} ${each}, as when whole batches fail: ${formatRanges(clusters, 6)}`;
}

function rowsIn(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, at) => from + at);
}

function unrecordedFiles(context: FindingContext): Finding[] {
  const { gathered, judged } = context;
  const found: Finding[] = [];
  // A run that has lost its record is a finding of its own (TM-L07).
  if (judged.unrecorded.length > 0 && !judged.running && context.lostRun === null) {
    const ranges = rangesOf(judged.unrecorded);
    const foreign = gathered.ledger === null;
    const title = foreign ? 'no journal: this tree was not written by tidemark' : `${files(judged.unrecorded.length)} no journal has`;
    const evidence = foreign
      ? `there is no .tidemark/run.json; ${files(judged.unrecorded.length)} speak for themselves`
      : 'the writer died between publishing the name and recording it, or another tool wrote them; they are sound to the level of this report';
    const remedy: Remedy = {
      text: foreign ? 'prove every byte of them before anything is built on them' : 'record them, so that they count as done',
      kind: 'fix',
      commands: goOn(context, '').commands,
    };
    found.push(finding('TM-S10', 'info', title, evidence, remedy, ranges));
  }
  const unprovable = withoutChecksums(context);
  if (unprovable.length > 0 && gathered.dataset !== null) {
    const remedy: Remedy = {
      text: 'nothing in these files can prove their bytes; compare a few with fresh extractions',
      kind: 'decision',
      commands: [command(context, 'verify', '--level', 'content')],
    };
    const evidence = 'every checksum in them is 0: the writer had checksums switched off';
    found.push(finding('TM-S11', 'warning', 'some files carry no checksums', evidence, remedy, unprovable));
  }
  return found;
}

/** Things that are no row's file: counted, listed, never touched without being told. */
/** Sound files with nothing in them that could prove their bytes. */
function withoutChecksums(context: FindingContext): IndexRange[] {
  const { facts } = context.gathered.columns;
  const rows: number[] = [];
  for (const [from, to] of rangesIn(context, 'sound', 'unprovable')) {
    for (let row = from; row < to; row += 1) if (unpackFacts(facts[row] ?? 0).checksum === 'unprovable') rows.push(row);
  }
  return rangesOf(rows);
}
