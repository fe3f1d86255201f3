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

/** JSON inside a `<script>`: nothing in it may end the element or open a comment. */
export function embedJson(value: unknown): string {
  return JSON.stringify(value)
    .replaceAll('<', '\\u003c')
    .replaceAll('>', '\\u003e')
    .replaceAll('&', '\\u0026')
    .replaceAll('\u2028', '\\u2028')
    .replaceAll('\u2029', '\\u2029');
}
