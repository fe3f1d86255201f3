import type { Finding, Remedy } from '../core/finding.ts';
import { formatRanges, type IndexRange, mergeRanges, rangesOf } from '../core/ranges.ts';
import { counted, formatCount, plural } from '../core/units.ts';
import { command, type FindingContext, finding, goOn } from './findings.ts';
import type { GivenLog } from './gathered.ts';
import type { Cluster, NormMix } from './norm-mix.ts';

export interface TreeContext extends FindingContext {
  readonly norms: NormMix | null;
}

/** What is true of a tree as a whole and of no file alone: how it was numbered, cut and normed, and what people and logs say of its rows. */
export function treeFindings(context: TreeContext): Finding[] {
  return [...numbering(context), ...truncation(context), ...logs(context), ...accepted(context), ...norms(context)];
}

function numbering(context: TreeContext): Finding[] {
  const { placed, dataset, columns } = context.gathered;
  if (placed === undefined) return [];
  const { holds, rule, strangers } = placed.numbering;
  let other = 0;
  for (const [number, row] of holds) if (number !== row) other += 1;
  const files = holds.size + strangers.length + placed.untold.length;
  const parts = [
    `token ids against ${dataset?.path ?? 'the dataset'}: ${formatCount(other)} of ${counted(files, 'file')} ${plural(other, 'holds another row than its number', 'hold another row than their number')}`,
  ];
  if (rule === null) {
    parts.push('each row is in one file, and no rule was found: the dataset may have been put into another order since');
    parts.push('which rows had failed before cannot be told from the numbers');
  } else {
    const starts = rule.starts.slice(0, 8).map((start, rank) => `rank ${rank} ${start === null ? 'has no file' : `from number ${start}`}`);
    const more = rule.ranks > 8 ? `, and ${rule.ranks - 8} more` : '';
    parts.push(
      `the rows were dealt in turn to ${rule.ranks} ranks (rank r has rows r, r + ${rule.ranks}, \u2026), and each numbered its own: ${starts.join(', ')}${more}`,
    );
  }
  const tail = rule === null ? [] : tailRows(context);
  if (rule !== null && tail.length > 0) {
    const [only, ...others] = rule.batches;
    const batch = others.length === 0 ? `a batch of ${only}` : `a batch of ${rule.batches.join(' or ')}`;
    parts.push(
      `${counted(tail.length, 'row', 'rows')} at the ends of the ranks\u2019 shares ${plural(tail.length, 'was', 'were')} never extracted: tails that ${batch} drops`,
    );
  }
  if (strangers.length > 0)
    parts.push(`${counted(strangers.length, 'file')} with a row that is not in this dataset: numbers ${formatRanges(rangesOf(strangers))}`);
  if (placed.copies.length > 0)
    parts.push(
      `${counted(placed.copies.length, 'file')} with a row that another file has, too: numbers ${formatRanges(rangesOf(placed.copies))}`,
    );
  if (placed.untold.length > 0)
    parts.push(
      `${counted(placed.untold.length, 'file')} without readable ids, whose row cannot be told: numbers ${formatRanges(rangesOf(placed.untold))}`,
    );
  const taken = takenNames(context);
  if (taken > 0)
    parts.push(`${formatCount(taken)} of the rows to extract ${plural(taken, 'has', 'have')} the number of a file that holds another row`);
  const remedy: Remedy = {
    text: 'every verdict here is by content: a row is sound where a file holds it, under whatever number. Join by token ids, never by number; do not go on with another number of ranks, nor delete a file for the row of its number',
    kind: 'decision',
    commands: [command(context, 'assess', '--json')],
  };
  const how = rule === null ? 'they are the rows in another order' : `they were dealt to ${rule.ranks} ranks in turn`;
  const title = `file numbers are not row numbers: ${how}`;
  // Files that no row can be found for are in nobody's account.
  const severity = strangers.length + placed.untold.length > 0 || columns.rows === 0 ? 'error' : 'warning';
  return [finding('TM-S16', severity, title, parts.join('; '), remedy, tail.length > 0 ? rangesOf(tail) : undefined)];
}

/** Rows behind the end of every rank's work, where a dropped tail explains them. */
function tailRows(context: TreeContext): number[] {
  const { placed, columns } = context.gathered;
  const rule = placed?.numbering.rule ?? null;
  if (placed === undefined || rule === null || rule.tail === 0) return [];
  const rows: number[] = [];
  for (let row = 0; row < columns.rows; row += 1) {
    if (placed.fileOf[row] === -1 && Math.floor(row / rule.ranks) >= (rule.reached[row % rule.ranks] ?? 0)) rows.push(row);
  }
  return rows;
}

/** Rows without a file whose own number is another row's file: extracting under it would need that name. */
function takenNames(context: TreeContext): number {
  const { placed, columns } = context.gathered;
  let taken = 0;
  if (placed !== undefined) {
    for (let row = 0; row < columns.rows; row += 1) if (placed.fileOf[row] === -1 && placed.byNumber.modifiedMs[row] !== 0) taken += 1;
  }
  return taken;
}

function truncation(context: TreeContext): Finding[] {
  const seen = context.gathered.truncation;
  if (seen === null) return [];
  const proved = countIn(seen.proved);
  const unproved = countIn(seen.unproved);
  const evidence =
    seen.why === null
      ? `token ids: ${counted(proved, 'file holds', 'files hold')} exactly the first ${counted(seen.tokens, 'id')} of ${plural(proved, 'its row', 'their rows')}, and no file holds more` +
        (unproved > 0
          ? `; ${formatCount(unproved)} more ${plural(unproved, 'is as long and was', 'are as long and were')} not compared`
          : '')
      : `token counts: ${counted(unproved, 'file holds', 'files hold')} ${counted(seen.tokens, 'token')} of longer rows; not compared: ${seen.why}`;
  const remedy: Remedy = {
    text: `the writer cut rows at ${counted(seen.tokens, 'token')}; if that was meant, these samples are good to that length, and rows made from now on must be cut alike`,
    kind: 'decision',
    commands: [command(context, 'assess', '--json')],
  };
  const title = `${counted(proved + unproved, 'file is', 'files are')} cut at ${counted(seen.tokens, 'token')}: a limit of the writer, not damage`;
  return [finding('TM-S17', 'warning', title, evidence, remedy, mergeRanges([...seen.proved, ...seen.unproved]))];
}

function logs(context: TreeContext): Finding[] {
  const { gathered, judged } = context;
  const found: Finding[] = [];
  const failed = new Set(judged.loggedFailures);
  for (const log of gathered.logs) {
    const errors = log.errors.filter((error) => failed.has(error.row));
    if (errors.length > 0) {
      const first = errors.slice(0, 3).map((error) => `line ${error.line}: ${error.text}`);
      const title = `${counted(errors.length, 'row')} failed, says the log`;
      const evidence = `${log.path}: ${first.join('; ')}${restOf(log)}`;
      found.push(
        finding(
          'TM-S18',
          'warning',
          title,
          evidence,
          goOn(context, 'extract them once the cause is mended'),
          rangesOf(errors.map((error) => error.row)),
        ),
      );
    } else {
      const title = 'the log names no row that is missing';
      const evidence = `${log.path}: ${counted(log.lines, 'line')}, ${counted(log.errors.length, 'row')} named with an error; what is named has a file or lies outside the dataset${restOf(log)}`;
      const remedy: Remedy = { text: 'nothing to do', kind: 'fix', commands: [command(context, 'assess')] };
      found.push(finding('TM-S18', 'info', title, evidence, remedy));
    }
  }
  return found;
}

function restOf(log: GivenLog): string {
  const parts: string[] = [];
  if (log.withoutRow > 0) parts.push(`${counted(log.withoutRow, 'error line names', 'error lines name')} no row`);
  if (log.leftOut > 0) parts.push(`${counted(log.leftOut, 'more error line was', 'more error lines were')} counted only`);
  if (log.bytesLeftOut > 0) parts.push(`the last ${counted(log.bytesLeftOut, 'byte was', 'bytes were')} not read`);
  return parts.length === 0 ? '' : `; ${parts.join(', ')}`;
}

function accepted(context: TreeContext): Finding[] {
  const { ledger } = context.gathered;
  if (ledger === null || ledger.accepted.length === 0) return [];
  const count = countIn(ledger.accepted);
  const records = ledger.acceptances
    .slice(-4)
    .map(({ at, ranges, reason }) => `${new Date(at).toISOString()} rows ${formatRanges(ranges, 4)}: ${reason}`);
  const more = ledger.acceptances.length > 4 ? `; ${counted(ledger.acceptances.length - 4, 'earlier record')}` : '';
  const remedy: Remedy = {
    text: 'they count as done where they have no sound file, and are not extracted again',
    kind: 'decision',
    commands: [command(context, 'assess', '--json')],
  };
  const title = `${counted(count, 'row was', 'rows were')} given up by the operator`;
  return [finding('TM-S19', 'info', title, `journal/run: ${records.join('; ')}${more}`, remedy, ledger.accepted)];
}

function norms(context: TreeContext): Finding[] {
  const { norms: mix } = context;
  if (mix === null) return [];
  const words = (cluster: Cluster): string =>
    `${counted(cluster.count, 'file')} between ${size(cluster.least)} and ${size(cluster.most)} (rows ${formatRanges(cluster.ranges, 4)})`;
  const where =
    mix.changesAt === null ? 'the kinds alternate, or change where the sample does not tell' : `the kind changes at row ${mix.changesAt}`;
  const evidence =
    `root mean square of last states in ${counted(mix.sampled, 'file')}: ${words(mix.small)}, ${words(mix.large)}, and nothing between; ${where}. ` +
    'One of the two is most likely taken before the final norm and the other behind it; which, only the model tells';
  const remedy: Remedy = {
    text: 'one drafter cannot learn from both: find out which engine or setting wrote which, and extract one kind again',
    kind: 'decision',
    commands: [command(context, 'assess', '--json')],
  };
  const title = 'the last states are of two kinds: before and behind the final norm';
  return [finding('TM-E03', 'error', title, evidence, remedy, mix.small.count <= mix.large.count ? mix.small.ranges : mix.large.ranges)];
}

function size(value: number): string {
  return value.toPrecision(3);
}

function countIn(ranges: readonly IndexRange[]): number {
  return ranges.reduce((sum, [from, to]) => sum + to - from, 0);
}
