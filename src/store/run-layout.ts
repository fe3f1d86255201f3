import { TidemarkError } from '../core/errors.ts';
import type { RunLayout, RunTree } from '../core/run-layout.ts';
import type { TextEntry } from '../format/tensors.ts';
import { formulaLayout, isFormula, unlocatedLayout } from './layout.ts';
import { specForgeLayout } from './layouts/specforge.ts';
import { parsePattern } from './pattern.ts';
import type { Layout } from './store.ts';

/**
 * The layout that a run states of itself: nothing is looked for, nothing guessed.
 * @param paths the run's own table of names (`.tidemark/paths.log`), where `tree.paths` says that it has one
 * @throws TidemarkError `format-refused` when this version does not know it
 */
export function layoutOfRun(run: RunLayout, paths: readonly (string | null)[] | null): Layout {
  const { name, extension, groupSize, tree } = run;
  if (tree !== undefined) return treeLayout(run, tree, paths);
  if (name === 'specforge' && (extension === 'ckpt' || extension === 'pt')) return specForgeLayout({ extension, groupSize });
  throw unknown(`the run's layout is ${name} with .${extension}`);
}

function treeLayout(run: RunLayout, tree: RunTree, paths: readonly (string | null)[] | null): Layout {
  const { name, groupSize } = run;
  const kind = { name, form: tree.tensors };
  const shape = { pattern: tree.pattern, codec: tree.codec, groupSize, ranges: tree.ranges };
  const pattern = parsePattern(tree.pattern);
  const named = (base: Layout): Layout => ({ ...base, textsOf: (index) => textsOf(tree, pattern.match(base.pathOf(index))?.id ?? null) });
  if (tree.paths !== null) {
    if (paths === null) throw unknown('the run names its files by a table, which is not at hand');
    return named(tableLayout(unlocatedLayout(kind, { ...shape, numbering: 'none' }), paths));
  }
  if (!isFormula(pattern) || (pattern.fields.has('from') && groupSize === 0)) throw unknown(`the run's files are named ${tree.pattern}`);
  return named(formulaLayout(kind, shape));
}

function unknown(what: string): TidemarkError {
  return new TidemarkError('format-refused', `${what}, which this version does not know`, {
    hint: 'continue with the version that began the run',
  });
}

/** A file's own name stands in it under these keys. */
function textsOf(tree: RunTree, id: string | null): TextEntry[] {
  return id === null ? [] : tree.names.map((name) => ({ name, text: id }));
}

/** A layout whose names are a table, row by row. */
function tableLayout(base: Layout, paths: readonly (string | null)[]): Layout {
  const rowOf = new Map<string, number>();
  paths.forEach((path, row) => {
    if (path !== null) rowOf.set(path, row);
  });
  const at = (folder: string, name: string): number | undefined => rowOf.get(folder === '' ? name : `${folder}/${name}`);
  return {
    ...base,
    located: true,
    numbering: 'row',
    // A row without a name has no sample, or was appended later: the name is one that no file has.
    pathOf: (index) => paths[index] ?? `row-${index}-has-no-name`,
    folderOf: () => ({ path: '', range: [0, Number.MAX_SAFE_INTEGER] }),
    parse: (folder, name) => {
      const row = at(folder, name);
      if (row !== undefined) return { kind: 'sample', index: row, inPlace: true };
      const parsed = base.parse(folder, name);
      if (parsed.kind !== 'temporary') return parsed;
      // The pattern's own number is no row: the table alone says whose temporary it is.
      const final = /^(.+)\.tidemark-L/s.exec(name)?.[1];
      return { ...parsed, index: final === undefined ? null : (at(folder, final) ?? null) };
    },
  };
}
