import { countOf, formatRanges } from '../core/ranges.ts';
import type { Placement, Report, VerdictGroup } from '../core/report.ts';
import { VERDICT_KINDS } from '../core/verdict.ts';
import { count, many, moment, share, size } from './figures.ts';
import { escapeHtml, factsHtml, pathHtml, sectionHtml, tableHtml } from './html.ts';
import { type RowPart, rowParts } from './row-parts.ts';
import { keyOf } from './verdict-marks.ts';

/** Tables longer than this are cut, and say so; the document inside the page has everything. */
const ROWS_MOST = 1000;

/** Everything that a second look needs: verdicts with their ranges, folders, segments, extras, and where each number comes from. */
export function detailSections(report: Report): string {
  return [verdicts(report), numbering(report), folders(report), segments(report), extras(report), facts(report)]
    .filter((section) => section !== '')
    .join('\n');
}

function rowsHtml(ranges: Parameters<typeof formatRanges>[0], most: number): string {
  return `<span class="path">${escapeHtml(formatRanges(ranges, most))}</span>`;
}

function verdicts(report: Report): string {
  const rows = report.verdicts.map((group) => ({
    cells: [
      `<span class="kind">${keyOf(group.verdict)}${group.verdict}</span>`,
      group.reason,
      count(group.count),
      `${rowsHtml(group.ranges, 40)}${holdsOf(group)}`,
    ],
  }));
  const title = 'Verdicts and reasons';
  return sectionHtml(
    'verdicts',
    title,
    tableHtml(title, [{ name: 'Verdict' }, { name: 'Reason' }, { name: 'Rows', kind: 'number' }, { name: 'Which', kind: 'wide' }], rows),
  );
}

/** Which rows drifted files hold, where that is known. */
function holdsOf({ holds }: VerdictGroup): string {
  if (holds === undefined || holds.length === 0) return '';
  const parts = holds.slice(0, 20).map(([from, to, row]) => {
    const rows = formatRanges([[from, to]]);
    return `${to - from === 1 ? `the file of row ${rows} holds row` : `the files of rows ${rows} hold rows`} ${formatRanges([[row, row + to - from]])}`;
  });
  const more = holds.length > 20 ? `; and ${count(holds.length - 20)} more` : '';
  return `<br><span class="soft small">${escapeHtml(parts.join('; '))}${more}</span>`;
}

/** Which file holds which row, where numbers do not tell. */
function numbering(report: Report): string {
  const { placement } = report;
  if (placement === null) return '';
  const rows = placement.holds.slice(0, ROWS_MOST).map(([from, to, row, step]) => ({
    cells: [formatRanges([[from, to]]), String(row), String(row + (to - from - 1) * step), String(step)],
  }));
  const title = 'Which file holds which row';
  const columns = ['Numbers', 'First row', 'Last row', 'Step'].map((name) => ({ name, kind: 'number' as const }));
  return sectionHtml(
    'numbering',
    title,
    `<p class="soft">${dealt(placement)} Every verdict on this page is by content.</p>${tableHtml(title, columns, rows)}${cut(placement.holds.length + placement.holdsLeftOut)}${oddNumbers(placement)}`,
  );
}

function dealt(placement: Placement): string {
  if (placement.ranks === null) return 'No rule was found.';
  const batch = placement.batch === null ? '' : `, in batches of ${count(placement.batch)}`;
  const starts = placement.starts
    .slice(0, 16)
    .map((start, rank) => `rank ${rank} ${start === null ? 'has no file' : `from number ${start}`}`);
  const more = placement.starts.length > 16 ? ` and ${count(placement.starts.length - 16)} more` : '';
  return `Dealt to ${many(placement.ranks, 'rank')} in turn${batch}: ${starts.join(', ')}${more}.`;
}

function oddNumbers({ strangers, copies }: Placement): string {
  const parts: string[] = [];
  if (strangers.length > 0) parts.push(`Numbers whose row is not in this dataset, or cannot be told: ${rowsHtml(strangers, 40)}.`);
  if (copies.length > 0) parts.push(`Numbers whose row another file holds, too: ${rowsHtml(copies, 40)}.`);
  return parts.map((part) => `<p class="small">${part}</p>`).join('');
}

function folders(report: Report): string {
  if (report.folders.length < 2) return '';
  const kinds = VERDICT_KINDS.filter((kind) => report.totals[kind] > 0);
  const shown = report.folders.slice(0, ROWS_MOST);
  const parts = ascending(shown)
    ? rowParts(
        report,
        shown.map(({ from, to }) => [from, to]),
      )
    : [];
  const rows = shown.map((folder, index) => ({
    id: `folder-${index}`,
    cells: [
      pathHtml(folder.path === '' ? '.' : folder.path),
      formatRanges([[folder.from, folder.to]]),
      count(folder.files),
      ...kinds.map((kind) => (folder.counts[kind] === 0 ? '<span class="soft">0</span>' : count(folder.counts[kind]))),
      unsound(parts[index]),
    ],
  }));
  const title = 'Every folder';
  const columns = [
    { name: 'Folder' },
    ...['Rows', 'Files', ...kinds].map((name) => ({ name, kind: 'number' as const })),
    { name: 'Not sound', kind: 'wide' as const },
  ];
  return sectionHtml('folders', title, `${tableHtml(title, columns, rows)}${cut(report.folders.length)}`);
}

function ascending(shown: Report['folders']): boolean {
  return shown.every((folder, at) => folder.from >= (shown[at - 1]?.to ?? 0));
}

/** Names the rows of a folder that are not sound, the first few of them. */
function unsound(part: RowPart | undefined): string {
  if (part === undefined) return '';
  const bad = VERDICT_KINDS.reduce((sum, kind) => sum + (kind === 'sound' ? 0 : part.counts[kind]), 0);
  const named = part.unsound.map(({ kind, range }) => `${formatRanges([range])} ${kind}`);
  const more = bad > countOf(part.unsound.map(({ range }) => range)) ? ', …' : '';
  return `<span class="small">${escapeHtml(named.join(', '))}${more}</span>`;
}

const SEGMENTS_MOST = 200;

/** Which engine state made which rows. */
function segments(report: Report): string {
  if (report.segments.length === 0) return '';
  const rows = report.segments.slice(0, SEGMENTS_MOST).map((segment) => ({
    cells: [
      `<span class="path">${escapeHtml(segment.id)}</span>`,
      count(countOf(segment.ranges)),
      rowsHtml(segment.ranges, 20),
      Object.entries(segment.state)
        .map(([key, value]) => `<span class="soft">${escapeHtml(key)}</span> ${escapeHtml(value)}`)
        .join('<br>'),
    ],
  }));
  const title = 'Segments: which engine made which rows';
  const columns = [
    { name: 'Segment' },
    { name: 'Rows', kind: 'number' as const },
    { name: 'Which' },
    { name: 'State', kind: 'wide' as const },
  ];
  return sectionHtml('segments', title, `${tableHtml(title, columns, rows)}${cut(report.segments.length, SEGMENTS_MOST)}`);
}

function extras(report: Report): string {
  if (report.extras.length === 0) return '';
  const rows = report.extras.slice(0, ROWS_MOST).map((extra) => ({
    cells: [pathHtml(extra.path), escapeHtml(extra.kind), extra.kind === 'empty-folder' ? '' : size(extra.bytes)],
  }));
  const bytes = report.extras.reduce((sum, extra) => sum + extra.reclaimableBytes, 0);
  const kinds = new Map<string, number>();
  for (const { kind } of report.extras) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  const named = [...kinds].sort((a, b) => b[1] - a[1]).map(([kind, number]) => `${count(number)} ${escapeHtml(kind)}`);
  const title = "Not a row's file";
  return sectionHtml(
    'extras',
    title,
    `<p class="soft">${many(report.extras.length, 'thing')}, ${size(bytes)} on the disk: ${named.join(', ')}. They were counted and left as they are.</p>${tableHtml(
      title,
      [{ name: 'Path', kind: 'wide' }, { name: 'Kind' }, { name: 'Size', kind: 'number' }],
      rows,
    )}${cut(report.extras.length)}`,
  );
}

function cut(length: number, most = ROWS_MOST): string {
  return length > most
    ? `<p class="soft small">${count(length - most)} more are in the document inside this page, or counted there.</p>`
    : '';
}

function facts(report: Report): string {
  const { dataset, run, layout, totals, space } = report;
  const lines: [string, string][] = [
    ['Files', `${many(totals.files, 'file')}, ${size(totals.bytes)} <span class="soft">(listing)</span>`],
    [
      'Dataset',
      dataset === null
        ? 'none given, none remembered: how many rows there should be is not known'
        : `${pathHtml(dataset.path)}, ${many(dataset.rows, 'row')}, ${dataset.identity === null ? 'counted only' : `fingerprint <code>${escapeHtml(dataset.identity)}</code>`}`,
    ],
    ['Run', run === null ? 'no record of a run here' : `<code>${escapeHtml(run.id)}</code>, since ${moment(run.createdAt)}`],
    ['Layout', `${escapeHtml(layout.name)}: ${pathHtml(layout.pattern)}, ${perFolder(layout.groupSize)}, ${escapeHtml(layout.codec)}`],
    ['Read', `every file to the level <i>${report.level}</i>`],
  ];
  if (report.remembered !== null)
    lines.push(['', `${many(report.remembered.files, 'file')} not read again: unchanged since ${moment(report.remembered.since)}`]);
  for (const { level, ranges } of report.levels)
    lines.push(['', `${many(countOf(ranges), 'row')} to <i>${level}</i>: ${rowsHtml(ranges, 40)}`]);
  const doubt = countOf(report.suspect);
  lines.push([
    'Bytes in doubt',
    doubt === 0 ? 'none' : `${many(doubt, 'row')}, ${share(doubt, totals.rows)}: ${rowsHtml(report.suspect, 40)}`,
  ]);
  lines.push(['Next row', `${report.next} <span class="soft">(one past the highest that has a file)</span>`]);
  for (const { from, to, next } of report.frontiers.slice(0, 50))
    lines.push(['Frontier', `row ${next}, of rows ${formatRanges([[from, to]])}`]);
  if (space !== null)
    lines.push([
      'Free space',
      `${size(space.value.freeBytes)} of ${size(space.value.totalBytes)} <span class="soft">(${escapeHtml(space.source)})</span>`,
    ]);
  if (report.digest !== null) lines.push(['Digest of the sound rows', `<code>${escapeHtml(report.digest)}</code>`]);
  return sectionHtml('facts', 'Where the numbers come from', factsHtml(lines));
}

function perFolder(groupSize: number): string {
  return groupSize === 0 ? 'all rows in one folder' : `${many(groupSize, 'row')} a folder`;
}
