import { countOf, formatRanges } from '../core/ranges.ts';
import type { Pace, Report } from '../core/report.ts';
import { formatBytes, formatCount, formatSeconds } from '../core/units.ts';
import { VERDICT_KINDS } from '../core/verdict.ts';
import { escapeHtml } from './html.ts';

/** Tables longer than this are cut, and say so; the document inside the page has everything. */
const ROWS_MOST = 2000;

/** Everything that a second look needs: verdicts with their ranges, folders, extras, and where each number comes from. */
export function detailSections(report: Report): string {
  return [verdicts(report), numbering(report), folders(report), extras(report), ending(report), facts(report)]
    .filter((section) => section !== '')
    .join('\n');
}

function verdicts(report: Report): string {
  const lines = report.verdicts.map(
    (group) =>
      `<tr><td>${group.verdict}</td><td>${group.reason}</td><td class="n">${formatCount(group.count)}</td><td class="wide path">${escapeHtml(formatRanges(group.ranges, 40))}</td></tr>`,
  );
  return `<section><h2>Verdicts and reasons</h2><div class="scroll"><table><thead><tr><th scope="col">Verdict</th><th scope="col">Reason</th><th scope="col" class="n">Rows</th><th scope="col">Which</th></tr></thead><tbody>${lines.join('')}</tbody></table></div></section>`;
}

/** Which file holds which row, where numbers do not tell. */
function numbering(report: Report): string {
  const { placement } = report;
  if (placement === null) return '';
  const lines = placement.holds
    .slice(0, ROWS_MOST)
    .map(
      ([from, to, row, step]) =>
        `<tr><td class="n">${formatCount(from)}–${formatCount(to - 1)}</td><td class="n">${formatCount(row)}</td><td class="n">${formatCount(row + (to - from - 1) * step)}</td><td class="n">${formatCount(step)}</td></tr>`,
    );
  const how =
    placement.ranks === null
      ? 'No rule was found.'
      : `Dealt to ${formatCount(placement.ranks)} ranks in turn${placement.batch === null ? '' : `, in batches of ${formatCount(placement.batch)}`}.`;
  return `<section><h2>Which file holds which row</h2><p class="soft">${how} Every verdict on this page is by content.</p><div class="scroll"><table><thead><tr><th scope="col" class="n">Numbers</th><th scope="col" class="n">First row</th><th scope="col" class="n">Last row</th><th scope="col" class="n">Step</th></tr></thead><tbody>${lines.join('')}</tbody></table></div>${cut(placement.holds.length)}</section>`;
}

/** What the machine's own logs say of the end. */
function ending(report: Report): string {
  const events = report.crash?.logEvents ?? [];
  const unread = report.crash?.logsNotRead ?? [];
  if (events.length === 0) return '';
  const lines = events.map(
    (event) =>
      `<tr><td>${escapeHtml(event.at ?? 'unknown')}</td><td>${event.kind}</td><td class="wide path">${escapeHtml(event.text)}</td><td class="path">${escapeHtml(event.source)}</td></tr>`,
  );
  const left =
    unread.length === 0
      ? ''
      : `<p class="soft small">Not read: ${escapeHtml(unread.map(({ path, why }) => `${path} (${why})`).join('; '))}</p>`;
  return `<section><h2>What the machine's logs say</h2><div class="scroll"><table><thead><tr><th scope="col">Time</th><th scope="col">Kind</th><th scope="col">Line</th><th scope="col">Log</th></tr></thead><tbody>${lines.join('')}</tbody></table></div>${left}</section>`;
}

function folders(report: Report): string {
  if (report.folders.length < 2) return '';
  const kinds = VERDICT_KINDS.filter((kind) => report.totals[kind] > 0);
  const lines = report.folders
    .slice(0, ROWS_MOST)
    .map(
      (folder, index) =>
        `<tr id="folder-${index}"><td class="path">${escapeHtml(folder.path)}</td><td class="n">${formatCount(folder.from)}–${formatCount(folder.to - 1)}</td><td class="n">${formatCount(folder.files)}</td>${kinds
          .map(
            (kind) => `<td class="n">${folder.counts[kind] === 0 ? '<span class="soft">0</span>' : formatCount(folder.counts[kind])}</td>`,
          )
          .join('')}</tr>`,
    );
  return `<section><h2>Every folder</h2><div class="scroll"><table><thead><tr><th scope="col">Folder</th><th scope="col" class="n">Rows</th><th scope="col" class="n">Files</th>${kinds
    .map((kind) => `<th scope="col" class="n">${kind}</th>`)
    .join('')}</tr></thead><tbody>${lines.join('')}</tbody></table></div>${cut(report.folders.length)}</section>`;
}

function extras(report: Report): string {
  if (report.extras.length === 0) return '';
  const lines = report.extras
    .slice(0, ROWS_MOST)
    .map(
      (extra) =>
        `<tr><td class="wide path">${escapeHtml(extra.path)}</td><td>${extra.kind}</td><td class="n">${extra.kind === 'empty-folder' ? '' : formatBytes(extra.bytes)}</td></tr>`,
    );
  const bytes = report.extras.reduce((sum, extra) => sum + extra.bytes, 0);
  return `<section><h2>Not a row's file</h2><p class="soft">${formatCount(report.extras.length)} things, ${formatBytes(bytes)}. They were counted and left as they are.</p><div class="scroll"><table><thead><tr><th scope="col">Path</th><th scope="col">Kind</th><th scope="col" class="n">Size</th></tr></thead><tbody>${lines.join('')}</tbody></table></div>${cut(report.extras.length)}</section>`;
}

function cut(count: number): string {
  return count > ROWS_MOST ? `<p class="soft small">${formatCount(count - ROWS_MOST)} more are in the document inside this page.</p>` : '';
}

function facts(report: Report): string {
  const lines: [string, string][] = [];
  const { dataset, run, crash, layout, totals, space, pace } = report;
  lines.push(['Files', `${formatCount(totals.files)}, ${formatBytes(totals.bytes)} (listing)`]);
  lines.push([
    'Dataset',
    dataset === null
      ? 'none given, none remembered'
      : `${dataset.path}, ${formatCount(dataset.rows)} rows, ${dataset.identity === null ? 'counted only' : `fingerprint ${dataset.identity.slice(0, 16)}…`}`,
  ]);
  lines.push(['Run', run === null ? 'no record of a run here' : `${run.id}, since ${run.createdAt}`]);
  lines.push(['Layout', `${layout.name}: ${layout.pattern}, ${formatCount(layout.groupSize)} rows a folder, ${layout.codec}`]);
  for (const { level, ranges } of report.levels)
    lines.push([`Read to ${level}`, `${formatCount(countOf(ranges))} rows: ${formatRanges(ranges)}`]);
  lines.push([
    'Bytes in doubt',
    report.suspect.length === 0 ? 'none' : `${formatCount(countOf(report.suspect))} rows: ${formatRanges(report.suspect)}`,
  ]);
  for (const frontier of report.frontiers)
    lines.push(['Frontier', `row ${formatCount(frontier.next)} of ${formatCount(frontier.from)}–${formatCount(frontier.to - 1)}`]);
  if (crash?.lastWrite != null) lines.push(['Last write', `${crash.lastWrite.value} (${crash.lastWrite.source})`]);
  if (crash?.bootedAt != null) lines.push(['Host booted', `${crash.bootedAt.value} (${crash.bootedAt.source})`]);
  if (crash?.containerStartedAt != null)
    lines.push(['Container started', `${crash.containerStartedAt.value} (${crash.containerStartedAt.source})`]);
  if (crash?.cause != null) lines.push(['How it ended', `${crash.cause.value} (${crash.cause.source})`]);
  if (crash?.suspectWindow != null) {
    const { value, source } = crash.suspectWindow;
    lines.push(['Suspect window', `${value.from} to ${value.to} (${source})`]);
  }
  if (space !== null)
    lines.push(['Free space', `${formatBytes(space.value.freeBytes)} of ${formatBytes(space.value.totalBytes)} (${space.source})`]);
  if (pace !== null) lines.push(['Pace', paceText(pace)]);
  for (const segment of report.segments.slice(0, 50)) {
    const state = Object.entries(segment.state).map(([key, value]) => `${key} ${value}`);
    lines.push([
      `Segment ${segment.id.slice(0, 12)}`,
      `${formatCount(countOf(segment.ranges))} rows: ${formatRanges(segment.ranges)}; ${state.join(', ')}`,
    ]);
  }
  if (report.digest !== null) lines.push(['Digest of the sound rows', report.digest]);
  return `<section><h2>Where the numbers come from</h2><dl class="facts">${lines.map(([name, value]) => `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(value)}</dd>`).join('')}</dl></section>`;
}

function paceText(pace: Pace): string {
  const parts: string[] = [];
  if (pace.plateau !== null) parts.push(`${pace.plateau.toPrecision(3)}/s at the plateau`);
  if (pace.whole !== null) parts.push(`${pace.whole.toPrecision(3)}/s over all`);
  if (pace.stallCount > 0) {
    const [longest] = pace.stalls;
    parts.push(
      `${formatCount(pace.stallCount)} ${pace.stallCount === 1 ? 'pause' : 'pauses'}, ${formatSeconds(pace.stalledSeconds)} in all${longest === undefined ? '' : `, the longest from ${longest.from} to ${longest.to}`}`,
    );
  }
  return `${parts.join('; ')} (${pace.source})`;
}
