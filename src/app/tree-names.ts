import { numberUnder, rankRuleOf } from '../assess/numbering.ts';
import type { Pattern, PatternFields } from '../store/pattern.ts';
import { folderRuleOf, writerRuleOf } from './tree-rules.ts';

/** A tree whose names do not simply follow from rows, and what is known of it. */
export interface NamedTree {
  readonly pattern: Pattern;
  readonly rows: number;
  /** The file of each row that has one. */
  readonly paths: ReadonlyMap<number, string>;
  /** Files with a row that another file holds, too. */
  readonly copies: readonly string[];
  /** The path of a number where it follows from the number alone; null where folders or ranks come in. */
  readonly pathOfNumber: ((number: number) => string) | null;
  /** Whether a writer's number is the count of files that it had written before, as EAGLE's is. */
  readonly counts: boolean;
  /** The id that the dataset gives a row. */
  idOf(row: number): Promise<string | null>;
}

/** How new files are named, in words, and their paths; or why that cannot be told. */
export type Names =
  | { readonly ok: true; readonly rule: string; readonly paths: ReadonlyMap<number, string> }
  | { readonly ok: false; readonly why: string };

/** One sample's file, by the parts of its name. */
export interface NamedFile {
  readonly row: number;
  readonly fields: PatternFields;
}

/** Ids that are compared with the names of files before they are believed. */
const IDS_COMPARED = 64;

/**
 * The names that the tree's own rule gives to rows without a file. Nothing is made up: a rule must hold for every file that is there, and
 * its names must be free.
 * @param wanted rows that need a name, ascending
 */
export async function namesFor(tree: NamedTree, wanted: readonly number[]): Promise<Names> {
  if (wanted.length === 0) return { ok: true, rule: 'every row has its file, and no new name is needed', paths: new Map() };
  const files = [...tree.paths].flatMap(([row, path]): NamedFile[] => {
    const fields = tree.pattern.match(path);
    return fields === null ? [] : [{ row, fields }];
  });
  if (files.length === 0) return { ok: false, why: 'no file of the tree shows how names are given' };
  const named = tree.pattern.fields.has('id') ? await namesById(tree, files, wanted) : namesByNumber(tree, files, wanted);
  return named.ok ? freeNames(tree, named) : named;
}

async function namesById(tree: NamedTree, files: readonly NamedFile[], wanted: readonly number[]): Promise<Names> {
  const step = Math.max(1, Math.floor(files.length / IDS_COMPARED));
  for (let at = 0; at < files.length; at += step) {
    const { row, fields } = files[at] as NamedFile;
    const id = await tree.idOf(row);
    if (id === null)
      return { ok: false, why: `files are named by an id, and row ${row} of the dataset has none (conversation_id, id or uuid)` };
    if (id !== fields.id) {
      return {
        ok: false,
        why: `files are named by an id that the dataset does not have: row ${row} is ${JSON.stringify(id)}, its file ${JSON.stringify(fields.id)}`,
      };
    }
  }
  const folders = new Set(files.map(({ fields }) => fields.dir));
  if (folders.size > 1) return { ok: false, why: `files lie in ${folders.size} folders, and nothing tells which of them is a new file's` };
  const [dir] = folders;
  const paths = new Map<number, string>();
  for (const row of wanted) {
    const id = await tree.idOf(row);
    if (id === null)
      return { ok: false, why: `files are named by an id, and row ${row} of the dataset has none (conversation_id, id or uuid)` };
    const path = tree.pattern.render({ id, ...(dir === undefined ? {} : { dir }) });
    if (tree.pattern.match(path)?.id !== id || Buffer.byteLength(id) > 200)
      return { ok: false, why: `the id of row ${row}, ${JSON.stringify(id.slice(0, 80))}, is no file name` };
    paths.set(row, path);
  }
  return { ok: true, rule: "by the row's own id", paths };
}

function namesByNumber(tree: NamedTree, files: readonly NamedFile[], wanted: readonly number[]): Names {
  const isWriters = tree.pattern.fields.has('dir') || tree.pattern.fields.has('rank');
  if (tree.pathOfNumber !== null && !isWriters) return namesByRank(tree.pathOfNumber, tree.rows, files, wanted);
  const numbersAreRows = files.every(({ row, fields }) => Number(fields.index) === row);
  const rule = numbersAreRows
    ? folderRuleOf(tree.pattern, files, wanted)
    : writerRuleOf(tree.pattern, files, { rows: tree.rows, counts: tree.counts });
  if (typeof rule === 'string') return { ok: false, why: rule };
  const paths = new Map<number, string>();
  for (const row of wanted) {
    const path = rule.pathOf(row);
    if (path === null) return { ok: false, why: `${rule.words}, and that does not say where row ${row} belongs` };
    paths.set(row, path);
  }
  return { ok: true, rule: rule.words, paths };
}

function namesByRank(pathOf: (number: number) => string, rows: number, files: readonly NamedFile[], wanted: readonly number[]): Names {
  const holds = new Map(files.map(({ row, fields }): [number, number] => [Number(fields.index), row]).sort((a, b) => a[0] - b[0]));
  const rule = rankRuleOf(holds, rows);
  if (rule === null) return { ok: false, why: 'file numbers are no row numbers, and no rule was found that gives a row its number' };
  const paths = new Map<number, string>();
  for (const row of wanted) {
    const number = numberUnder(rule, row, rows);
    if (number === null)
      return { ok: false, why: `rank ${row % rule.ranks} of ${rule.ranks} has no file, so nothing tells where its numbers begin` };
    paths.set(row, pathOf(number));
  }
  return { ok: true, rule: `rows were dealt in turn to ${rule.ranks} ranks, and each numbered its own`, paths };
}

/** A name that is taken by the file of another row must not be written over, nor may two rows share one. */
function freeNames(tree: NamedTree, names: Extract<Names, { ok: true }>): Names {
  const owners = new Map<string, string>();
  for (const [row, path] of tree.paths) owners.set(path, `the file of row ${row}`);
  for (const path of tree.copies) owners.set(path, 'a second file of another row');
  for (const [row, path] of names.paths) {
    const owner = owners.get(path);
    if (owner !== undefined) return { ok: false, why: `${names.rule}; that gives row ${row} the name ${path}, which is ${owner}` };
    owners.set(path, `the name of row ${row}`);
  }
  return names;
}
