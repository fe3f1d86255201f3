import { groupNames, type NameRange } from '../core/name-ranges.ts';
import { MEMORY_FOLDER } from '../ledger/paths.ts';
import { EVIDENCE_BOUNDS } from './evidence-bounds.ts';
import type { GatheredPart, Unknown } from './evidence-member.ts';
import { type EvidenceReader, tryRead } from './evidence-read.ts';

const LIST_LIMIT_MS = 60_000;
const RANGES_MOST = 1000;

interface FolderLine {
  /** Below the assessed folder; `.` is that folder. */
  readonly path: string;
  readonly files: number;
  readonly folders: number;
  readonly links: number;
  readonly ranges: readonly NameRange[];
  readonly names: readonly string[];
  readonly namesLeftOut: number;
}

/** What lies below a folder, by name alone: nothing is opened, no link is followed, and thousands of samples are one range. */
export async function gatherTree(reader: EvidenceReader, folder: string): Promise<GatheredPart> {
  const unknown: Unknown[] = [];
  const leftOut: string[] = [];
  const folders: FolderLine[] = [];
  let entriesLeft: number = EVIDENCE_BOUNDS.treeEntries;
  let unseen = 0;
  let level = [''];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > EVIDENCE_BOUNDS.treeDepth) {
      leftOut.push(`${level.length} folders lie deeper than ${EVIDENCE_BOUNDS.treeDepth} below it`);
      break;
    }
    const below: string[] = [];
    for (const path of level) {
      if (folders.length >= EVIDENCE_BOUNDS.treeFolders || entriesLeft <= 0) {
        unseen += 1;
        continue;
      }
      const full = path === '' ? folder : `${folder}/${path}`;
      const listed = await tryRead(reader, `listing ${full}`, () => reader.files.list(full), LIST_LIMIT_MS);
      if (!listed.ok || listed.value === null) {
        unknown.push({ what: full, why: listed.ok ? 'it has just gone' : listed.why });
        continue;
      }
      entriesLeft -= listed.value.length;
      const of = (kind: string): string[] => (listed.value ?? []).filter((entry) => entry.kind === kind).map(({ name }) => name);
      const { ranges, names } = groupNames(listed.value.filter(({ kind }) => kind !== 'directory').map(({ name }) => name));
      folders.push({
        path: path === '' ? '.' : path,
        files: of('file').length,
        folders: of('directory').length,
        links: of('link').length,
        ranges: ranges.slice(0, RANGES_MOST).map((range) => ({ ...range, ranges: range.ranges.slice(0, RANGES_MOST) })),
        names: names.slice(0, EVIDENCE_BOUNDS.treeNames),
        namesLeftOut: Math.max(0, names.length - EVIDENCE_BOUNDS.treeNames),
      });
      for (const entry of listed.value) {
        // Its memory is listed by itself, with sizes and digests.
        if (entry.kind !== 'directory' || !entry.openable || (path === '' && entry.name === MEMORY_FOLDER)) continue;
        below.push(path === '' ? entry.name : `${path}/${entry.name}`);
      }
    }
    level = below.sort();
  }
  if (unseen > 0) leftOut.push(`${unseen} folders were not listed: ${folders.length} folders were described before them`);
  return {
    members: [
      {
        name: 'tree.json',
        source: `listing of ${folder}`,
        content: { kind: 'json', value: { folders } },
        leftOut,
      },
    ],
    unknown,
  };
}
