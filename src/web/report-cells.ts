import type { Report } from '../core/report.ts';
import { count, many } from './figures.ts';
import { escapeHtml } from './html.ts';
import { evenBounds, folderBounds, type RowPart, rowParts } from './row-parts.ts';
import { inWords, keyOf, shares, worstOf } from './verdict-marks.ts';

/** A page with more cells than this helps nobody: rows are then shown in equal parts. */
export const CELLS_MOST = 600;
/** Equal parts of a tree without folders. */
const PARTS = 60;
/** More cells than this are drawn small, with a letter in place of words. */
const LARGE_MOST = 120;
/** In a cell a single bad row of two thousand must be seen. */
const SHARE_LEAST = 7;

interface Cell {
  readonly part: RowPart;
  readonly name: string;
  /** Where its line is, if there is one. */
  readonly target: string | null;
}

/** One cell a shard folder, in order of rows; equal parts of the rows where folders do not divide them. */
export function shardMap(report: Report): string {
  const folders = report.folders.length > 1 && report.folders.length <= CELLS_MOST ? folderBounds(report) : null;
  const bounds = folders ?? evenBounds(report.totals.rows, PARTS);
  if (bounds.length < 2) return '';
  const cells = rowParts(report, bounds).map((part, at): Cell => {
    const rows = part.to - part.from === 1 ? `row ${part.from}` : `rows ${part.from} to ${part.to - 1}`;
    if (folders === null) return { part, name: rows, target: null };
    return { part, name: `${report.folders[at]?.path ?? ''}, ${rows}`, target: `#folder-${at}` };
  });
  const [first] = bounds;
  const width = first === undefined ? 0 : first[1] - first[0];
  const title = folders === null ? `Rows, ${many(width, 'row')} a cell` : `Folders, ${many(width, 'row')} each`;
  const small = cells.length > LARGE_MOST;
  const skip = folders === null ? '' : `<a class="skip" href="#after-map">Skip ${many(cells.length, 'cell')}</a>`;
  return `<h3>${title}</h3>
${skip}<ol class="${small ? 'map small-cells' : 'map'}" aria-label="${title}">${cells.map((cell) => cellHtml(cell, small)).join('')}</ol><span id="after-map" tabindex="-1"></span>`;
}

function cellHtml({ part, name, target }: Cell, small: boolean): string {
  const worst = worstOf(part.counts);
  const label = escapeHtml(`${name}: ${inWords(part.counts)}`);
  const drawing = `<svg class="cell" aria-hidden="true">${shares(part.counts, SHARE_LEAST)}</svg>`;
  const key = worst === 'sound' ? '' : keyOf(worst);
  const words = small
    ? key
    : `<span class="from">${part.from}</span><span class="what">${key}${worst === 'sound' ? 'all sound' : short(part)}</span>`;
  // An image has one name, and what is in it is not read again.
  return target === null
    ? `<li><span role="img" aria-label="${label}" title="${label}">${drawing}${words}</span></li>`
    : `<li><a href="${target}" aria-label="${label}" title="${label}">${drawing}${words}</a></li>`;
}

/** The worst verdict's count, and how many more rows are not sound; the cell's name has every kind. */
function short({ counts, from, to }: RowPart): string {
  const kind = worstOf(counts);
  if (counts[kind] === to - from) return `all ${kind}`;
  const others = to - from - counts.sound - counts[kind];
  return `${count(counts[kind])} ${kind}${others === 0 ? '' : `, +${count(others)}`}`;
}
