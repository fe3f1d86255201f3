import { TidemarkError } from '../core/errors.ts';
import type { IndexRange } from '../core/ranges.ts';
import type { Pattern } from './pattern.ts';

export interface Groups {
  /** Rows of a folder that is not there yet. */
  readonly groupSize: number;
  /** Folders whose range is another than their number would give them, ascending. */
  readonly ranges: readonly IndexRange[];
}

/** As many regular folders for each odd one make it a stray. */
const STRAY_SHARE = 4;

/**
 * Which rows each folder holds, by their names: most trees have one size, some a shorter last folder, and some no multiple of
 * anything.
 *
 * @param usual rows a folder where no name tells
 * @throws TidemarkError `decision-needed` when folders claim the same rows
 */
export function groupsOf(folder: string, pattern: Pattern, folders: readonly string[], usual: number): Groups {
  const ranges: { path: string; from: number; to: number }[] = [];
  for (const path of folders) {
    const fields = pattern.matchFolder(path);
    if (fields?.from === undefined || path.split('/').length !== pattern.depth) continue;
    const [from, to] = [Number(fields.from), fields.to === undefined ? null : Number(fields.to)];
    if (to === null) ranges.push({ path, from, to: Number.POSITIVE_INFINITY });
    else if (to > from) ranges.push({ path, from, to });
  }
  ranges.sort((a, b) => a.from - b.from || a.to - b.to);
  if (!pattern.fields.has('to')) for (const [at, range] of ranges.entries()) range.to = ranges[at + 1]?.from ?? range.to;
  const groupSize = commonSize(ranges) ?? usual;
  const regular = ({ from, to }: { from: number; to: number }): boolean => from % groupSize === 0 && to - from === groupSize;
  const odd = ranges.filter((range) => !regular(range));
  // A few folders of another size in the way of the others are foreign; their files are found in a wrong folder.
  const kept = odd.length * STRAY_SHARE <= ranges.length - odd.length ? odd.filter((range) => alone(range, ranges)) : odd;
  const used = ranges.filter((range) => regular(range) || kept.includes(range));
  for (const [at, range] of used.entries()) {
    const before = used[at - 1];
    if (before === undefined || before.to <= range.from) continue;
    throw new TidemarkError(
      'decision-needed',
      `${folder} can be read in more than one way: ${before.path} and ${range.path} claim the same rows`,
      {
        where: folder,
        hint: `say which with --layout, for example --layout '${pattern.text.replace('{from}-{to}', '{dir}')}', which believes the files' own numbers`,
      },
    );
  }
  return { groupSize, ranges: kept.map(({ from, to }) => [from, Number.isFinite(to) ? to : from + groupSize]) };
}

function alone(
  range: { readonly from: number; readonly to: number },
  ranges: readonly { readonly from: number; readonly to: number }[],
): boolean {
  return ranges.every((other) => other === range || other.to <= range.from || other.from >= range.to);
}

/** The size that most folders have, the larger one of two: a shorter folder is the last one of its tree. */
function commonSize(ranges: readonly { readonly from: number; readonly to: number }[]): number | null {
  const counts = new Map<number, number>();
  for (const { from, to } of ranges) if (Number.isFinite(to)) counts.set(to - from, (counts.get(to - from) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || b[0] - a[0])[0]?.[0] ?? null;
}
