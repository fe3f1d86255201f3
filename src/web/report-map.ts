import { countOf, formatRanges, type IndexRange } from '../core/ranges.ts';
import type { Report } from '../core/report.ts';
import { VERDICT_KINDS, type VerdictKind } from '../core/verdict.ts';
import { count, many } from './figures.ts';
import { escapeHtml, sectionHtml } from './html.ts';
import { shardMap } from './report-cells.ts';
import { inWords, keyOf, round } from './verdict-marks.ts';

const MEANINGS: Readonly<Record<VerdictKind, string>> = {
  sound: 'passed every check of the level',
  missing: 'has no file',
  torn: 'its structure is broken',
  corrupt: 'its checksum is wrong',
  drifted: 'holds another row than its name says',
  poisoned: 'whole, and no hidden state: NaN, Inf, zeros, a wrong shape',
  unreadable: 'the machine would not say',
};

/** Where in the dataset things are: all rows in one strip, then a cell for each folder, with a legend between them. */
export function mapSection(report: Report): string {
  const { rows } = report.totals;
  if (rows === 0) return '';
  const ends = `<p class="axis"><span>row 0</span><span>${Math.floor(rows / 2)}</span><span>row ${rows - 1}</span></p>`;
  const legend = VERDICT_KINDS.map((kind) => `<li>${keyOf(kind)}<b>${kind}</b> ${MEANINGS[kind]}</li>`);
  return sectionHtml(
    'map',
    'Map',
    `<h3>All rows, first to last</h3>
${rowStrip(report)}${lanes(report)}${ends}
<ul class="legend" aria-label="Legend">${legend.join('')}${laneKeys(report)}</ul>
${shardMap(report)}`,
  );
}

const BINS = 600;

/** All rows from left to right, a few dozen to a column; the smallest part of a column stays visible. */
function rowStrip(report: Report): string {
  const { rows } = report.totals;
  const bins = Math.max(1, Math.min(BINS, rows));
  const counts = Array.from({ length: bins }, () => new Float64Array(VERDICT_KINDS.length));
  for (const group of report.verdicts) {
    const kind = VERDICT_KINDS.indexOf(group.verdict);
    for (const [from, to] of group.ranges) spread(counts, kind, (from / rows) * bins, (to / rows) * bins);
  }
  const drawings = counts.map(columnOf);
  const rects: string[] = [];
  for (let from = 0, to = 0; from < bins; from = to) {
    const drawing = drawings[from] ?? '';
    // Equal neighbours become one column: a clean tree is a single rectangle.
    for (to = from + 1; to < bins && drawings[to] === drawing; to += 1);
    rects.push(drawing.replaceAll('@x', round((from / bins) * 100)).replaceAll('@w', round(((to - from) / bins) * 100 + OVERLAP)));
  }
  return `<svg class="strip" role="img" aria-label="${escapeHtml(`rows in order: ${inWords(report.totals)}`)}">${rects.join('')}</svg>`;
}

/** Columns reach a little under the next one, so that no background shines through between them. */
const OVERLAP = 0.02;

function spread(counts: readonly Float64Array[], kind: number, from: number, to: number): void {
  for (let bin = Math.floor(from); bin < to; bin += 1) {
    const column = counts[bin];
    if (column !== undefined) column[kind] = (column[kind] ?? 0) + Math.min(to, bin + 1) - Math.max(from, bin);
  }
}

const PART_LEAST = 0.2;

/** One column: its verdicts on top of each other, the sound ones at the bottom. */
function columnOf(column: Float64Array): string {
  const total = column.reduce((sum, part) => sum + part, 0);
  if (total === 0) return '';
  const parts = VERDICT_KINDS.map((kind, at) => ({ kind, size: (column[at] ?? 0) / total })).filter((part) => part.size > 1e-9);
  const sizes = parts.map((part) => Math.max(PART_LEAST, part.size));
  const sum = sizes.reduce((all, size) => all + size, 0);
  let bottom = 100;
  return parts
    .map(({ kind }, at) => {
      const height = ((sizes[at] ?? 0) / sum) * 100;
      bottom -= height;
      return `<rect class="v-${kind}" x="@x%" width="@w%" y="${round(Math.max(0, bottom))}%" height="${round(height)}%"/>`;
    })
    .join('');
}

interface Lane {
  readonly className: string;
  readonly name: string;
  readonly text: string;
  readonly ranges: readonly IndexRange[];
}

/** What the verdicts do not show: which rows were read deeper, which bytes are in doubt, and how far each writer came. */
function lanesOf(report: Report): Lane[] {
  const lanes: Lane[] = report.levels.map(({ level, ranges }) => ({
    className: 'deep',
    name: `read to ${level}`,
    text: `${many(countOf(ranges), 'row')}: ${formatRanges(ranges, 4)}`,
    ranges,
  }));
  if (report.suspect.length > 0) {
    const text = `${many(countOf(report.suspect), 'row')}: ${formatRanges(report.suspect, 4)}`;
    lanes.push({ className: 'doubt', name: 'bytes in doubt', text, ranges: report.suspect });
  }
  const fronts = report.frontiers.filter(({ next, from }) => next > from);
  if (fronts.length > 0) {
    const named = fronts.slice(0, 8).map(({ next }) => String(next));
    const text = `row ${named.join(', ')}${fronts.length > 8 ? ` and ${count(fronts.length - 8)} more` : ''}`;
    const name = fronts.length === 1 ? 'frontier' : 'frontiers';
    lanes.push({ className: 'front', name, text, ranges: fronts.map(({ next }) => [next, next + 1]) });
  }
  return lanes;
}

/** A mark narrower than this, in per cent, cannot be seen. */
const MARK_LEAST = 0.25;

function lanes(report: Report): string {
  const { rows } = report.totals;
  return lanesOf(report)
    .map(({ className, name, text, ranges }) => {
      const marks = merged(ranges, rows).map(
        ([x, width]) => `<rect class="${className}" x="${round(x)}%" width="${round(width)}%" height="100%"/>`,
      );
      return `<svg class="lane" role="img" aria-label="${escapeHtml(`${name}, ${text}`)}">${marks.join('')}</svg>`;
    })
    .join('');
}

/** Ranges as marks, drawn once where they would lie on each other. */
function merged(ranges: readonly IndexRange[], rows: number): [number, number][] {
  const marks: [number, number][] = [];
  for (const [from, to] of ranges) {
    const x = Math.min(100 - MARK_LEAST, (from / rows) * 100);
    const end = Math.max(x + MARK_LEAST, (to / rows) * 100);
    const last = marks.at(-1);
    if (last !== undefined && x <= last[0] + last[1] + MARK_LEAST) last[1] = Math.max(last[1], end - last[0]);
    else marks.push([x, end - x]);
  }
  return marks;
}

function laneKeys(report: Report): string {
  return lanesOf(report)
    .map(
      ({ className, name, text }) =>
        `<li><svg class="key" viewBox="0 0 16 16" aria-hidden="true"><rect class="${className}" y="5" width="16" height="6"/></svg><b>${name}</b> ${escapeHtml(text)}</li>`,
    )
    .join('');
}
