import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import type { RunLayout } from '../core/run-layout.ts';
import type { FileReader } from '../host/host.ts';
import { readPathTable } from '../ledger/path-table.ts';
import { layoutOfRun } from '../store/run-layout.ts';
import type { Layout } from '../store/store.ts';

/**
 * The layout that a run was begun with, and its table of names where it has one.
 * @throws TidemarkError `format-refused` when this version does not know it, or the table is gone
 */
export async function openRunLayout(files: FileReader, folder: string, run: RunLayout): Promise<Layout> {
  const digest = run.tree?.paths ?? null;
  const paths = digest === null ? null : await readPathTable(files, folder, digest);
  try {
    return layoutOfRun(run, paths);
  } catch (error) {
    // A pattern that cannot be read is a usage error where a person typed it; this one stood in the run's record.
    if (!isTidemarkError(error, 'usage')) throw error;
    throw new TidemarkError('format-refused', `${folder}: ${error.message}`, { where: folder, cause: error });
  }
}

/** Rows that were appended to a dataset have no name in a table that was made before. */
export function refuseUnnamedRows(layout: RunLayout, folder: string, rowsThen: number, rowsNow: number): void {
  if (layout.tree?.paths == null || rowsNow <= rowsThen) return;
  throw new TidemarkError(
    'run-mismatch',
    `the dataset has grown from ${rowsThen} to ${rowsNow} rows, and ${folder} has a name for the first ${rowsThen} only: its files are named by a rule that knew no more rows`,
    {
      where: folder,
      hint: 'give the dataset as it was, and extract the new rows into a folder of their own: tidemark extract --output FOLDER',
    },
  );
}
