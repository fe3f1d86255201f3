import { messageOf } from '../core/errors.ts';
import type { FileLock } from '../host/host.ts';
import { type Guard, pooled, refusalOf } from './gather-guard.ts';
import type { HostDeps } from './gather-host.ts';
import type { Names } from './gather-names.ts';
import type { HostSeen, Known, LockSeen } from './gathered.ts';

const PROBE_LIMIT_MS = 10_000;
/** Files that are looked at for a lock whose holder may not be asked. */
const LOOKED_MOST = 20_000;
const WIDTH = 32;

/**
 * Who holds an exclusive lock on something of the folder. The holder's own descriptor names the file where we may look at it; elsewhere
 * (another user's process, a lock that belongs to an open file) the folder's files are looked at for the inode that the kernel names.
 */
export async function gatherLocks(
  deps: HostDeps,
  guard: Guard,
  names: Names,
  mount: HostSeen['mount'],
): Promise<Known<readonly LockSeen[]> | null> {
  const { machine, files, store } = deps;
  if (machine.locks === undefined) return null;
  try {
    const listed = (await guard.run('who holds locks', PROBE_LIMIT_MS, async () => machine.locks?.())) ?? null;
    if (listed === null || !listed.known) return listed;
    const real = (await guard.run(`resolving ${store.folder}`, PROBE_LIMIT_MS, () => files.realPath(store.folder))) ?? store.folder;
    const exclusive = listed.value.filter((lock) => lock.exclusive);
    const named = exclusive.flatMap((lock) => (lock.path?.startsWith(`${real}/`) ? [seen(lock, lock.path.slice(real.length + 1))] : []));
    const nameless = exclusive.filter((lock) => lock.path === null);
    if (nameless.length === 0) return { known: true, value: named, source: listed.source };
    const matched = await matchInodes(deps, guard, { names, mount, real, locks: nameless });
    const value = [...named, ...matched.found];
    if (value.length === 0 && matched.unknown !== null) return { known: false, why: `${listed.source}: ${matched.unknown}` };
    return { known: true, value, source: listed.source };
  } catch (error) {
    if (refusalOf(error) === null) throw error;
    return { known: false, why: messageOf(error) };
  }
}

function seen(lock: FileLock, path: string): LockSeen {
  return { kind: lock.kind, pid: lock.pid, command: lock.command, path };
}

interface Matching {
  readonly names: Names;
  readonly mount: HostSeen['mount'];
  readonly real: string;
  readonly locks: readonly FileLock[];
}

async function matchInodes(
  { files, store }: HostDeps,
  guard: Guard,
  { names, mount, real, locks }: Matching,
): Promise<{ readonly found: LockSeen[]; readonly unknown: string | null }> {
  const folder = await guard.run(`looking at ${real}`, PROBE_LIMIT_MS, () => files.stat(real));
  const device = mount.known ? mount.value.device : undefined;
  // Subvolumes of btrfs and layers of overlay have inode numbers of their own under one filesystem's number: equal is not the same.
  const ambiguous =
    device === undefined || folder === null || device === folder.device ? 0 : locks.filter((lock) => lock.device === device).length;
  const candidates = new Map<string, FileLock>();
  for (const lock of locks) {
    // Shard folders that are links may lie on any volume.
    if (names.linkedFolders.length > 0 || lock.device === folder?.device) candidates.set(`${lock.device}:${lock.inode}`, lock);
  }
  const found: LockSeen[] = [];
  const paths = candidates.size === 0 ? [] : pathsOf(names, (index) => store.layout.pathOf(index));
  let notShown = 0;
  await pooled(paths.slice(0, LOOKED_MOST), WIDTH, async (path) => {
    try {
      const stat = await guard.run(`looking at ${path}`, PROBE_LIMIT_MS, () => files.stat(`${store.folder}/${path}`));
      const lock = stat === null ? undefined : candidates.get(`${stat.device}:${stat.inode}`);
      if (lock !== undefined) found.push(seen(lock, path));
    } catch (error) {
      if (refusalOf(error) === null) throw error;
      notShown += 1;
    }
  });
  const filesystem = mount.known ? mount.value.filesystem : 'this filesystem';
  const reasons = [
    ambiguous === 0 ? '' : `${ambiguous} exclusive locks on the same ${filesystem}, whose inode numbers do not say which file they are on`,
    paths.length <= LOOKED_MOST
      ? ''
      : `exclusive locks by processes that do not show their files, and only ${LOOKED_MOST} of ${paths.length} files were looked at`,
    notShown === 0 ? '' : `exclusive locks by processes that do not show their files, and ${notShown} files could not be looked at`,
  ].filter((reason) => reason !== '');
  found.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { found, unknown: reasons.length === 0 ? null : reasons.join('; ') };
}

/** What is no sample first: a lock is often a file of its own. Then the samples, the last ones first: there a writer is. */
function pathsOf(names: Names, pathOf: (index: number) => string): string[] {
  const others = [...names.foreign, ...names.misplaced, ...names.otherNames].map(({ path }) => path);
  const samples = Array.from(names.present).sort((a, b) => b - a);
  return [...others, ...samples.map(pathOf)];
}
