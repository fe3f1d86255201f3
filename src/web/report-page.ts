import { createHash } from 'node:crypto';
import type { Finding } from '../core/finding.ts';
import { nextCommand } from '../core/next-command.ts';
import { countOf, formatRanges } from '../core/ranges.ts';
import type { Report } from '../core/report.ts';
import { shellLine } from '../core/shell-line.ts';
import { formatBytes, formatCount, formatSeconds } from '../core/units.ts';
import { VERDICT_KINDS } from '../core/verdict.ts';
import { embedJson, escapeHtml } from './html.ts';
import { detailSections } from './report-details.ts';
import { folderMap, keyOf, PATTERNS, rowStrip, shareBar } from './report-map.ts';
import { SCRIPT, STYLE } from './report-style.ts';

/** In the head of every page: what may be replaced by a newer one. */
export const PAGE_MARKER = '<meta name="generator" content="tidemark report">';

/**
 * The report as one file that needs nothing else: no network, no other file, and nothing in it runs but the copy
 * buttons. The document itself is inside (`#report`), so that the page can be read by a program, too.
 */
export function renderReportPage(report: Report): string {
  const policy = `default-src 'none'; style-src ${digest(STYLE)}; script-src ${digest(SCRIPT)}; base-uri 'none'; form-action 'none'`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
${PAGE_MARKER}
<title>${escapeHtml(`tidemark: ${headline(report)}`)}</title>
<style>${STYLE}</style>
</head>
<body>
${PATTERNS}
<header>
<p class="over">tidemark report</p>
<h1>${escapeHtml(headline(report))}</h1>
<p class="path">${escapeHtml(report.folder)}</p>
<p class="soft">${escapeHtml(stateLine(report))}</p>
</header>
<main>
${overview(report)}
${findings(report)}
${map(report)}
${plan(report)}
${detailSections(report)}
</main>
<footer>Assessed ${escapeHtml(moment(report.assessedAt))} to the level <i>${report.level}</i>. Ranges in the document are half-open; on this page both ends are included.</footer>
<script type="application/json" id="report">${embedJson(report)}</script>
<script>${SCRIPT}</script>
</body>
</html>
`;
}

function digest(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

function headline(report: Report): string {
  const { totals, missing } = report;
  if (report.dataset === null) return `${formatCount(totals.sound)} files look sound, with no dataset to compare them with`;
  if (totals.sound + missing.accepted === totals.rows) {
    const accepted = missing.accepted > 0 ? `, ${formatCount(missing.accepted)} of them accepted as they are` : '';
    return `All ${formatCount(totals.rows)} rows are done${accepted}`;
  }
  return `${formatCount(totals.sound)} of ${formatCount(totals.rows)} rows are sound`;
}

function stateLine(report: Report): string {
  const { running, crash } = report;
  if (running !== null) return `Running: ${running.process} on ${running.host}, since ${moment(running.since)}.`;
  const unseen = report.findings.some((finding) => finding.code === 'TM-H08');
  const parts = [unseen ? 'No writer was seen' : 'Not running'];
  const lastWrite = crash?.lastWrite ?? null;
  if (lastWrite !== null) {
    const seconds = (Date.parse(report.assessedAt) - Date.parse(lastWrite.value)) / 1000;
    parts.push(`last file written ${moment(lastWrite.value)}${seconds > 0 ? `, ${formatSeconds(seconds)} before this report` : ''}`);
  }
  const cause = crash?.cause ?? null;
  if (cause !== null) parts.push(cause.value);
  return `${parts.join('; ')}.`;
}

function overview(report: Report): string {
  const { totals } = report;
  const share = (count: number): string =>
    report.dataset === null || totals.rows === 0 || count === 0
      ? ''
      : `${count === totals.rows ? '100' : Math.min(99.9, (count / totals.rows) * 100).toFixed(1)} %`;
  const items = VERDICT_KINDS.filter((kind) => totals[kind] > 0 || kind === 'sound' || kind === 'missing' || kind === 'torn').map(
    (kind) =>
      `<li${totals[kind] === 0 ? ' class="none"' : ''}>${keyOf(kind)}${kind}<b>${formatCount(totals[kind])}</b><span class="soft small">${escapeHtml([share(totals[kind]), noteOf(report, kind)].filter((part) => part !== '').join(' · '))}</span></li>`,
  );
  return `<section aria-label="Verdicts">
${shareBar(totals, totals.rows, 'bar')}
<ul class="tally">${items.join('')}</ul>
<div class="next"><p class="over">Next</p>${commandLine(nextCommand(report))}</div>
</section>`;
}

function noteOf(report: Report, kind: (typeof VERDICT_KINDS)[number]): string {
  if (kind === 'sound')
    return {
      names: 'names only',
      structure: 'structure',
      identity: 'structure and token ids',
      checksum: 'every byte',
      content: 'every byte and value',
    }[report.level];
  return report.verdicts
    .filter((group) => group.verdict === kind)
    .map((group) => `${formatCount(group.count)} ${group.reason}`)
    .join(', ');
}

function commandLine(words: readonly string[]): string {
  return `<div class="command"><code>${escapeHtml(shellLine(words))}</code><button type="button" data-copy>Copy</button></div>`;
}

function findings(report: Report): string {
  const next = shellLine(nextCommand(report));
  if (report.findings.length === 0) return '<section><h2>Findings</h2><p class="soft">None.</p></section>';
  return `<section><h2>Findings</h2><ol class="findings">${report.findings.map((finding) => findingItem(finding, next)).join('')}</ol></section>`;
}

const WORDS = { error: 'Error', warning: 'Warning', info: 'For information' } as const;

function findingItem(finding: Finding, next: string): string {
  const { remedy } = finding;
  const ranges =
    finding.ranges === undefined || finding.ranges.length === 0
      ? ''
      : `<details><summary>${formatCount(countOf(finding.ranges))} ${countOf(finding.ranges) === 1 ? 'row' : 'rows'}</summary><p class="path">${escapeHtml(formatRanges(finding.ranges, 400))}</p></details>`;
  const yours = remedy?.kind === 'decision' ? '<span class="yours">yours to decide</span>' : '';
  // What stands under "Next" anyway is not repeated for things that only inform.
  const commands = (remedy?.commands ?? []).filter((command) => finding.severity !== 'info' || shellLine(command) !== next);
  const above = commands.length < (remedy?.commands.length ?? 0) ? ' <span class="soft">(the command above)</span>' : '';
  const cure =
    remedy === undefined ? '' : `<p>${escapeHtml(sentence(remedy.text))}${above}${yours}</p>${commands.map(commandLine).join('')}`;
  return `<li class="${finding.severity}" id="${escapeHtml(finding.code)}"><div class="tag"><b>${WORDS[finding.severity]}</b><span class="soft">${escapeHtml(finding.code)}</span></div>
<div><h3>${escapeHtml(sentence(finding.title))}</h3><p class="evidence">${escapeHtml(sentence(finding.evidence))}</p>${cure}${ranges}</div></li>`;
}

function map(report: Report): string {
  if (report.totals.rows === 0) return '';
  const middle = Math.floor(report.totals.rows / 2);
  const folders = report.folders.length > 1 ? `<h2>Folders</h2>${folderMap(report.folders)}` : '';
  return `<section><h2>Rows, first to last</h2>${rowStrip(report)}<p class="axis"><span>0</span><span>${formatCount(middle)}</span><span>${formatCount(report.totals.rows - 1)}</span></p></section>
${folders === '' ? '' : `<section>${folders}</section>`}`;
}

function plan(report: Report): string {
  const { steps, extract, blockers } = report.plan;
  if (steps.length === 0) return '';
  const lines = steps.map(
    (step) =>
      `<li>${escapeHtml(sentence(step.text))} <span class="soft">· ${formatCount(step.count)} rows: ${escapeHtml(formatRanges(step.ranges, 6))}</span></li>`,
  );
  const facts: [string, string][] = [];
  if (extract.count > 0) {
    facts.push([
      'To extract',
      `${formatCount(extract.count)} samples${extract.tokens === null ? '' : `, ${formatCount(extract.tokens)} tokens`}`,
    ]);
    if (extract.bytes !== null) facts.push(['Room needed', `about ${formatBytes(extract.bytes)}`]);
    for (const rate of extract.rates)
      facts.push([
        'Time',
        `${formatSeconds(rate.seconds)} at ${rate.perSecond.toPrecision(3)}/s (${rate.source}${rate.tokensPerSecond === undefined ? '' : ', by tokens'})`,
      ]);
  }
  const blocked =
    blockers.length === 0
      ? ''
      : `<p><b>A person must choose first:</b> ${blockers.map((code) => `<a href="#${escapeHtml(code)}">${escapeHtml(code)}</a>`).join(', ')}</p>`;
  return `<section><h2>Plan</h2>${blocked}<ol class="steps">${lines.join('')}</ol><dl class="facts">${facts.map(([name, value]) => `<dt>${name}</dt><dd>${escapeHtml(value)}</dd>`).join('')}</dl></section>`;
}

function sentence(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function moment(iso: string): string {
  return `${iso.slice(0, 16).replace('T', ' ')} UTC`;
}
