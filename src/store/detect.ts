import { TidemarkError } from '../core/errors.ts';
import type { FileReader } from '../host/host.ts';
import { specForgeLayout } from './layouts/specforge.ts';
import type { Layout } from './store.ts';

/** Folders whose files are looked at for their extension; a tree of two thousand needs no more to be told. */
const FOLDERS_LOOKED_AT = 16;

/**
 * The layout of a tree that tidemark did not write, told by looking at names.
 * @throws TidemarkError `no-run` when nothing here looks like samples, `decision-needed` when it can be read in two ways
 */
export async function detectLayout(files: FileReader, folder: string): Promise<Layout> {
  const entries = await files.list(folder);
  if (entries === null)
    throw new TidemarkError('no-run', `there is no folder ${folder}`, {
      where: folder,
      hint: 'check the path, and that its disk is mounted',
    });
  const groups = entries
    .filter((entry) => entry.kind === 'directory' && entry.openable)
    .map((entry) => groupOf(entry.name))
    .filter((group) => group !== null);
  if (groups.length === 0) throw nothingKnown(folder);
  const groupSize = onlyOne(folder, 'rows a folder', tally(groups.map((group) => String(group.size))));
  const extensions: string[] = [];
  for (const { name } of groups.slice(0, FOLDERS_LOOKED_AT)) {
    for (const entry of (await files.list(`${folder}/${name}`)) ?? []) {
      const extension = /^data_\d+\.(ckpt|pt)$/.exec(entry.name)?.[1];
      if (extension !== undefined) extensions.push(extension);
    }
  }
  if (extensions.length === 0) throw nothingKnown(folder);
  const extension = onlyOne(folder, 'the extension', tally(extensions)) === 'pt' ? 'pt' : 'ckpt';
  return specForgeLayout({ extension, groupSize: Number(groupSize) });
}

function groupOf(name: string): { readonly name: string; readonly size: number } | null {
  const match = /^rows_(0|[1-9]\d{0,14})-([1-9]\d{0,14})$/.exec(name);
  const [from, to] = [Number(match?.[1]), Number(match?.[2])];
  const size = to - from;
  return size > 0 && from % size === 0 ? { name, size } : null;
}

function tally(values: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

/** The value of nearly all; a few strays are foreign files, an even split is a question. */
function onlyOne(folder: string, what: string, counts: ReadonlyMap<string, number>): string {
  const [first, second] = [...counts].sort((a, b) => b[1] - a[1]);
  if (first !== undefined && (second === undefined || second[1] * 4 <= first[1])) return first[0];
  const seen = [...counts].map(([value, count]) => `${value} (${count} times)`).join(', ');
  throw new TidemarkError('decision-needed', `${folder} can be read in more than one way: ${what} is ${seen}`, {
    where: folder,
    hint: 'move what does not belong here elsewhere, then assess again',
  });
}

function nothingKnown(folder: string): TidemarkError {
  return new TidemarkError(
    'no-run',
    `${folder} holds no samples that tidemark knows: no .tidemark/run.json, no rows_A-B/data_I.ckpt or .pt`,
    {
      where: folder,
      hint: `ls ${folder}`,
    },
  );
}
