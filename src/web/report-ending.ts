import type { Pace, Report, Sourced } from '../core/report.ts';
import { formatRate } from '../core/units.ts';
import { count, duration, many, moment, sentence } from './figures.ts';
import { escapeHtml, factsHtml, sectionHtml, tableHtml } from './html.ts';

/** What is known of the end, each with its source; nothing while something runs. */
export function endingSection(report: Report): string {
  const { crash, pace } = report;
  if (crash === null && pace === null) return '';
  const lines: (readonly [string, string])[] = [];
  if (crash !== null) {
    lines.push([
      'How',
      crash.cause === null ? '<span class="soft">nothing tells</span>' : sourced(crash.cause, (value) => escapeHtml(sentence(value))),
    ]);
    for (const [name, fact] of [
      ['Last file written', crash.lastWrite],
      ['Host booted', crash.bootedAt],
      ['Container started', crash.containerStartedAt],
    ] as const)
      if (fact !== null) lines.push([name, sourced(fact, moment)]);
    if (crash.suspectWindow !== null)
      lines.push([
        'Bytes may be lost',
        sourced(crash.suspectWindow, ({ from, to }) => `of files written from ${moment(from)} to ${moment(to)}`),
      ]);
  }
  if (pace !== null) lines.push(['Pace', paceHtml(pace)]);
  return sectionHtml('ending', crash === null ? 'Pace' : 'How it ended', `${factsHtml(lines)}${logs(report)}`);
}

function sourced<T>(fact: Sourced<T>, words: (value: T) => string): string {
  return `${words(fact.value)} <span class="soft">(${escapeHtml(fact.source)})</span>`;
}

/** What the machine's own logs say of the end, and what of them was not read. */
function logs(report: Report): string {
  const events = report.crash?.logEvents ?? [];
  const unread = report.crash?.logsNotRead ?? [];
  const rows = events.map((event) => ({
    cells: [
      event.at === null ? 'unknown' : moment(event.at),
      event.kind,
      `<span class="path">${escapeHtml(event.text)}</span>`,
      `<span class="path">${escapeHtml(event.source)}</span>`,
    ],
  }));
  const title = "What the machine's logs say";
  const table =
    rows.length === 0
      ? ''
      : `<h3>${title}</h3>${tableHtml(title, [{ name: 'Time' }, { name: 'Kind' }, { name: 'Line', kind: 'wide' }, { name: 'Log' }], rows)}`;
  const left = unread.map(({ path, why }) => `${path} (${why})`).join('; ');
  return `${table}${left === '' ? '' : `<p class="soft small">Logs not read: ${escapeHtml(left)}</p>`}`;
}

function paceHtml(pace: Pace): string {
  const parts: string[] = [];
  if (pace.plateau !== null) parts.push(`${formatRate(pace.plateau)} at the plateau`);
  if (pace.whole !== null) parts.push(`${formatRate(pace.whole)} over all`);
  if (pace.stallCount > 0) parts.push(`${many(pace.stallCount, 'pause')}, ${duration(pace.stalledSeconds)} in all`);
  const stalls = pace.stalls.map(
    ({ from, to }) => `<li>${duration((Date.parse(to) - Date.parse(from)) / 1000)}, from ${moment(from)} to ${moment(to)}</li>`,
  );
  const longest = pace.stallCount > pace.stalls.length ? `The ${count(pace.stalls.length)} longest pauses` : many(pace.stallCount, 'pause');
  const list = stalls.length === 0 ? '' : `<details><summary>${longest}</summary><ul>${stalls.join('')}</ul></details>`;
  return `${escapeHtml(parts.join('; '))} <span class="soft">(${escapeHtml(pace.source)})</span>${list}`;
}
