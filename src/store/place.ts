import { assert } from '../core/assert.ts';
import { isTidemarkError } from '../core/errors.ts';
import { identityOf, type RowIdentity, strippedLength } from '../core/identity.ts';
import type { FileReader } from '../host/host.ts';
import { listedOrNull } from './listed.ts';
import { inferRows } from './place-inferred.ts';
import { createStoreReader } from './reader.ts';
import type { Layout, ParsedName } from './store.ts';

/** Files open at once. */
const WIDTH = 32;
const DEPTH_MOST = 8;

/** The dataset's rows, as far as placing needs them. */
export interface RowsToPlace {
  readonly rows: number;
  at(index: number): RowIdentity | null;
}

/** A sample's file whose name does not tell its row. */
export interface UnplacedFile {
  readonly path: string;
  readonly writer: string;
  readonly number: number | null;
}

/** How the files of a tree came to their rows; the counts add up to the files. */
export interface Placed {
  /** Located: what assessment and all the rest work with. */
  readonly layout: Layout;
  readonly by: 'name' | 'content' | 'order';
  readonly files: number;
  /** Told by the ids inside, by the number in the name, or by the order of the paths. */
  readonly told: number;
  /** Unreadable or unknown ids, between neighbours of the same writer that leave one row for them. */
  readonly inferred: number;
  /** Second files of a row. */
  readonly copies: readonly string[];
  /** The file of each row that has one. */
  readonly paths: ReadonlyMap<number, string>;
  /** Files of which nothing tells the row. They are listed with what is no row's file. */
  readonly homeless: readonly string[];
}

/**
 * Gives every file of a layout that is not located its row: by the number in its name where that is a row's and no two
 * folders have the same ones, by the ids inside where there is a dataset, and else by the order of the paths. Reads names, and
 * for content each file's ids. A located layout comes back as it is.
 */
export async function placeFiles(
  files: FileReader,
  folder: string,
  layout: Layout,
  rows: RowsToPlace | null,
  signal?: AbortSignal,
): Promise<Placed> {
  if (layout.located) return { layout, by: 'name', files: 0, told: 0, inferred: 0, copies: [], paths: new Map(), homeless: [] };
  const found = await unplacedFiles(files, folder, layout, signal);
  if (layout.numbering === 'row' && numbersAreRows(found)) return byName(layout, found);
  return rows === null ? byOrder(layout, found) : byContent(files, folder, layout, found, rows, signal);
}

/** Every file whose name has the layout's form, in the order of writers, numbers and paths. */
export async function unplacedFiles(files: FileReader, folder: string, layout: Layout, signal?: AbortSignal): Promise<UnplacedFile[]> {
  const found: UnplacedFile[] = [];
  let level = [''];
  for (let depth = 0; depth <= DEPTH_MOST && level.length > 0; depth += 1) {
    const below: string[] = [];
    for (const path of level) {
      signal?.throwIfAborted();
      for (const entry of (await listedOrNull(files, path === '' ? folder : `${folder}/${path}`)) ?? []) {
        const full = path === '' ? entry.name : `${path}/${entry.name}`;
        if (!entry.openable) continue;
        if (entry.kind === 'directory') {
          if (layout.folderFits?.(full) === true) below.push(full);
          continue;
        }
        const parsed: ParsedName = layout.parse(path, entry.name);
        if (parsed.kind === 'unplaced') found.push({ path: full, writer: parsed.writer, number: parsed.number });
      }
    }
    level = below;
  }
  const text = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
  const byNumber = (a: string, b: string): number => a.length - b.length || text(a, b);
  const writers = (a: string, b: string): number => (/^\d+$/.test(a) && /^\d+$/.test(b) ? byNumber(a, b) : text(a, b));
  return found.sort((a, b) => writers(a.writer, b.writer) || (a.number ?? 0) - (b.number ?? 0) || text(a.path, b.path));
}

/** A few copies are copies; numbers that begin anew in every folder are no rows. */
function numbersAreRows(found: readonly UnplacedFile[]): boolean {
  const numbers = new Set(found.map((file) => file.number));
  return !numbers.has(null) && numbers.size * 10 >= found.length * 9;
}

function byName(layout: Layout, found: readonly UnplacedFile[]): Placed {
  const paths = new Map<number, string>();
  const copies = new Map<string, number>();
  for (const { path, number } of found) {
    if (number === null) continue;
    if (paths.has(number)) copies.set(path, number);
    else paths.set(number, path);
  }
  return placed(layout, 'name', found, paths, { copies, inferred: 0, note: null });
}

function byOrder(layout: Layout, found: readonly UnplacedFile[]): Placed {
  const paths = new Map(found.map(({ path }, at) => [at, path]));
  return placed(layout, 'order', found, paths, { copies: new Map(), inferred: 0, note: 'rows in the order of the paths' });
}

async function byContent(
  files: FileReader,
  folder: string,
  layout: Layout,
  found: readonly UnplacedFile[],
  rows: RowsToPlace,
  signal: AbortSignal | undefined,
): Promise<Placed> {
  const store = createStoreReader(files, folder, layout);
  const identities: (readonly string[] | null)[] = new Array(found.length).fill(null);
  await eachOf(found, async (file, at) => {
    signal?.throwIfAborted();
    identities[at] = await identitiesIn(store, file.path);
  });
  const rowsOf = indexOf(rows);
  const rowOfFile: (number | null)[] = new Array(found.length).fill(null);
  const paths = new Map<number, string>();
  const copies = new Map<string, number>();
  found.forEach((file, at) => {
    const candidates = (identities[at] ?? []).map((identity) => rowsOf.get(identity)).find((list) => list !== undefined);
    if (candidates === undefined) return;
    // Equal rows exist: each takes the next file that holds them.
    const free = candidates.find((row) => !paths.has(row));
    if (free === undefined) copies.set(file.path, candidates[0] ?? 0);
    else {
      paths.set(free, file.path);
      rowOfFile[at] = free;
    }
  });
  const inferred = inferRows(found, rowOfFile, { rows: rows.rows, taken: (row) => paths.has(row), isCopy: (path) => copies.has(path) });
  for (const [row, path] of inferred) paths.set(row, path);
  return placed(layout, 'content', found, paths, { copies, inferred: inferred.size, note: 'rows told by the ids inside' });
}

/** The identities under which a file's row may be known: without its padding, and as it is. Null when its ids cannot be read. */
async function identitiesIn(store: ReturnType<typeof createStoreReader>, path: string): Promise<readonly string[] | null> {
  try {
    const opened = await store.openAt(path);
    if (!opened?.ok) return null;
    try {
      const ids = await opened.sample.readIds();
      if (!ids.ok) return null;
      const { inputIds, lossMask } = ids.value;
      const whole = identityOf(inputIds);
      const length = lossMask === null || lossMask.length !== inputIds.length ? inputIds.length : strippedLength(inputIds, lossMask);
      return length === inputIds.length ? [whole] : [identityOf(inputIds.subarray(0, length)), whole];
    } finally {
      await opened.sample.close();
    }
  } catch (error) {
    if (isTidemarkError(error, 'storage-denied', 'storage-failed', 'storage-silent', 'format-refused')) return null;
    throw error;
  }
}

function indexOf(table: RowsToPlace): Map<string, number[]> {
  const rows = new Map<string, number[]>();
  for (let row = 0; row < table.rows; row += 1) {
    const wanted = table.at(row);
    if (wanted === null) continue;
    for (const identity of new Set([wanted.stripped, wanted.identity])) {
      const list = rows.get(identity);
      if (list === undefined) rows.set(identity, [row]);
      else list.push(row);
    }
  }
  return rows;
}

function placed(
  base: Layout,
  by: Placed['by'],
  found: readonly UnplacedFile[],
  paths: ReadonlyMap<number, string>,
  rest: { readonly copies: ReadonlyMap<string, number>; readonly inferred: number; readonly note: string | null },
): Placed {
  const rowOf = new Map([...paths].map(([row, path]) => [path, row]));
  const layout: Layout = {
    ...base,
    pattern: rest.note === null ? base.pattern : `${base.pattern} (${rest.note})`,
    located: true,
    // A row without a file has no path that anybody knows; the pattern with its holes is one that no file has.
    pathOf: (index) => paths.get(index) ?? base.pattern.replace(/\{index[^}]*\}/, String(index)),
    folderOf: () => ({ path: '', range: [0, Number.MAX_SAFE_INTEGER] }),
    parse: (folder, name) => {
      const path = folder === '' ? name : `${folder}/${name}`;
      const row = rowOf.get(path);
      if (row !== undefined) return { kind: 'sample', index: row, inPlace: true };
      const copied = rest.copies.get(path);
      return copied === undefined ? base.parse(folder, name) : { kind: 'duplicate', index: copied };
    },
  };
  const homeless = found.filter(({ path }) => !rowOf.has(path) && !rest.copies.has(path)).map(({ path }) => path);
  assert(paths.size + rest.copies.size + homeless.length === found.length, 'every file has a row, is a copy or is homeless');
  return {
    layout,
    by,
    files: found.length,
    told: paths.size - rest.inferred,
    inferred: rest.inferred,
    copies: [...rest.copies.keys()],
    paths,
    homeless,
  };
}

/** Runs `work` over all items, `WIDTH` at a time; the first failure ends it. */
async function eachOf<T>(items: readonly T[], work: (item: T, at: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) await work(items[at] as T, at);
  };
  await Promise.all(Array.from({ length: WIDTH }, worker));
}
