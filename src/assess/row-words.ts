import { formatRanges, type IndexRange, indicesOf } from '../core/ranges.ts';
import type { RowLookup } from './gathered.ts';
import type { RowColumns } from './row-columns.ts';

const ROWS_NAMED = 3;

/** The rows, and in words what is wrong with the first few. */
export function describeRows(columns: RowColumns, ranges: readonly IndexRange[]): string {
  const parts: string[] = [];
  for (const row of indicesOf(ranges)) {
    if (parts.length === ROWS_NAMED) break;
    const detail = columns.details.get(row);
    if (detail !== undefined) parts.push(`row ${row}: ${detail}`);
  }
  return [`rows ${formatRanges(ranges)}`, ...parts].join('; ');
}

const NEIGHBOURS = 500;
const ROWS_COMPARED = 20;

/** The longest rows fail first: says where the token counts of these rows stand among their neighbours'. */
export function oddTokens(table: RowLookup | null, rows: readonly number[]): string {
  if (table === null) return '';
  const parts: string[] = [];
  for (const row of rows.slice(0, ROWS_COMPARED)) {
    const tokens = table.at(row)?.tokens;
    if (tokens === undefined) continue;
    let shorter = 0;
    let compared = 0;
    for (let other = Math.max(0, row - NEIGHBOURS); other < Math.min(table.rows, row + NEIGHBOURS); other += 1) {
      const theirs = table.at(other)?.tokens;
      if (theirs === undefined || other === row) continue;
      compared += 1;
      if (theirs < tokens) shorter += 1;
    }
    if (compared > 0) parts.push(`row ${row} has ${tokens}, more than ${Math.round((shorter / compared) * 100)} %`);
  }
  if (parts.length === 0) return '';
  const more = rows.length > ROWS_COMPARED ? `, and ${rows.length - ROWS_COMPARED} more rows` : '';
  return `; tokens among their ${2 * NEIGHBOURS} neighbours: ${parts.join(', ')}${more}`;
}
