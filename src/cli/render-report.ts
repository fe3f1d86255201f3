import type { Finding } from '../core/finding.ts';
import { nextCommand } from '../core/next-command.ts';
import { countOf, formatRanges } from '../core/ranges.ts';
import type { Rate, Report, VerdictGroup } from '../core/report.ts';
import { shellLine, visible } from '../core/shell-line.ts';
import { counted, formatBytes, formatCount, formatRate, formatSeconds } from '../core/units.ts';
import type { VerdictKind } from '../core/verdict.ts';
import { wrapped } from './render-words.ts';

/** The colours of picocolors that are used, or anything that has the same functions. */
export interface Colors {
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
  yellow(text: string): string;
  green(text: string): string;
  cyan(text: string): string;
}

const same = (text: string): string => text;
const PLAIN: Colors = { bold: same, dim: same, red: same, yellow: same, green: same, cyan: same };

const TITLE_WIDTH = 88;
const EVIDENCE_WIDTH = 100;
/** It fits: said beside what it needs. */
const FITS = 'TM-H06';

/** The verdict first, evidence next, the command last. Plain text unless colours are given. */
export function renderReport(report: Report, colors: Colors = PLAIN): string {
  const next = shellLine(nextCommand(report));
  const lines = [
    headline(report, colors),
    '',
    ...verdictLines(report, colors),
    ...aside(report, colors),
    '',
    // That the plan fits is part of the last lines.
    ...report.findings.filter((finding) => finding.code !== FITS).flatMap((finding) => findingLines(finding, next, colors)),
    ...closing(report, colors),
  ];
  return `${lines.join('\n')}\n`;
}

function headline(report: Report, colors: Colors): string {
  const parts: string[] = [];
  if (report.running !== null) {
    parts.push(
      colors.bold(`running: ${visible(report.running.process)} on ${visible(report.running.host)}`) +
        ` since ${when(report.running.since)}`,
    );
  } else {
    // Not seeing a writer is not the same as there being none.
    const unseen = report.findings.some((finding) => finding.code === 'TM-H08');
    parts.push(colors.bold(unseen ? 'no writer was seen' : 'not running'));
  }
  const crash = report.crash;
  const lastWrite = crash?.lastWrite ?? null;
  if (lastWrite !== null) {
    const ago = seconds(lastWrite.value, report.assessedAt);
    parts.push(`last file written ${ago >= 0 ? `${formatSeconds(ago)} ago` : `at ${when(lastWrite.value)}`}`);
    const booted = crash?.bootedAt ?? null;
    if (booted !== null && seconds(lastWrite.value, booted.value) > 0) {
      parts.push(`host booted ${formatSeconds(seconds(lastWrite.value, booted.value))} after it (${visible(booted.source)})`);
    }
  }
  const cause = crash?.cause ?? null;
  if (cause !== null) parts.push(`${visible(cause.value)} (${visible(cause.source)})`);
  return parts.length === 1 ? (parts[0] ?? '') : `${parts[0]}; ${parts.slice(1).join(', ')}`;
}

function verdictLines(report: Report, colors: Colors): string[] {
  const { totals } = report;
  const rows: { label: string; count: number; share: string; notes: string[]; paint: (text: string) => string }[] = [];
  const share = report.dataset === null ? '' : percent(totals.sound, totals.rows);
  rows.push({ label: 'sound', count: totals.sound, share, notes: soundNotes(report), paint: colors.green });
  const missing = totals.missing > 0 ? colors.yellow : colors.dim;
  rows.push({ label: 'missing', count: totals.missing, share: '', notes: missingNotes(report), paint: missing });
  for (const kind of ['torn', 'corrupt', 'drifted', 'poisoned', 'unreadable'] as const) {
    if (totals[kind] === 0 && kind !== 'torn') continue;
    rows.push({
      label: kind,
      count: totals[kind],
      share: '',
      notes: badNotes(report, kind),
      paint: totals[kind] > 0 ? colors.red : colors.dim,
    });
  }
  const wide = Math.max(7, ...rows.map((row) => formatCount(row.count).length));
  return rows.flatMap((row) => {
    const head = `  ${row.paint(row.label.padEnd(11))}${formatCount(row.count).padStart(wide)}   ${row.share.padStart(7)}   `;
    const indent = ' '.repeat(2 + 11 + wide + 3 + 7 + 3);
    const [first = '', ...rest] = row.notes.flatMap((note) => wrapped(note, 96));
    return [(head + first).trimEnd(), ...rest.map((note) => indent + note)];
  });
}

function soundNotes(report: Report): string[] {
  const checked: Record<Report['level'], string> = {
    names: 'names and sizes only: no file was opened',
    structure: 'structure of all',
    identity: report.dataset === null ? 'structure of all; token ids compared with nothing' : 'structure and token ids of all',
    checksum: 'every byte of all',
    content: 'every byte and every value of all',
  };
  const deeper = report.levels.map(
    ({ level, ranges }) => `every byte${level === 'content' ? ' and value' : ''} of ${formatCount(countOf(ranges))} that were in doubt`,
  );
  const notes = [[checked[report.level], ...deeper].join('; ')];
  const unprovable = report.verdicts.find((group) => group.verdict === 'sound' && group.reason === 'unprovable');
  if (unprovable !== undefined && report.dataset !== null)
    notes.push(`${formatCount(unprovable.count)} of them carry nothing that could prove it`);
  if (report.suspect.length > 0) notes.push(`${formatCount(countOf(report.suspect))} of them suspect: their bytes are not proved yet`);
  return notes;
}

function missingNotes(report: Report): string[] {
  return report.verdicts
    .filter((group) => group.verdict === 'missing')
    .map((group) => `${formatCount(group.count)} ${missingWords(report, group)}`);
}

function missingWords(report: Report, group: VerdictGroup): string {
  switch (group.reason) {
    case 'never-started':
      return `never started${group.ranges.length === 1 ? `, from row ${group.ranges[0]?.[0]}` : `: ${formatRanges(group.ranges, 4)}`}`;
    case 'in-flight':
      return `in flight ${report.running === null ? 'when it stopped' : 'now'}: ${formatRanges(group.ranges)}`;
    case 'failed': {
      const inferred = report.findings.some((finding) => finding.code === 'TM-S08');
      const recorded = report.findings.some((finding) => finding.code === 'TM-S07');
      const logged = report.findings.some((finding) => finding.code === 'TM-S18' && finding.severity === 'warning');
      const sources = [
        recorded ? 'journals' : '',
        logged ? 'the log' : '',
        inferred ? `${recorded || logged ? '' : 'inferred: '}holes far behind the frontier` : '',
      ].filter((word) => word !== '');
      const source = sources.length === 0 ? 'journals' : sources.join(', and ');
      return `failed earlier: ${formatRanges(group.ranges)} (${source})`;
    }
    case 'lost':
      return `lost, once recorded as committed or set aside: ${formatRanges(group.ranges)}`;
    case 'accepted':
      return `accepted, they count as done: ${formatRanges(group.ranges)}`;
    default:
      return `${group.reason}: ${formatRanges(group.ranges)}`;
  }
}

function badNotes(report: Report, kind: VerdictKind): string[] {
  return report.verdicts
    .filter((group) => group.verdict === kind)
    .map((group) => `${formatCount(group.count)} ${group.reason}: ${formatRanges(group.ranges)}`);
}

/** What is counted beside the rows. */
function aside(report: Report, colors: Colors): string[] {
  const { totals, dataset } = report;
  const parts = [`${counted(totals.files, 'file')}, ${formatBytes(totals.bytes)}`];
  if (dataset === null) parts.push('no dataset: how many rows there should be is not known');
  else
    parts.push(
      `${counted(totals.rows, 'row')} in ${visible(dataset.path)}${dataset.identity === null ? ', counted and not compared' : ''}`,
    );
  if (report.remembered !== null)
    parts.push(
      `${counted(report.remembered.files, 'file')} unchanged since they were read on ${report.remembered.since} and not read again (--no-cache reads all)`,
    );
  if (report.placement !== null) parts.push('rows counted by content: the numbers of the files are not row numbers');
  if (report.frontiers.length > 1) {
    const named = report.frontiers.slice(0, 4).map((frontier) => `${frontier.next} of ${frontier.from}-${frontier.to - 1}`);
    parts.push(`${report.frontiers.length} frontiers: ${named.join(', ')}${report.frontiers.length > 4 ? ', …' : ''}`);
  }
  const digest = report.digest === null ? [] : [`  digest of the sound rows: ${report.digest}`];
  return ['', `  ${parts.join('; ')}`, ...digest].map((line) => (line === '' ? line : colors.dim(line)));
}

function findingLines(finding: Finding, next: string, colors: Colors): string[] {
  const paint = finding.severity === 'error' ? colors.red : finding.severity === 'warning' ? colors.yellow : same;
  const title = wrapped(visible(finding.title), TITLE_WIDTH);
  const last = title.pop() ?? '';
  const lines = [
    ...title.map((line) => `  ${paint(line)}`),
    `  ${paint(last)}${' '.repeat(Math.max(2, TITLE_WIDTH - last.length))}${colors.dim(finding.code)}`,
  ];
  for (const line of wrapped(visible(finding.evidence), EVIDENCE_WIDTH)) lines.push(`    ${colors.dim(line)}`);
  const { remedy } = finding;
  if (remedy === undefined) return lines;
  const commands = remedy.commands.map(shellLine);
  // What the last line says anyway is not repeated for things that only inform.
  if (finding.severity === 'info' && commands.every((command) => command === next)) return lines;
  const yours = remedy.kind === 'decision' ? ' (yours to decide)' : '';
  for (const line of wrapped(`${visible(remedy.text)}${yours}:`, EVIDENCE_WIDTH)) lines.push(`    ${line}`);
  for (const command of commands) lines.push(`      ${colors.cyan(command)}`);
  return lines;
}

function closing(report: Report, colors: Colors): string[] {
  const { extract, blockers } = report.plan;
  const lines = [''];
  if (report.dataset !== null && extract.count > 0) {
    const parts = [counted(extract.count, 'sample')];
    if (extract.tokens !== null) parts.push(counted(extract.tokens, 'token'));
    const fits = report.findings.find((finding) => finding.code === FITS);
    if (extract.bytes !== null) parts.push(`about ${formatBytes(extract.bytes)}${fits === undefined ? '' : ` (${fits.title})`}`);
    for (const rate of extract.rates) parts.push(`${formatSeconds(rate.seconds)} at ${rateText(rate)}`);
    lines.push(...wrapped(`To finish: ${visible(parts.join(', '))}.`, EVIDENCE_WIDTH + 8));
  }
  if (blockers.length > 0) lines.push(`A person must choose first: ${blockers.join(', ')}.`);
  lines.push(colors.bold(`next: ${shellLine(nextCommand(report))}`));
  return lines;
}

function rateText(rate: Rate): string {
  const weighted = rate.tokensPerSecond === undefined ? '' : ', by tokens';
  return `${formatRate(rate.perSecond)} (${rate.source}${weighted})`;
}

function percent(part: number, whole: number): string {
  if (whole === 0) return '';
  // 99.97 % must not read as 100 %: some rows are missing.
  const share = part === whole ? 100 : Math.min(99.9, (part / whole) * 100);
  return `${share.toFixed(1)} %`;
}

function seconds(from: string, to: string): number {
  return (Date.parse(to) - Date.parse(from)) / 1000;
}

function when(iso: string): string {
  return `${iso.slice(0, 16).replace('T', ' ')} UTC`;
}
