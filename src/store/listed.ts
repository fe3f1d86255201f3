import { isTidemarkError } from '../core/errors.ts';
import type { DirectoryEntry, FileReader } from '../host/host.ts';

/** A folder below the tree's own that may not be listed is no reason to stop: whoever assesses the tree meets it again and reports it. */
export async function listedOrNull(files: FileReader, path: string): Promise<readonly DirectoryEntry[] | null> {
  try {
    return await files.list(path);
  } catch (error) {
    if (isTidemarkError(error, 'storage-denied', 'storage-failed', 'storage-silent')) return null;
    throw error;
  }
}
