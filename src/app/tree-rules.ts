import type { Pattern } from '../store/pattern.ts';
import type { NamedFile } from './tree-names.ts';

/** How a row gets its path, in words and as a function; null where the rule does not reach. */
export interface PathRule {
  readonly words: string;
  pathOf(row: number): string | null;
}

interface Writer {
  readonly dir: string | undefined;
  readonly rank: string | undefined;
  /** Row of number 0. */
  readonly start: number;
  readonly rows: readonly number[];
  readonly next: number;
}

/**
 * Numbers that are counted inside folders or ranks: every writer has each k-th row, or one stretch of rows.
 * @returns why there is no rule, as text
 */
export function writerRuleOf(
  pattern: Pattern,
  files: readonly NamedFile[],
  options: { readonly rows: number; readonly counts: boolean },
): PathRule | string {
  const step = stepOf(files);
  const groups = groupsIn(pattern, files);
  if (typeof groups === 'string') return groups;
  const writers = step === null ? null : writersOf(files, step);
  const render = ({ dir, rank }: Pick<Writer, 'dir' | 'rank'>, number: number): string =>
    pattern.render({
      index: number,
      ...(groups === null ? {} : { from: Math.floor(number / groups) * groups, to: (Math.floor(number / groups) + 1) * groups }),
      ...(dir === undefined ? {} : { dir }),
      ...(rank === undefined ? {} : { rank }),
    });
  if (writers === null || step === null) {
    return options.counts
      ? countingRule(files, render)
      : 'numbers are counted inside folders, and no rule was found that holds for every file';
  }
  if (step > 1) {
    const absent = absentWriter(writers, step);
    return {
      words: `rows were dealt in turn to ${step} writers, and each numbers its own`,
      pathOf: (row) => {
        const writer = best(writers, (one) => one.start <= row && (row - one.start) % step === 0) ?? absent(row % step);
        return writer === null ? null : render(writer, (row - writer.start) / step);
      },
    };
  }
  return {
    words: `each of ${writers.length} writers has one stretch of rows, and numbers its own`,
    pathOf: (row) => {
      const writer = best(writers, (one) => one.start <= row);
      return writer === null || beyond(writers, writer, row) ? null : render(writer, row - writer.start);
    },
  };
}

/** The one with the latest start. */
function best(writers: readonly Writer[], fits: (writer: Writer) => boolean): Writer | null {
  return writers.filter(fits).reduce<Writer | null>((most, one) => (most === null || one.start > most.start ? one : most), null);
}

/** Stretches of one size end where the next begins, also behind the last of them. */
function beyond(writers: readonly Writer[], writer: Writer, row: number): boolean {
  const starts = [...writers.map(({ start }) => start)].sort((a, b) => a - b);
  const sizes = new Set(starts.slice(1).map((start, at) => start - (starts[at] ?? 0)));
  const [size] = sizes;
  return sizes.size === 1 && size !== undefined && starts.at(-1) === writer.start && row >= writer.start + size;
}

function stepOf(files: readonly NamedFile[]): number | null {
  const byWriter = new Map<string, NamedFile[]>();
  for (const file of files) {
    const key = JSON.stringify([file.fields.dir, file.fields.rank]);
    const list = byWriter.get(key);
    if (list === undefined) byWriter.set(key, [file]);
    else list.push(file);
  }
  let step: number | null = null;
  for (const list of byWriter.values()) {
    list.sort((a, b) => Number(a.fields.index) - Number(b.fields.index));
    const [first, last] = [list[0], list.at(-1)];
    if (first === undefined || last === undefined || first === last) continue;
    const here = (last.row - first.row) / (Number(last.fields.index) - Number(first.fields.index));
    if (!Number.isInteger(here) || here < 1 || (step !== null && step !== here)) return null;
    step = here;
  }
  return step;
}

/** null when a file breaks the rule. */
function writersOf(files: readonly NamedFile[], step: number): Writer[] | null {
  const writers = new Map<string, { dir: string | undefined; rank: string | undefined; start: number; rows: number[]; next: number }>();
  for (const { row, fields } of files) {
    const key = JSON.stringify([fields.dir, fields.rank]);
    const number = Number(fields.index);
    const start = row - step * number;
    const known = writers.get(key);
    if (known === undefined) writers.set(key, { dir: fields.dir, rank: fields.rank, start, rows: [row], next: number + 1 });
    else if (known.start !== start) return null;
    else {
      known.rows.push(row);
      known.next = Math.max(known.next, number + 1);
    }
  }
  return [...writers.values()];
}

/** A rank that has no file yet has its number in its name, where all others do. */
function absentWriter(writers: readonly Writer[], step: number): (residue: number) => Writer | null {
  const numbered = writers.every(({ dir, rank, start }) => dir === undefined && rank !== undefined && Number(rank) === start);
  const known = new Set(writers.map(({ start }) => start % step));
  return (residue) => (numbered && !known.has(residue) ? { dir: undefined, rank: `${residue}`, start: residue, rows: [], next: 0 } : null);
}

/** EAGLE's writers number a file by how many they have written: the next number is as right as any other. */
function countingRule(files: readonly NamedFile[], render: (writer: Pick<Writer, 'dir' | 'rank'>, number: number) => string): PathRule {
  const writers = new Map<string, { dir: string | undefined; rank: string | undefined; least: number; next: number }>();
  for (const { row, fields } of files) {
    const key = JSON.stringify([fields.dir, fields.rank]);
    const known = writers.get(key) ?? { dir: fields.dir, rank: fields.rank, least: row, next: 0 };
    writers.set(key, { ...known, least: Math.min(known.least, row), next: Math.max(known.next, Number(fields.index) + 1) });
  }
  const ordered = [...writers.values()].sort((a, b) => a.least - b.least);
  return {
    words: 'numbers count the files of a folder, so a new file has the next one',
    pathOf: (row) => {
      const writer = ordered.findLast(({ least }) => least <= row) ?? ordered[0];
      if (writer === undefined) return null;
      const path = render(writer, writer.next);
      writer.next += 1;
      return path;
    },
  };
}

/** Numbers a folder where the pattern has ranges; null where it has none; text when the folders follow no rule. */
function groupsIn(pattern: Pattern, files: readonly NamedFile[]): number | null | string {
  if (!pattern.fields.has('from')) return null;
  if (!pattern.fields.has('to')) return 'folders are named by their first number only, which does not say where they end';
  const sizes = new Set(files.map(({ fields }) => Number(fields.to) - Number(fields.from)));
  const [size = 0] = sizes;
  const regular = files.every(({ fields }) => Number(fields.from) === Math.floor(Number(fields.index) / size) * size);
  return sizes.size === 1 && size > 0 && regular ? size : 'folders of several sizes, which no rule explains';
}

/**
 * Numbers that are rows, in folders whose name the row must tell: always one, in turn, or stretch by stretch.
 * @param wanted rows for which the rule must be sure
 * @returns why there is no rule, as text
 */
export function folderRuleOf(pattern: Pattern, files: readonly NamedFile[], wanted: readonly number[]): PathRule | string {
  const field = pattern.fields.has('dir') ? 'dir' : 'rank';
  if (pattern.fields.has('dir') && pattern.fields.has('rank')) return 'two parts of the folders are not told by the row';
  const groups = groupsIn(pattern, files);
  if (typeof groups === 'string') return groups;
  const render = (row: number, folder: string): string =>
    pattern.render({
      index: row,
      [field]: folder,
      ...(groups === null ? {} : { from: Math.floor(row / groups) * groups, to: (Math.floor(row / groups) + 1) * groups }),
    });
  const texts = [...new Set(files.map(({ fields }) => fields[field] ?? ''))];
  const [only = ''] = texts;
  const one =
    only === '' ? 'file numbers are row numbers' : `file numbers are row numbers, and all files lie below ${JSON.stringify(only)}`;
  if (texts.length === 1) return { words: one, pathOf: (row) => render(row, only) };
  const width = new Set(texts.map((text) => text.length)).size === 1 ? only.length : 0;
  const textOf = (number: number): string => `${number}`.padStart(width, '0');
  if (!texts.every((text) => /^\d{1,9}$/.test(text) && textOf(Number(text)) === text)) return 'folders have names that are no numbers';
  const seen = files.map(({ row, fields }) => ({ row, folder: Number(fields[field]) }));
  const least = Math.min(...texts.map(Number));
  const count = Math.max(...texts.map(Number)) - least + 1;
  if (seen.every(({ row, folder }) => folder === least + (row % count)))
    return { words: `rows are dealt in turn to ${count} folders`, pathOf: (row) => render(row, textOf(least + (row % count))) };
  for (const first of new Set([0, 1, least])) {
    const [low, high] = stretchOf(seen, first);
    // Holes at a stretch's end leave its length open; that matters only for rows that lie there.
    if (low > high || wanted.some((row) => Math.floor(row / low) !== Math.floor(row / high))) continue;
    return { words: 'each folder has one stretch of rows', pathOf: (row) => render(row, textOf(first + Math.floor(row / low))) };
  }
  return 'which folder a row belongs to cannot be told';
}

/** The lengths of stretches that explain every file, if folder `first` begins at row 0. */
function stretchOf(seen: readonly { readonly row: number; readonly folder: number }[], first: number): readonly [number, number] {
  let low = 1;
  let high = Number.MAX_SAFE_INTEGER;
  for (const { row, folder } of seen) {
    const at = folder - first;
    if (at < 0) return [1, 0];
    low = Math.max(low, Math.floor(row / (at + 1)) + 1);
    if (at > 0) high = Math.min(high, Math.floor(row / at));
  }
  return [low, high];
}
