import { TidemarkError } from '../core/errors.ts';
import type { IndexRange } from '../core/ranges.ts';
import { mergeRanges } from '../core/ranges.ts';
import type { Report } from '../core/report.ts';
import type { RunLayout, RunTree } from '../core/run-layout.ts';
import type { Dataset } from '../dataset/dataset.ts';
import type { RowTable } from '../format/row-table.ts';
import type { FileReader } from '../host/host.ts';
import { encodePathTable, PATHS_BYTES_MOST } from '../ledger/path-table.ts';
import { RANGES_MOST } from '../ledger/run-layout-schema.ts';
import { isFormula, unlocatedLayout } from '../store/layout.ts';
import { specForge } from '../store/layouts/specforge.ts';
import { parsePattern } from '../store/pattern.ts';
import { type Placed, placeFiles } from '../store/place.ts';
import type { Layout } from '../store/store.ts';
import type { TreeForm } from './tree-form.ts';
import { namesFor } from './tree-names.ts';

/** A foreign tree whose files' rows are known. */
export interface PlacedTree {
  /** As it was told by looking. */
  readonly detected: Layout;
  /** Located: each row with a file has its path. */
  readonly layout: Layout;
  /** null where the row alone says the path. */
  readonly placed: Placed | null;
  readonly sound: readonly IndexRange[];
}

/** The files of a tree at their rows: by name where that tells, by the ids inside where numbers turned out to be no rows. */
export async function placeTree(
  files: FileReader,
  root: string,
  detected: Layout,
  report: Report,
  table: RowTable,
  signal: AbortSignal,
): Promise<PlacedTree> {
  const sound = mergeRanges(report.verdicts.filter((group) => group.verdict === 'sound').flatMap((group) => group.ranges));
  if (detected.located && report.placement === null) return { detected, layout: detected, placed: null, sound };
  const { pattern, codec, groupSize } = detected;
  const kind = { name: detected.name, form: detected.form };
  // Numbers that were dealt to ranks are as good as none: only the ids inside tell the row.
  const base = detected.located ? unlocatedLayout(kind, { pattern, codec, groupSize, numbering: 'local' }) : detected;
  const placed = await placeFiles(files, root, base, table, signal);
  return { detected, layout: placed.layout, placed, sound };
}

/** A tree as a run records it. */
export interface LayoutForTree {
  readonly layout: RunLayout;
  /** `paths.log`, where names do not follow from rows. */
  readonly paths: Uint8Array | null;
  /** How new files are named, in words. */
  readonly names: string;
}

/**
 * How the run of a tree names and makes its files.
 * @throws TidemarkError `decision-needed` when rows lack a file and nothing tells the names of new ones
 */
export async function layoutForTree(root: string, tree: PlacedTree, form: TreeForm, dataset: Dataset): Promise<LayoutForTree> {
  const { detected, placed } = tree;
  const extension = /\.([A-Za-z][A-Za-z0-9]*(?:\.gz)?)$/.exec(detected.pattern)?.[1] ?? '';
  const { name, groupSize, pattern, codec, ranges } = detected;
  const plain: RunTree = { pattern, codec, ranges, tensors: form.tensors, names: form.names, paths: null };
  if (placed === null && ranges.length <= RANGES_MOST) {
    const layout: RunLayout = isOurs(detected, form) ? { name, extension, groupSize } : { name, extension, groupSize, tree: plain };
    return { layout, paths: null, names: `by the row: ${pattern}` };
  }
  const named = await pathsOf(root, tree, dataset);
  const { bytes, sha256 } = encodePathTable(named.paths);
  if (bytes.length > PATHS_BYTES_MOST) {
    throw new TidemarkError('decision-needed', `the names of ${dataset.rows} files take ${bytes.length} bytes, more than a run keeps`, {
      where: root,
      hint: 'adopt the tree in parts, each with its part of the dataset',
    });
  }
  return { layout: { name, extension, groupSize: 0, tree: { ...plain, ranges: [], paths: sha256 } }, paths: bytes, names: named.rule };
}

/** Whether tidemark could have begun this tree itself: then it is remembered as such. */
function isOurs(detected: Layout, { tensors, names }: TreeForm): boolean {
  const own = specForge.form.map(({ name, role, axes }) => ({ name, role, axes }));
  const theirs = tensors.map(({ name, role, axes }) => ({ name, role, axes }));
  return (
    detected.name === specForge.name &&
    detected.codec === 'torch-zip' &&
    detected.groupSize > 0 &&
    detected.ranges.length === 0 &&
    names.length === 0 &&
    /^rows_\{from\}-\{to\}\/data_\{index\}\.(ckpt|pt)$/.test(detected.pattern) &&
    JSON.stringify(own) === JSON.stringify(theirs) &&
    tensors.every(({ role, dtype }) => (role !== 'ids' && role !== 'mask') || dtype === 'I64')
  );
}

async function pathsOf(root: string, tree: PlacedTree, dataset: Dataset): Promise<{ paths: (string | null)[]; rule: string }> {
  const { detected, placed } = tree;
  const { table, rows } = dataset;
  const pattern = parsePattern(detected.pattern);
  const known = placed?.paths ?? new Map<number, string>();
  const wanted: number[] = [];
  for (let row = 0; row < rows; row += 1) if (!known.has(row) && table.at(row) !== null) wanted.push(row);
  const names =
    placed === null
      ? null
      : await namesFor(
          {
            pattern,
            rows,
            paths: known,
            copies: placed.copies,
            pathOfNumber: detected.located && isFormula(pattern) ? (number) => detected.pathOf(number) : null,
            counts: detected.name === 'eagle',
            idOf: async (row) => (await dataset.read(row)).id,
          },
          wanted,
        );
  if (names !== null && !names.ok) {
    throw new TidemarkError(
      'decision-needed',
      `${root} lacks the files of ${wanted.length} rows, and what their names would be cannot be told: ${names.why}; nothing was written`,
      { where: root, hint: 'extract the missing rows into a folder of their own: tidemark extract --output FOLDER' },
    );
  }
  const paths = Array.from({ length: rows }, (_, row): string | null => {
    if (placed === null) return table.at(row) === null ? null : detected.pathOf(row);
    return known.get(row) ?? names?.paths.get(row) ?? null;
  });
  return { paths, rule: names?.rule ?? `by the row: ${detected.pattern}` };
}
