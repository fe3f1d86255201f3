import { closeSync, openSync, readdirSync, statSync, truncateSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const PAGE = 4096;

export interface LostPages {
  readonly path: string;
  readonly what: string;
}

/**
 * Does to files that were never synced what a power cut does to them. SIGKILL alone does not: the kernel keeps
 * the pages. ext4 and XFS allocate late, so the newest files come back empty, cut at a page, zero from a page on, or with a hole.
 * @param most how many of the newest files lose pages
 */
export function losePageCache(folder: string, most: number): LostPages[] {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ckpt'))
    .map((name) => ({ path: join(folder, name), name }))
    .sort((a, b) => statSync(b.path).mtimeMs - statSync(a.path).mtimeMs || (a.name < b.name ? 1 : -1));
  return files.slice(0, most).map(({ path, name }, place) => ({ path: name, what: lose(path, place) }));
}

function lose(path: string, place: number): string {
  const { size } = statSync(path);
  const pages = Math.floor(size / PAGE);
  const middle = Math.max(1, Math.floor(pages / 2));
  switch (place % 4) {
    case 0:
      truncateSync(path, 0);
      return 'empty';
    case 1:
      truncateSync(path, middle * PAGE);
      return `cut after page ${middle} of ${pages}`;
    case 2:
      zero(path, middle * PAGE, size);
      return `zero from page ${middle} of ${pages} on`;
    default:
      zero(path, middle * PAGE, (middle + 1) * PAGE);
      return `page ${middle} of ${pages} is zero`;
  }
  function zero(file: string, from: number, to: number): void {
    const descriptor = openSync(file, 'r+');
    writeSync(descriptor, Buffer.alloc(to - from), 0, to - from, from);
    closeSync(descriptor);
  }
}
