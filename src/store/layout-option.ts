import { TidemarkError } from '../core/errors.ts';
import type { Family } from './family.ts';
import { FAMILIES } from './layouts/registry.ts';
import { type Pattern, parsePattern } from './pattern.ts';

/** What `--layout` forces: one of the known layouts, or a pattern of the user's own (its tensors are told by looking). */
export type LayoutChoice = { readonly kind: 'family'; readonly family: Family } | { readonly kind: 'pattern'; readonly pattern: Pattern };

/**
 * `NAME` or `PATTERN`; a pattern has a brace in it.
 * @throws TidemarkError `usage`
 */
export function parseLayoutOption(text: string): LayoutChoice {
  if (/[{}/]/.test(text)) return { kind: 'pattern', pattern: parsePattern(text) };
  const family = FAMILIES.find((known) => known.name === text);
  if (family !== undefined) return { kind: 'family', family };
  throw new TidemarkError('usage', `there is no layout ${JSON.stringify(text)}`, {
    hint: `--layout ${FAMILIES.map(({ name }) => name).join(', ')}, or a pattern such as 'part-{dir}/{index:06d}.pt'`,
  });
}
