import { VERDICT_KINDS, type VerdictKind } from '../core/verdict.ts';
import { count } from './figures.ts';
import { escapeHtml } from './html.ts';
import type { Counts } from './row-parts.ts';

const LETTERS: Readonly<Record<VerdictKind, string>> = {
  sound: 'S',
  missing: 'M',
  torn: 'T',
  corrupt: 'C',
  drifted: 'D',
  poisoned: 'P',
  unreadable: 'U',
};

/** The patterns, once for all drawings of the page. */
export const PATTERNS = `<svg class="defs" width="0" height="0" aria-hidden="true" focusable="false"><defs>
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
  return `<svg class="key" viewBox="0 0 16 16" aria-hidden="true"><rect class="v-${kind}" width="16" height="16" rx="3"/><circle class="b-${kind}" cx="8" cy="8" r="5.6"/><text class="letter on-${kind}" x="8" y="11.1" text-anchor="middle">${LETTERS[kind]}</text></svg>`;
}

/** Shares side by side, in per cent so that the patterns keep their form; whatever is there is at least `least` per cent wide. */
export function shares(counts: Counts, least: number): string {
  let at = 0;
  return widths(counts, least)
    .map(({ kind, width }) => {
      const rect = `<rect class="v-${kind}" x="${round(at)}%" width="${round(width)}%" height="100%"/>`;
      at += width;
      return rect;
    })
    .join('');
}

function widths(counts: Counts, least: number): { kind: VerdictKind; width: number }[] {
  const present = VERDICT_KINDS.filter((kind) => counts[kind] > 0);
  const all = present.reduce((sum, kind) => sum + counts[kind], 0);
  const raw = present.map((kind) => ({ kind, width: Math.max(least, (counts[kind] / all) * 100) }));
  const sum = raw.reduce((total, { width }) => total + width, 0);
  return raw.map(({ kind, width }) => ({ kind, width: (width / sum) * 100 }));
}

export function shareBar(counts: Counts, className: string): string {
  return `<svg class="${className}" role="img" aria-label="${escapeHtml(inWords(counts))}">${shares(counts, 1.2)}</svg>`;
}

export function inWords(counts: Counts): string {
  return VERDICT_KINDS.filter((kind) => counts[kind] > 0)
    .map((kind) => `${count(counts[kind])} ${kind}`)
    .join(', ');
}

/** What a person should look at first. */
const WORST: readonly VerdictKind[] = ['torn', 'corrupt', 'poisoned', 'drifted', 'unreadable', 'missing', 'sound'];

export function worstOf(counts: Counts): VerdictKind {
  return WORST.find((kind) => counts[kind] > 0) ?? 'sound';
}

export function round(value: number): string {
  return value.toFixed(2).replace(/\.?0+$/, '');
}
