import { reclaimableBytes } from '../core/reclaimable.ts';
import type { Extra } from '../core/report.ts';
import type { DirectoryEntry, FileReader } from '../host/host.ts';
import type { Layout } from '../store/store.ts';
import { kindOfForeign, otherExtensions } from './extras.ts';
import { type Guard, pooled, type Refusal, refusalOf } from './gather-guard.ts';

const LIST_LIMIT_MS = 60_000;
const STAT_LIMIT_MS = 10_000;
/** Deeper than any layout; a loop of mounts must end. */
const DEPTH_MOST = 8;
/** So many extras are listed by name; the rest is counted. */
const EXTRAS_MOST = 10_000;
const OUR_FOLDER = '.tidemark';

export interface Names {
  /** Indices that have a file under the right name in the right folder; unordered. */
  readonly present: readonly number[];
  /** Names of samples in a folder that is not theirs. */
  readonly misplaced: readonly { readonly path: string; readonly index: number }[];
  /** Second names of a row: another extension beside or instead of the layout's own. */
  readonly otherNames: readonly { readonly path: string; readonly index: number }[];
  readonly foreign: readonly { readonly path: string; readonly kind: Extra['kind'] }[];
  readonly temporaryRows: ReadonlySet<number>;
  readonly emptyFolders: readonly string[];
  readonly linkedFolders: readonly string[];
  readonly unlisted: readonly { readonly path: string; readonly why: string; readonly reason: Refusal['reason'] }[];
}

export interface NamesOptions {
  readonly files: FileReader;
  readonly folder: string;
  readonly layout: Layout;
  readonly guard: Guard;
  readonly signal: AbortSignal | undefined;
}

interface Found {
  present: number[];
  misplaced: { path: string; index: number }[];
  otherNames: { path: string; index: number }[];
  foreign: { path: string; kind: Extra['kind'] }[];
  temporaryRows: Set<number>;
  emptyFolders: string[];
  linkedFolders: string[];
  unlisted: { path: string; why: string; reason: Refusal['reason'] }[];
}

/** Lists every folder below `folder` once. Nothing is opened. null when `folder` itself is not there. */
export async function gatherNames(options: NamesOptions): Promise<Names | null> {
  const found: Found = {
    present: [],
    misplaced: [],
    otherNames: [],
    foreign: [],
    temporaryRows: new Set(),
    emptyFolders: [],
    linkedFolders: [],
    unlisted: [],
  };
  let level: string[] = [''];
  for (let depth = 0; depth <= DEPTH_MOST && level.length > 0; depth += 1) {
    const below: string[] = [];
    for (const path of level) {
      options.signal?.throwIfAborted();
      const entries = await listed(options, found, path);
      if (path === '' && entries === 'absent') return null;
      if (entries === 'absent' || entries === 'unlisted') continue;
      if (entries.length === 0) found.emptyFolders.push(path);
      for (const entry of entries) sort(options.layout, found, below, path, entry);
    }
    level = below.sort();
  }
  for (const path of level) found.unlisted.push({ path, why: `deeper than ${DEPTH_MOST} folders`, reason: 'io-error' });
  return found;
}

async function listed(options: NamesOptions, found: Found, path: string): Promise<readonly DirectoryEntry[] | 'absent' | 'unlisted'> {
  const full = path === '' ? options.folder : `${options.folder}/${path}`;
  try {
    return (await options.guard.run(`listing ${full}`, LIST_LIMIT_MS, () => options.files.list(full))) ?? 'absent';
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === null || path === '') throw error;
    found.unlisted.push({ path, why: refusal.detail, reason: refusal.reason });
    return 'unlisted';
  }
}

function sort(layout: Layout, found: Found, below: string[], folder: string, entry: DirectoryEntry): void {
  const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
  if (folder === '' && entry.name === OUR_FOLDER) {
    // Of our own folder only what was set aside is part of the account.
    below.push(`${OUR_FOLDER}/quarantine`);
    return;
  }
  if (entry.kind === 'directory' && entry.openable) {
    below.push(path);
    return;
  }
  if (path.startsWith(`${OUR_FOLDER}/quarantine/`)) {
    found.foreign.push({ path, kind: 'quarantine' });
    return;
  }
  const parsed = layout.parse(folder, entry.name);
  switch (parsed.kind) {
    case 'temporary':
      found.foreign.push({ path, kind: 'temp' });
      if (parsed.index !== null) found.temporaryRows.add(parsed.index);
      return;
    case 'sample':
      if (parsed.inPlace) found.present.push(parsed.index);
      else found.misplaced.push({ path, index: parsed.index });
      return;
    case 'duplicate':
      found.otherNames.push({ path, index: parsed.index });
      return;
    case 'unplaced':
    case 'foreign':
      if (entry.kind === 'link' && isLayoutFolder(layout, path)) {
        // A shard moved to another disk and linked back: its rows are there, and taking them for missing would extract them again.
        found.linkedFolders.push(path);
        below.push(path);
        return;
      }
      for (const other of otherExtensions(entry.name)) {
        const twin = layout.parse(folder, other);
        if (twin.kind === 'sample' && twin.inPlace) {
          found.otherNames.push({ path, index: twin.index });
          return;
        }
      }
      found.foreign.push({ path, kind: kindOfForeign(folder, entry.name) });
  }
}

/** Whether a path is a folder that the layout would use; asked of the first number in its name. */
function isLayoutFolder(layout: Layout, path: string): boolean {
  const first = /(\d{1,15})/.exec(path)?.[1];
  return first !== undefined && layout.folderOf(Number(first)).path === path;
}

export interface ExtrasOptions {
  readonly files: FileReader;
  readonly folder: string;
  readonly layout: Layout;
  readonly guard: Guard;
  readonly width: number;
  readonly rows: number;
  readonly hasFile: (row: number) => boolean;
}

/** Everything that is no row's file, with its size. */
export async function gatherExtras(
  names: Names,
  options: ExtrasOptions,
): Promise<{ readonly extras: readonly Extra[]; readonly leftOut: number }> {
  const { rows, layout } = options;
  const found: { path: string; kind: Extra['kind'] }[] = [...names.foreign];
  for (const index of names.present) if (index >= rows) found.push({ path: layout.pathOf(index), kind: 'beyond-dataset' });
  for (const { path, index } of names.misplaced) found.push({ path, kind: index >= rows ? 'beyond-dataset' : 'wrong-folder' });
  for (const { path, index } of names.otherNames) {
    const kind = index >= rows ? 'beyond-dataset' : options.hasFile(index) ? 'duplicate' : 'off-pattern';
    found.push({ path, kind });
  }
  const expected = expectedFolders(layout, rows);
  for (const path of names.emptyFolders) {
    if (path !== '' && !path.startsWith(OUR_FOLDER) && !expected.has(path)) found.push({ path, kind: 'empty-folder' });
  }
  found.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  const sizes = new Map<string, ExtraSize>();
  await pooled(found.slice(0, EXTRAS_MOST), options.width, async ({ path, kind }) => {
    if (kind !== 'empty-folder') sizes.set(path, await sizeOf(options, path));
  });
  const extras = found.slice(0, EXTRAS_MOST).map(({ path, kind }) => ({ path, kind, ...(sizes.get(path) ?? NO_SIZE) }));
  return { extras, leftOut: found.length - extras.length };
}

type ExtraSize = Pick<Extra, 'bytes' | 'reclaimableBytes'>;

const NO_SIZE: ExtraSize = { bytes: 0, reclaimableBytes: 0 };

async function sizeOf(options: ExtrasOptions, path: string): Promise<ExtraSize> {
  try {
    const full = `${options.folder}/${path}`;
    const stat = await options.guard.run(`looking at ${full}`, STAT_LIMIT_MS, () => options.files.stat(full));
    return stat === null || stat.kind === 'directory' ? NO_SIZE : { bytes: stat.bytes, reclaimableBytes: reclaimableBytes(stat) };
  } catch (error) {
    // The size of what the machine will not show is no part of any sum; the name stays listed.
    if (refusalOf(error) === null) throw error;
    return NO_SIZE;
  }
}

function expectedFolders(layout: Layout, rows: number): Set<string> {
  const folders = new Set<string>();
  for (let row = 0; row < rows; ) {
    const { path, range } = layout.folderOf(row);
    folders.add(path);
    row = Math.max(row + 1, range[1]);
  }
  return folders;
}
