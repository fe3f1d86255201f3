import { type IndexRange, mergeRanges } from './ranges.ts';

/** Names that differ in one number: `data_{n}.ckpt`, rows 0 to 1999. */
export interface NameRange {
  /** `{n}` stands for the number; `{n:5}` where it is padded with zeros to five digits. */
  readonly pattern: string;
  readonly ranges: readonly IndexRange[];
  readonly count: number;
}

export interface NameGroups {
  readonly ranges: readonly NameRange[];
  /** Names that no other goes with, ascending. */
  readonly names: readonly string[];
}

/** A number that a name may count with; longer runs of digits are hashes or times. */
const NUMBER = /(\d{1,15})(?!.*\d)/s;

/** A folder's names as ranges: thousands of samples are one line. The last number of a name is the one that counts. */
export function groupNames(names: Iterable<string>): NameGroups {
  const numbers = new Map<string, { readonly name: string; readonly number: number }[]>();
  const alone: string[] = [];
  for (const name of names) {
    const match = NUMBER.exec(name);
    const digits = match?.[1] ?? '';
    if (match === null || /\d/.test(name[match.index - 1] ?? '')) {
      alone.push(name);
      continue;
    }
    const padded = digits.length > 1 && digits.startsWith('0') ? `:${digits.length}` : '';
    const pattern = `${name.slice(0, match.index)}{n${padded}}${name.slice(match.index + digits.length)}`;
    const group = numbers.get(pattern);
    if (group === undefined) numbers.set(pattern, [{ name, number: Number(digits) }]);
    else group.push({ name, number: Number(digits) });
  }
  const ranges: NameRange[] = [];
  for (const [pattern, group] of numbers) {
    if (group.length === 1) alone.push(group[0]?.name ?? '');
    else ranges.push({ pattern, ranges: mergeRanges(group.map(({ number }) => [number, number + 1] as const)), count: group.length });
  }
  return { ranges: ranges.sort((a, b) => (a.pattern < b.pattern ? -1 : 1)), names: alone.sort() };
}
