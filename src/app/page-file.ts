import { dirname } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import type { Host } from '../host/host.ts';
import { replaceFile } from '../ledger/whole-file.ts';

/** Writes a page where the operator asked for it; an older page is replaced, a folder or link is not. */
export async function writePage(host: Host, path: string, html: string): Promise<void> {
  const there = await host.files.stat(path);
  if (there !== null && there.kind !== 'file') {
    throw new TidemarkError('usage', `the page cannot be written to ${path}: a ${there.kind} is there`, {
      where: path,
      hint: 'give --html another name',
    });
  }
  if ((await host.files.realPath(dirname(path))) === null) {
    throw new TidemarkError('usage', `the page cannot be written to ${path}: its folder does not exist`, {
      where: path,
      hint: `mkdir -p ${dirname(path)}`,
    });
  }
  await replaceFile(host, path, Buffer.from(html));
}
