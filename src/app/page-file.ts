import { dirname } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import type { Host } from '../host/host.ts';
import { isBelow } from '../host/proc.ts';
import { replaceFile } from '../ledger/whole-file.ts';

/** How much of a file is looked at to see whether it is an earlier page. */
const HEAD_BYTES = 4096;

/**
 * Writes a page where the operator asked for it. An assessment writes nothing in the folder that it looks at, and a slip of the
 * keyboard must not cost a sample: only an earlier page is replaced.
 * @param marker text that every page has in its first 4 KiB
 */
export async function writePage(
  host: Host,
  path: string,
  html: string,
  options: { readonly folder: string; readonly marker: string },
): Promise<void> {
  const parent = await host.files.realPath(dirname(path));
  if (parent === null) throw refused(path, 'its folder does not exist', `mkdir -p ${dirname(path)}`);
  const folder = await host.files.realPath(options.folder);
  if (folder !== null && (parent === folder || isBelow(parent, folder)))
    throw refused(path, `it lies in the folder that was assessed, where nothing is written`);
  const there = await host.files.stat(path);
  if (there !== null && there.kind !== 'file') throw refused(path, `a ${there.kind} is there`);
  if (there !== null && !(await isPage(host, path, options.marker))) throw refused(path, 'the file that is there is no page of tidemark');
  await replaceFile(host, path, Buffer.from(html));
}

async function isPage(host: Host, path: string, marker: string): Promise<boolean> {
  const file = await host.files.open(path);
  if (file === null) return false;
  try {
    return Buffer.from(await file.read(0, Math.min(file.size, HEAD_BYTES)))
      .toString('utf8')
      .includes(marker);
  } finally {
    await file.close();
  }
}

function refused(path: string, why: string, hint = 'give --html another name'): TidemarkError {
  return new TidemarkError('usage', `the page cannot be written to ${path}: ${why}`, { where: path, hint });
}
