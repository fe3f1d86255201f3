import type { FileReader } from '../host/host.ts';
import type { Layout } from '../store/store.ts';
import { unpackFacts } from './facts.ts';
import { askedOrNull, type Guard, pooled } from './gather-guard.ts';
import type { AskedAgain } from './gathered.ts';
import type { RowColumns } from './row-columns.ts';

const LIST_LIMIT_MS = 60_000;
const OPEN_LIMIT_MS = 30_000;
const FOLDERS_MOST = 256;
const FILES_MOST = 4096;

export interface RevalidateOptions {
  readonly files: FileReader;
  readonly folder: string;
  readonly layout: Layout;
  readonly guard: Guard;
  readonly columns: RowColumns;
  /** 1 for each row that has a file; rows that appear are set. */
  readonly present: Uint8Array;
  readonly width: number;
  readonly signal: AbortSignal | undefined;
  /** Reads rows' files as the first time. */
  readonly readAgain: (rows: readonly number[]) => Promise<void>;
}

/**
 * Asks a mount that may answer from a cache once more, before what it did not show is called missing or lost, and what it showed
 * short is called torn: folders with gaps are opened and listed anew, then the files that were not there although a journal has them, or
 * that do not look whole, are opened anew and read again.
 */
export async function revalidate(options: RevalidateOptions): Promise<AskedAgain> {
  const { files, folder, layout, guard, columns, present, width, signal } = options;
  const folders = foldersWithGaps(options);
  const suspects = new Set<number>();
  for (const path of folders.slice(0, FOLDERS_MOST)) {
    signal?.throwIfAborted();
    for (const { name } of (await askedOrNull(guard, 'asking again', LIST_LIMIT_MS, () =>
      files.list(path === '' ? folder : `${folder}/${path}`),
    )) ?? []) {
      const parsed = layout.parse(path, name);
      if (parsed.kind === 'sample' && parsed.inPlace && parsed.index < columns.rows && present[parsed.index] === 0)
        suspects.add(parsed.index);
    }
  }
  for (let row = 0; row < columns.rows; row += 1) if (isBad(columns, row)) suspects.add(row);
  const all = [...suspects].sort((a, b) => a - b);
  const rows = all.slice(0, FILES_MOST);
  const wasThere = rows.map((row) => isThere(columns, row));
  // A name is looked at through the cache; a file that was opened just now is not.
  await pooled(rows, width, async (row) => {
    signal?.throwIfAborted();
    const opened = await askedOrNull(guard, 'asking again', OPEN_LIMIT_MS, () => files.open(`${folder}/${layout.pathOf(row)}`));
    await opened?.close();
  });
  await options.readAgain(rows);
  let appeared = 0;
  let mended = 0;
  for (const [at, row] of rows.entries()) {
    if (!isThere(columns, row)) continue;
    present[row] = 1;
    if (wasThere[at] === false) appeared += 1;
    else if (!isBad(columns, row)) mended += 1;
  }
  const leftOut = [
    folders.length <= FOLDERS_MOST ? '' : `${folders.length - FOLDERS_MOST} of ${folders.length} folders`,
    all.length <= FILES_MOST ? '' : `${all.length - FILES_MOST} of ${all.length} files`,
  ].filter((part) => part !== '');
  return {
    folders: Math.min(folders.length, FOLDERS_MOST),
    files: rows.length,
    appeared,
    mended,
    leftOut: leftOut.length === 0 ? null : leftOut.join(' and '),
  };
}

function isThere(columns: RowColumns, row: number): boolean {
  return unpackFacts(columns.facts[row] ?? 0).file !== 'no';
}

/** Gone although a journal has it, or there and not whole. */
function isBad(columns: RowColumns, row: number): boolean {
  const { ledger, file, whole, checksum } = unpackFacts(columns.facts[row] ?? 0);
  return file === 'no' ? ledger === 'committed' : whole === 'no' || checksum === 'differs';
}

/** In which a row has no file, up to the folder behind the last file: further on nothing was begun. */
function foldersWithGaps({ layout, columns, present }: RevalidateOptions): string[] {
  const folders: string[] = [];
  const last = present.lastIndexOf(1);
  for (let row = 0; row < columns.rows; ) {
    const { path, range } = layout.folderOf(row);
    const to = Math.min(columns.rows, Math.max(row + 1, range[1]));
    if (present.subarray(row, to).includes(0)) folders.push(path);
    if (row > last) break;
    row = to;
  }
  return folders;
}
