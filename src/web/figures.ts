import { counted, formatBytes, formatCount, formatSeconds } from '../core/units.ts';

/** Figures as a page needs them: the same words as in the text, and never broken between digits, or before a unit. */
function glued(text: string): string {
  return text.replaceAll(' ', '\u00a0');
}

export const count = (value: number): string => glued(formatCount(value));
export const size = (bytes: number): string => glued(formatBytes(bytes));
export const duration = (seconds: number): string => glued(formatSeconds(seconds));

export function many(value: number, one: string, more = `${one}s`): string {
  return counted(value, one, more).replaceAll(/(?<=\d) (?=\d)/g, '\u00a0');
}

/** Nothing that is there reads as 0 %, and nothing that lacks something as 100 %. */
export function share(part: number, whole: number): string {
  if (whole === 0) return '';
  const percent = (part / whole) * 100;
  if (part > 0 && percent < 0.05) return glued('under 0.1 %');
  return glued(`${part === whole ? '100' : Math.min(99.9, percent).toFixed(1)} %`);
}

/** `2026-03-14 04:22:03 UTC`, as an element that a program can read to the millisecond. */
export function moment(iso: string): string {
  return `<time datetime="${iso}">${iso.slice(0, 10)} ${glued(`${iso.slice(11, 19)} UTC`)}</time>`;
}

export function sentence(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
