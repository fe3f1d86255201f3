import type { FolderAccount, Report } from '../core/report.ts';
import { formatCount } from '../core/units.ts';
import { VERDICT_KINDS, type VerdictKind } from '../core/verdict.ts';
import { escapeHtml } from './html.ts';

export const LETTERS: Readonly<Record<VerdictKind, string>> = {
  sound: 'S',
  missing: 'M',
  torn: 'T',
  corrupt: 'C',
  drifted: 'D',
  poisoned: 'P',
  unreadable: 'U',
};

type Counts = Readonly<Record<VerdictKind, number>>;

/** The patterns, once for all drawings of the page. */
export const PATTERNS = `<svg width="0" height="0" aria-hidden="true" focusable="false"><defs>
${pattern('missing', '<path class="m-missing" d="M-2 2 2 -2M0 8 8 0M6 10 10 6"/>')}
${pattern('torn', '<path class="m" d="M-2 6 2 10M0 0 8 8M6 -2 10 2"/>')}
${pattern('corrupt', '<path class="m" d="M0 0 8 8M8 0 0 8"/>')}
${pattern('drifted', '<circle class="m-dot" cx="2" cy="2" r="1.3"/><circle class="m-dot" cx="6" cy="6" r="1.3"/>')}
${pattern('poisoned', '<path class="m" d="M2 0V8M6 0V8"/>')}
${pattern('unreadable', '<path class="m" d="M0 2H8M0 6H8"/>')}
</defs></svg>`;

function pattern(kind: VerdictKind, marks: string): string {
  return `<pattern id="p-${kind}" width="8" height="8" patternUnits="userSpaceOnUse"><rect class="b-${kind}" width="8" height="8"/>${marks}</pattern>`;
}

/** A square in a verdict's colour, pattern and letter. */
export function keyOf(kind: VerdictKind): string {
  return `<svg class="key" viewBox="0 0 16 16" aria-hidden="true"><rect class="${kind === 'sound' ? 'v-sound' : `b-${kind}`}" width="16" height="16" rx="3"/><text class="letter on-${kind}" x="8" y="11" text-anchor="middle">${LETTERS[kind]}</text></svg>`;
}

/** Shares side by side, in per cent so that the patterns keep their form; whatever is there is at least wide enough to be seen. */
export function shareBar(counts: Counts, rows: number, className: string): string {
  const rects = segments(counts, rows).map(
    ({ kind, at, size }) => `<rect class="v-${kind}" x="${round(at)}%" width="${round(size)}%" height="100%"/>`,
  );
  return `<svg class="${className}" role="img" aria-label="${escapeHtml(inWords(counts))}">${rects.join('')}</svg>`;
}

const SEGMENT_LEAST = 1.2;

function segments(counts: Counts, rows: number): { kind: VerdictKind; at: number; size: number }[] {
  const present = VERDICT_KINDS.filter((kind) => counts[kind] > 0);
  const raw = present.map((kind) => Math.max(SEGMENT_LEAST, (counts[kind] / Math.max(1, rows)) * 100));
  const sum = raw.reduce((total, size) => total + size, 0);
  let at = 0;
  return present.map((kind, index) => {
    const size = ((raw[index] ?? 0) / sum) * 100;
    const segment = { kind, at, size };
    at += size;
    return segment;
  });
}

export function inWords(counts: Counts): string {
  return VERDICT_KINDS.filter((kind) => counts[kind] > 0)
    .map((kind) => `${formatCount(counts[kind])} ${kind}`)
    .join(', ');
}

/** A page with more cells than this helps nobody; the table below has all folders. */
const CELLS_MOST = 1500;

/** One cell a folder, in order of rows; each leads to its line in the table. */
export function folderMap(folders: readonly FolderAccount[]): string {
  const cells = folders.slice(0, CELLS_MOST).map((folder, index) => {
    const rows = folder.to - folder.from;
    const worst = worstOf(folder.counts);
    const label = worst === 'sound' ? 'all sound' : `${formatCount(folder.counts[worst])} ${worst}`;
    return `<li><a href="#folder-${index}" title="${escapeHtml(`${folder.path}: ${inWords(folder.counts)}`)}">${shareBar(folder.counts, rows, 'cell')}${formatCount(folder.from)}<br>${escapeHtml(label)}</a></li>`;
  });
  const more = folders.length > CELLS_MOST ? `<p class="soft small">and ${formatCount(folders.length - CELLS_MOST)} more folders</p>` : '';
  return `<ol class="map">${cells.join('')}</ol>${more}`;
}

/** What a person should look at first. */
const WORST: readonly VerdictKind[] = ['torn', 'corrupt', 'poisoned', 'drifted', 'unreadable', 'missing', 'sound'];

function worstOf(counts: Counts): VerdictKind {
  return WORST.find((kind) => counts[kind] > 0) ?? 'sound';
}

const BINS = 600;

/** All rows from left to right, a few dozen to a column; the smallest part of a column stays visible. */
export function rowStrip(report: Report): string {
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

function round(value: number): string {
  return value.toFixed(2).replace(/\.?0+$/, '');
}
