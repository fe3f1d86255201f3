import { visible } from '../core/shell-line.ts';

/** Text into HTML. Everything that came from a file system, a journal or an engine passes through here. */
export function escapeHtml(text: string): string {
  return visibleLines(text).replace(/[&<>"'`]/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Tabs and line feeds are white space in a page and stay. */
function visibleLines(text: string): string {
  return text
    .split(/([\t\n])/)
    .map((part) => (part === '\t' || part === '\n' ? part : visible(part)))
    .join('');
}

/** A name out of a file system: shown to the last character, and kept apart from the text around it, whichever way it is written. */
export function pathHtml(path: string): string {
  return `<bdi class="path">${escapeHtml(visible(path))}</bdi>`;
}

/** JSON inside a `<script>`: nothing in it may end the element or open a comment. */
export function embedJson(value: unknown): string {
  return JSON.stringify(value)
    .replaceAll('<', '\\u003c')
    .replaceAll('>', '\\u003e')
    .replaceAll('&', '\\u0026')
    .replaceAll('\u2028', '\\u2028')
    .replaceAll('\u2029', '\\u2029');
}

export interface Column {
  readonly name: string;
  /** Numbers stand to the right and are not broken. */
  readonly kind?: 'number' | 'wide';
}

/** A table that scrolls by itself on a narrow screen, by keyboard too. Cells are HTML. */
export function tableHtml(
  label: string,
  columns: readonly Column[],
  rows: readonly { readonly id?: string; readonly cells: readonly string[] }[],
): string {
  const attribute = ({ kind }: Column): string => (kind === undefined ? '' : ` class="${kind}"`);
  const head = columns.map((column) => `<th scope="col"${attribute(column)}>${escapeHtml(column.name)}</th>`).join('');
  const body = rows.map(
    ({ id, cells }) =>
      `<tr${id === undefined ? '' : ` id="${id}"`}>${cells.map((cell, at) => `<td${attribute(columns[at] ?? { name: '' })}>${cell}</td>`).join('')}</tr>`,
  );
  return `<div class="scroll" role="region" aria-label="${escapeHtml(label)}" tabindex="0"><table><thead><tr>${head}</tr></thead><tbody>${body.join('')}</tbody></table></div>`;
}

/** Names and values; values are HTML. One without a name belongs to the name before it. */
export function factsHtml(lines: readonly (readonly [name: string, value: string])[]): string {
  return `<dl class="facts">${lines.map(([name, value]) => `${name === '' ? '' : `<dt>${escapeHtml(name)}</dt>`}<dd>${value}</dd>`).join('')}</dl>`;
}

/** A part of the page that has a heading and can be jumped to. */
export function sectionHtml(id: string, title: string, body: string): string {
  return `<section id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${escapeHtml(title)}</h2>\n${body}\n</section>`;
}
