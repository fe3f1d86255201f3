import type { Finding } from '../core/finding.ts';
import { nextCommand } from '../core/next-command.ts';
import { countOf, formatRanges } from '../core/ranges.ts';
import type { PlanStep, Rate, Report } from '../core/report.ts';
import { shellLine } from '../core/shell-line.ts';
import { formatRate } from '../core/units.ts';
import { duration, many, sentence, size } from './figures.ts';
import { escapeHtml, factsHtml, sectionHtml } from './html.ts';

/** Ranges behind a fold are cut here; the document inside the page has all. */
const RANGES_MOST = 400;

/** A command with its button. The words stay what they were, argument by argument, when the line is pasted into a shell. */
export function commandLine(words: readonly string[]): string {
  const line = escapeHtml(shellLine(words));
  // A line is broken between arguments as long as they fit: a path in two halves is hard to read.
  const shown = phrasesOf(words).map((phrase) => `<span>${escapeHtml(shellLine(phrase))}</span>`);
  return `<div class="command"><code>${shown.join(' ')}</code><button type="button" data-copy aria-label="Copy: ${line}">Copy</button></div>`;
}

/** An option stays beside its value. */
function phrasesOf(words: readonly string[]): string[][] {
  const phrases: string[][] = [];
  for (const word of words) {
    const last = phrases.at(-1);
    if (last?.length === 1 && /^--?[a-z]/.test(last[0] ?? '') && !word.startsWith('-')) last.push(word);
    else phrases.push([word]);
  }
  return phrases;
}

export function findingsSection(report: Report): string {
  const next = shellLine(nextCommand(report));
  const seen = new Map<string, number>();
  const items = report.findings.map((finding) => {
    // A code can be found twice (two logs, two kinds of failure); links lead to the first.
    const before = seen.get(finding.code) ?? 0;
    seen.set(finding.code, before + 1);
    return findingItem(finding, next, before === 0 ? finding.code : `${finding.code}-${before + 1}`);
  });
  const body = items.length === 0 ? '<p class="soft">None.</p>' : `<ol class="findings">${items.join('')}</ol>`;
  return sectionHtml('findings', 'Findings', body);
}

const WORDS = { error: 'Error', warning: 'Warning', info: 'For information' } as const;

function findingItem(finding: Finding, next: string, id: string): string {
  const code = escapeHtml(finding.code);
  return `<li class="${finding.severity}" id="${escapeHtml(id)}"><div class="tag"><b>${WORDS[finding.severity]}</b> <span class="soft">${code}</span></div>
<div><h3>${escapeHtml(sentence(finding.title))}</h3><p class="evidence">${escapeHtml(sentence(finding.evidence))}</p>${rangesOf(finding)}${cureOf(finding, next)}</div></li>`;
}

function rangesOf({ ranges }: Finding): string {
  if (ranges === undefined || ranges.length === 0) return '';
  const text = escapeHtml(formatRanges(ranges, RANGES_MOST));
  const title = sentence(many(countOf(ranges), 'row'));
  // A few are simply said; many are behind a fold.
  if (ranges.length <= 6) return `<p class="rows"><span class="soft">${title}:</span> <span class="path">${text}</span></p>`;
  return `<details><summary>${title}</summary><p class="path">${text}</p></details>`;
}

function cureOf({ remedy, severity }: Finding, next: string): string {
  if (remedy === undefined) return '';
  const yours = remedy.kind === 'decision' ? ' <span class="yours">yours to decide</span>' : '';
  // What stands under "Next" anyway is not repeated for things that only inform.
  const commands = remedy.commands.filter((command) => severity !== 'info' || shellLine(command) !== next);
  const above = commands.length < remedy.commands.length ? ' <a href="#next">The command above.</a>' : '';
  return `<p class="cure">${escapeHtml(ended(sentence(remedy.text), commands.length > 0))}${above}${yours}</p>${commands.map(commandLine).join('')}`;
}

function ended(text: string, leads: boolean): string {
  return /[.:!?]$/.test(text) ? text : `${text}${leads ? ':' : '.'}`;
}

/** What to do, in order, and what it costs. */
export function planSection(report: Report): string {
  const { steps, blockers } = report.plan;
  const parts: string[] = [];
  if (blockers.length > 0) parts.push(`<p class="blocked">${chooseFirst(blockers)}</p>`);
  if (steps.length > 0) parts.push(`<ol class="steps">${steps.map(stepItem).join('')}</ol>`);
  else parts.push('<p class="soft">Nothing is left to do.</p>');
  parts.push(costs(report));
  return sectionHtml('plan', 'Plan', parts.join('\n'));
}

export function chooseFirst(blockers: readonly string[]): string {
  const links = blockers.map((code) => `<a href="#${escapeHtml(code)}">${escapeHtml(code)}</a>`);
  return `<b>A person must choose first:</b> ${links.join(', ')}`;
}

function stepItem(step: PlanStep): string {
  const rows = `${many(step.count, 'row')}: ${formatRanges(step.ranges, 6)}`;
  return `<li>${escapeHtml(sentence(step.text))} <span class="soft">· ${escapeHtml(rows)}</span></li>`;
}

function costs(report: Report): string {
  const { extract } = report.plan;
  // Without a dataset nobody knows what is left.
  if (extract.count === 0 || report.dataset === null) return '';
  const tokens = extract.tokens === null ? '' : `, ${many(extract.tokens, 'token')}`;
  const lines: [string, string][] = [['To extract', `${many(extract.count, 'sample')}${tokens}`]];
  const free = report.space === null ? '' : `; ${size(report.space.value.freeBytes)} are free (${escapeHtml(report.space.source)})`;
  if (extract.bytes !== null) lines.push(['Room needed', `about ${size(extract.bytes)}${free}`]);
  if (extract.seconds === null) lines.push(['Time', 'unknown: the files’ times give no pace, and no <code>--rate</code> was given']);
  else if (extract.rates.length > 1) lines.push(['Time', `${duration(extract.seconds[0])} to ${duration(extract.seconds[1])}`]);
  for (const rate of extract.rates) lines.push([extract.rates.length > 1 ? '' : 'Time', `${duration(rate.seconds)} at ${rateText(rate)}`]);
  return factsHtml(lines);
}

function rateText(rate: Rate): string {
  return escapeHtml(`${formatRate(rate.perSecond)} (${rate.source}${rate.tokensPerSecond === undefined ? '' : ', by tokens'})`);
}
