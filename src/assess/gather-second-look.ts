import type { Clock, FileReader } from '../host/host.ts';
import type { Layout, ParsedName } from '../store/store.ts';
import { kindOfForeign } from './extras.ts';
import { askedOrNull, type Guard, pooled } from './gather-guard.ts';
import type { Names } from './gather-names.ts';
import type { SecondLook } from './gathered.ts';
import type { RowColumns } from './row-columns.ts';

const LIMIT_MS = 10_000;
/** A writer that is alive shows in the files that it wrote last, and beside them. */
const FILES_MOST = 64;
const FOLDERS_MOST = 8;
const TEMPORARIES_MOST = 64;
const OTHERS_MOST = 100;

export interface SecondLookOptions {
  readonly files: FileReader;
  readonly folder: string;
  readonly layout: Layout;
  readonly guard: Guard;
  readonly clock: Clock;
  readonly names: Names;
  /** Sizes of temporaries at the first look, by path. */
  readonly temporaries: ReadonlyMap<string, number>;
  /** By the files' numbers, as they were read. */
  readonly columns: RowColumns;
  readonly present: Uint8Array;
  readonly width: number;
  /** By the monotonic clock. */
  readonly firstLookMs: number;
}

/**
 * Looks at the newest files and their folders once more. What differs was changed in between, by whomever and on whatever machine: sizes
 * and times are compared with themselves, so that no clock has to be right. Files are opened, because a network mount answers a look at a name from its cache.
 */
export async function lookAgain(options: SecondLookOptions): Promise<SecondLook> {
  const { files, folder, layout, guard, columns } = options;
  const newest = newestOf(columns);
  const grown: number[] = [];
  await pooled(newest, options.width, async (row) => {
    const stat = await askedOrNull(guard, 'looking again', LIMIT_MS, () => statOf(files, `${folder}/${layout.pathOf(row)}`));
    if (stat !== null && (stat.bytes !== columns.bytes[row] || stat.modifiedMs !== columns.modifiedMs[row])) grown.push(row);
  });
  const added = new Set<number>();
  const others: string[] = [];
  const { names } = options;
  const known = new Set([...names.foreign, ...names.misplaced, ...names.otherNames].map(({ path }) => path));
  for (const path of foldersOf(options, newest)) {
    const entries =
      (await askedOrNull(guard, 'looking again', LIMIT_MS, () => files.list(path === '' ? folder : `${folder}/${path}`))) ?? [];
    for (const entry of entries) {
      const full = path === '' ? entry.name : `${path}/${entry.name}`;
      const parsed = layout.parse(path, entry.name);
      if (parsed.kind === 'sample' && parsed.inPlace && parsed.index < columns.rows) {
        if (options.present[parsed.index] === 0) added.add(parsed.index);
      } else if (entry.kind === 'file' && !known.has(full) && isWriters(parsed.kind, path, entry.name)) others.push(full);
    }
  }
  await pooled([...options.temporaries].slice(0, TEMPORARIES_MOST), options.width, async ([path, bytes]) => {
    const stat = await askedOrNull(guard, 'looking again', LIMIT_MS, () => statOf(files, `${folder}/${path}`));
    if (stat !== null && stat.bytes !== bytes) others.push(path);
  });
  return {
    passedMs: options.clock.monotonicMs() - options.firstLookMs,
    filesLooked: newest.length,
    grown: grown.sort((a, b) => a - b),
    added: [...added].sort((a, b) => a - b),
    others: others.sort().slice(0, OTHERS_MOST),
  };
}

/** What a writer leaves beside its samples while it is at work; anything else may be an operator's note. */
function isWriters(kind: ParsedName['kind'], folder: string, name: string): boolean {
  if (kind === 'temporary' || kind === 'unplaced') return true;
  return kind === 'foreign' && ['temp', 'lock'].includes(kindOfForeign(folder, name));
}

function newestOf(columns: RowColumns): number[] {
  const rows: number[] = [];
  for (let row = 0; row < columns.rows; row += 1) if ((columns.modifiedMs[row] ?? 0) > 0) rows.push(row);
  return rows.sort((a, b) => (columns.modifiedMs[b] ?? 0) - (columns.modifiedMs[a] ?? 0)).slice(0, FILES_MOST);
}

/** The newest files' own, that of the row behind the last one, and the folder itself. */
function foldersOf({ layout, present, columns }: SecondLookOptions, newest: readonly number[]): string[] {
  const folders = new Set(newest.map((row) => folderIn(layout.pathOf(row))));
  const most = [...folders].slice(0, FOLDERS_MOST);
  const behind = present.lastIndexOf(1) + 1;
  return [...new Set(['', ...most, ...(behind < columns.rows ? [layout.folderOf(behind).path] : [])])];
}

function folderIn(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash < 0 ? '' : path.slice(0, slash);
}

async function statOf(files: FileReader, path: string): Promise<{ readonly bytes: number; readonly modifiedMs: number } | null> {
  const file = await files.open(path);
  if (file === null) return null;
  await file.close();
  return file.stat;
}
