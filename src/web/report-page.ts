import { createHash } from 'node:crypto';
import { nextCommand } from '../core/next-command.ts';
import { countOf } from '../core/ranges.ts';
import type { Report } from '../core/report.ts';
import { VERDICT_KINDS, type VerdictKind } from '../core/verdict.ts';
import { count, duration, many, moment, share } from './figures.ts';
import { embedJson, escapeHtml, pathHtml } from './html.ts';
import { detailSections } from './report-details.ts';
import { endingSection } from './report-ending.ts';
import { chooseFirst, commandLine, findingsSection, planSection } from './report-findings.ts';
import { mapSection } from './report-map.ts';
import { SCRIPT, STYLE } from './report-style.ts';
import { keyOf, PATTERNS, shareBar } from './verdict-marks.ts';

/** In the head of every page: what may be replaced by a newer one. */
export const PAGE_MARKER = '<meta name="generator" content="tidemark report">';

/**
 * The report as one file that needs nothing else: no network, no other file, and nothing in it runs but the copy
 * buttons. The document itself is inside (`#report`), so that the page can be read by a program, too.
 */
export function renderReportPage(report: Report): string {
  const policy = `default-src 'none'; style-src ${digest(STYLE)}; script-src ${digest(SCRIPT)}; base-uri 'none'; form-action 'none'`;
  const body = [
    overview(report),
    mapSection(report),
    endingSection(report),
    findingsSection(report),
    planSection(report),
    detailSections(report),
  ]
    .filter((section) => section !== '')
    .join('\n');
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
${runningBanner(report)}<h1>${escapeHtml(headline(report))}</h1>
<p>${pathHtml(report.folder)}</p>
<p class="soft">${stateLine(report)}</p>
${contents(report, body)}
</header>
<main>
${body}
</main>
<footer><p>Assessed ${moment(report.assessedAt)} to the level <i>${report.level}</i>. Counts are grouped (18&nbsp;421); row numbers are not (18421), and of a range both ends are included. In the document inside this page (<code>#report</code>) ranges are half-open.</p></footer>
<p class="unseen" role="status" id="said"></p>
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
  if (report.dataset === null) return `${many(totals.sound, 'file looks', 'files look')} sound, with no dataset to compare with`;
  if (totals.sound + missing.accepted === totals.rows) {
    const accepted = missing.accepted > 0 ? `, ${count(missing.accepted)} of them accepted as they are` : '';
    return `${totals.rows === 1 ? 'The one row is' : `All ${many(totals.rows, 'row')} are`} done${accepted}`;
  }
  return `${count(totals.sound)} of ${many(totals.rows, 'row is', totals.sound === 1 ? 'rows is' : 'rows are')} sound`;
}

/** First of all: what stands below is about to change, and nothing may be mended now. */
function runningBanner({ running }: Report): string {
  if (running === null) return '';
  return `<p class="running"><b>Running now.</b> ${escapeHtml(running.process)} on ${escapeHtml(running.host)}, seen since ${moment(running.since)}. What stands below is already changing.</p>
`;
}

function stateLine(report: Report): string {
  const { running, crash } = report;
  const unseen = report.findings.some((finding) => finding.code === 'TM-H08');
  const parts = running !== null ? [] : [unseen ? 'No writer was seen' : 'Not running'];
  const lastWrite = crash?.lastWrite ?? null;
  if (lastWrite !== null) {
    const seconds = (Date.parse(report.assessedAt) - Date.parse(lastWrite.value)) / 1000;
    parts.push(`last file written ${moment(lastWrite.value)}${seconds > 0 ? `, ${duration(seconds)} before this report` : ''}`);
  }
  const cause = crash?.cause ?? null;
  if (cause !== null) parts.push(`${escapeHtml(cause.value)} (${escapeHtml(cause.source)})`);
  return parts.length === 0 ? '' : `${parts.join('; ')}.`;
}

/** The ways into a long page: its sections, in their order. */
function contents(report: Report, body: string): string {
  const names: readonly (readonly [id: string, name: string])[] = [
    ['map', 'Map'],
    ['ending', 'How it ended'],
    ['findings', `Findings (${count(report.findings.length)})`],
    ['plan', 'Plan'],
    ['verdicts', 'Verdicts'],
    ['folders', 'Folders'],
    ['segments', 'Segments'],
    ['extras', 'Other files'],
    ['facts', 'Sources'],
  ];
  const there = names.filter(([id]) => body.includes(`<section id="${id}"`));
  return `<nav aria-label="On this page"><ul>${there.map(([id, name]) => `<li><a href="#${id}">${escapeHtml(name)}</a></li>`).join('')}</ul></nav>`;
}

const ALWAYS_SAID: readonly VerdictKind[] = ['sound', 'missing', 'torn'];

function overview(report: Report): string {
  const { totals, plan } = report;
  const items = VERDICT_KINDS.filter((kind) => totals[kind] > 0 || ALWAYS_SAID.includes(kind)).map((kind) => {
    const part =
      report.dataset === null || totals[kind] === 0 ? '' : ` <span class="soft share">${share(totals[kind], totals.rows)}</span>`;
    const notes = notesOf(report, kind).map((note) => `<li>${escapeHtml(note)}</li>`);
    return `<li${totals[kind] === 0 ? ' class="none"' : ''}><span class="kind">${keyOf(kind)}${kind}</span> <b>${count(totals[kind])}</b>${part}${notes.length === 0 ? '' : `<ul class="notes">${notes.join('')}</ul>`}</li>`;
  });
  const blocked = plan.blockers.length === 0 ? '' : `<p class="blocked">${chooseFirst(plan.blockers)}</p>`;
  return `<section id="overview" aria-label="Verdicts">
${totals.rows === 0 ? '' : shareBar(totals, 'bar')}
<ul class="tally">${items.join('')}</ul>
<div class="next" id="next"><p class="over">Next</p>${blocked}${commandLine(nextCommand(report))}</div>
</section>`;
}

function notesOf(report: Report, kind: VerdictKind): string[] {
  if (kind === 'sound') return soundNotes(report);
  return report.verdicts
    .filter((group) => group.verdict === kind)
    .map((group) => `${count(group.count)} ${kind === 'missing' ? group.reason.replaceAll('-', ' ') : group.reason}`);
}

function soundNotes(report: Report): string[] {
  const checked: Record<Report['level'], string> = {
    names: 'names and sizes only: no file was opened',
    structure: 'structure of all',
    identity: report.dataset === null ? 'structure of all; ids compared with nothing' : 'structure and token ids of all',
    checksum: 'every byte of all',
    content: 'every byte and value of all',
  };
  const deeper = report.levels.map(
    ({ level, ranges }) => `every byte${level === 'content' ? ' and value' : ''} of ${many(countOf(ranges), 'row')} in doubt`,
  );
  const unprovable = report.verdicts.find((group) => group.verdict === 'sound' && group.reason === 'unprovable');
  const proofless =
    unprovable === undefined || report.dataset === null ? [] : [`${count(unprovable.count)} carry nothing that could prove it`];
  const suspect = report.suspect.length === 0 ? [] : [`${count(countOf(report.suspect))} suspect: bytes not proved yet`];
  return [checked[report.level], ...deeper, ...proofless, ...suspect];
}
