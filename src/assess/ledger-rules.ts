import type { Finding, Remedy } from '../core/finding.ts';
import { formatRanges, rangesOf } from '../core/ranges.ts';
import { counted, formatCount } from '../core/units.ts';
import { command, type FindingContext, finding, goOn } from './findings.ts';

/** What is wrong with the journals, and with the dataset that the folder is compared with. */
export function ledgerFindings(context: FindingContext): Finding[] {
  return [...lost(context), ...datasetFile(context), ...journals(context), ...settings(context), ...lease(context), ...dataset(context)];
}

/** The record is gone, the journals are not: the same inputs make the same run id, and the run goes on. */
function lost(context: FindingContext): Finding[] {
  const { lostRun } = context;
  if (lostRun === null) return [];
  const remedy: Remedy = {
    text: 'begin again with the same configuration, model, dataset and output: it is known as the same run, and goes on. A run.json that is damaged is moved aside first',
    kind: 'decision',
    commands: [['tidemark', 'extract', '--output', context.gathered.folder, '--config', 'tidemark.yaml']],
  };
  return [finding('TM-L07', 'warning', 'the folder has lost the record of its run; the files are judged by themselves', lostRun, remedy)];
}

/** A start would refuse a changed dataset; it is better told now. */
function datasetFile(context: FindingContext): Finding[] {
  const path = context.gathered.ledger?.datasetPath ?? null;
  if (context.datasetNote === null || path === null) return [];
  const remedy: Remedy = {
    text: 'compare it row by row; restore it, or name where it lies now with resume --dataset',
    kind: 'decision',
    commands: [command(context, 'assess', '--dataset', path)],
  };
  return [finding('TM-D06', 'warning', 'the dataset file is not as it was at the last start', context.datasetNote, remedy)];
}

/** Only a new start needs the settings; what survived is told without them. */
function settings(context: FindingContext): Finding[] {
  const problem = context.gathered.ledger?.settingsProblem ?? null;
  if (problem === null) return [];
  const remedy: Remedy = {
    text: 'begin again with the same configuration: the settings are written anew',
    kind: 'decision',
    commands: [['tidemark', 'extract', '--output', context.gathered.folder, '--config', 'tidemark.yaml']],
  };
  return [finding('TM-L08', 'warning', 'the settings of the last start cannot be used', problem, remedy)];
}

function journals(context: FindingContext): Finding[] {
  const { ledger } = context.gathered;
  if (ledger === null) return [];
  const found: Finding[] = [];
  const of = (...kinds: readonly string[]) => ledger.problems.filter((problem) => kinds.includes(problem.kind));
  const list = (problems: readonly { readonly path: string; readonly detail: string }[]): string =>
    problems
      .slice(0, 4)
      .map((problem) => `${problem.path}: ${problem.detail}`)
      .join('; ') + (problems.length > 4 ? `; and ${problems.length - 4} more` : '');
  const resume = goOn(context, 'nothing to do: a new start writes a new journal, and files without a record are proved and adopted');
  const look: Remedy = {
    text: 'files are the ground truth and were judged without these journals; see to them before the next start',
    kind: 'decision',
    commands: [command(context, 'assess', '--level', 'checksum')],
  };
  const torn = of('torn-tail');
  if (torn.length > 0)
    found.push(finding('TM-L01', 'info', 'a journal ends in the middle of a line, as after a crash', list(torn), resume));
  const fence = of('fence-broken');
  if (fence.length > 0)
    found.push(finding('TM-L02', 'error', 'a journal is not the one that its successor vouched for', list(fence), look));
  const bad = of('no-header', 'unreadable');
  const unread = bad.some((problem) => problem.kind === 'unreadable');
  if (bad.length > 0) {
    // A start that was killed before its first line leaves a journal without a header: nothing was written in it.
    found.push(finding('TM-L04', unread ? 'warning' : 'info', 'a journal could not be used', list(bad), unread ? look : resume));
  }
  const version = of('unknown-version');
  if (version.length > 0) {
    const remedy: Remedy = {
      text: 'use the tidemark that wrote it, or a newer one',
      kind: 'decision',
      commands: [['tidemark', '--version']],
    };
    found.push(finding('TM-L05', 'error', 'a journal was written by another version', list(version), remedy));
  }
  if (ledger.tableProblem !== null) {
    const path = ledger.datasetPath ?? 'DATASET.jsonl';
    const remedy: Remedy = {
      text: 'give the dataset: the row table is made anew from it at the next start',
      kind: 'fix',
      commands: [command(context, 'assess', '--dataset', path)],
    };
    found.push(finding('TM-L03', 'warning', 'the folder has lost its row table', ledger.tableProblem, remedy));
  }
  return found;
}

function lease(context: FindingContext): Finding[] {
  const holder = context.gathered.ledger?.holder;
  if (holder?.alive === 'unreadable') {
    const evidence = `leases/run.${holder.lease} is gone or says nothing that checks, and its journal was never closed`;
    const remedy: Remedy = {
      text: 'look for a driver that still writes here; when you are sure that none does, say so',
      kind: 'decision',
      commands: [command(context, 'resume', '--take-over')],
    };
    return [finding('TM-L06', 'warning', 'who holds the run cannot be told', evidence, remedy)];
  }
  if (holder === undefined || holder === null || holder.alive !== 'unknown') return [];
  const remedy: Remedy = {
    text: `if pid ${holder.pid} on ${holder.hostname} is dead, say so; two writers at once are refused otherwise`,
    kind: 'decision',
    commands: [command(context, 'resume', '--take-over')],
  };
  const evidence = `leases/run.${holder.lease}: taken ${holder.since} by pid ${holder.pid} on ${holder.hostname}, never released; no clock and no guess decides over another host`;
  return [finding('TM-L06', 'warning', `the run is held by another host, ${holder.hostname}`, evidence, remedy)];
}

function dataset(context: FindingContext): Finding[] {
  const { gathered } = context;
  const found: Finding[] = [];
  if (gathered.counted !== null) {
    const { path, rows, why } = gathered.counted;
    const remedy: Remedy = {
      text: "give the target's model folder, whose tokenizer and template make ids of conversations: until then nothing says which row a file holds",
      kind: 'decision',
      commands: [command(context, 'assess', '--model', 'MODEL-FOLDER')],
    };
    const evidence = `${path}: ${formatCount(rows)} rows counted, ${why}; rows are present or missing by the names of files alone, and nothing was read deeper than its structure for it`;
    found.push(finding('TM-D01', 'warning', 'the rows of the dataset were counted, and not compared', evidence, remedy));
  } else if (gathered.dataset === null) {
    const remedy: Remedy = {
      text: 'give the dataset: without it nothing says how many rows there should be, nor which row a file holds',
      kind: 'decision',
      commands: [command(context, 'assess', '--dataset', 'DATASET.jsonl')],
    };
    const evidence =
      'no dataset was given and the folder keeps no row table: rows are counted as far as files reach, and no token ids were compared';
    found.push(finding('TM-D01', 'warning', 'no dataset to compare with', evidence, remedy));
  }
  if (gathered.lengths !== null) {
    const { files, equal, longer, others } = gathered.lengths;
    const remedy: Remedy = {
      text: 'nothing in these files says which row they hold; compare a few with fresh extractions before they are joined to a dataset',
      kind: 'decision',
      commands: [command(context, 'assess', '--json')],
    };
    const compared =
      gathered.dataset === null
        ? 'there is no dataset to compare their lengths with'
        : `${formatCount(equal)} are as long as their row, ${formatCount(longer)} longer (right padding, perhaps), ${formatCount(others)} have the length of another row or too few tokens`;
    const title = `${counted(files, 'file carries', 'files carry')} no token ids: matched by the sequence of lengths only`;
    found.push(finding('TM-D05', 'warning', title, `tensor headers: ${compared}`, remedy));
  }
  const change = gathered.ledger?.datasetChange ?? null;
  if (change?.grown === true) {
    const remedy = goOn(context, 'extract the new rows');
    const title = `the dataset has grown by ${counted(change.rowsNow - change.rowsThen, 'row')}`;
    found.push(finding('TM-D03', 'info', title, 'fingerprint: its first rows are those that the folder remembers', remedy));
  } else if (change !== null) {
    const first = change.firstDifferences;
    const rows = first.length === 0 ? '' : `; the first rows that differ: ${formatRanges(rangesOf(first))}`;
    const remedy: Remedy = {
      text: 'find the dataset of the run, or start a new folder for this one',
      kind: 'decision',
      commands: [command(context, 'assess')],
    };
    const evidence = `fingerprint: ${counted(change.rowsThen, 'row')} then, ${formatCount(change.rowsNow)} now${rows}`;
    found.push(finding('TM-D02', 'error', 'the dataset is not the one that this folder was made from', evidence, remedy, rangesOf(first)));
  }
  const dropped = rowsWithoutSample(context);
  if (dropped.length > 0) {
    const remedy: Remedy = {
      text: 'they count as accepted; mend the rows or raise the limit to get them',
      kind: 'decision',
      commands: [command(context, 'assess')],
    };
    const title = `${counted(dropped.length, 'row of the dataset has', 'rows of the dataset have')} no sample`;
    found.push(finding('TM-D04', 'info', title, 'row table: malformed, or longer than the run allows', remedy, rangesOf(dropped)));
  }
  return found;
}

function rowsWithoutSample(context: FindingContext): number[] {
  const table = context.gathered.dataset?.table;
  const rows: number[] = [];
  if (table !== undefined) for (let row = 0; row < table.rows; row += 1) if (table.at(row) === null) rows.push(row);
  return rows;
}
