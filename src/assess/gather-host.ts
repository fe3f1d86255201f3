import { messageOf } from '../core/errors.ts';
import type { Fact, FileReader, Machine } from '../host/host.ts';
import type { StoreReader } from '../store/store.ts';
import { type Guard, refusalOf } from './gather-guard.ts';
import type { BlockedSeen, HostSeen, Known, WriterSeen } from './gathered.ts';

const PROBE_LIMIT_MS = 10_000;

export interface HostDeps {
  readonly files: FileReader;
  readonly machine: Machine;
  readonly store: StoreReader;
}

export async function gatherHost(deps: HostDeps, guard: Guard): Promise<HostSeen> {
  const { folder } = deps.store;
  const facts = await deps.machine.facts();
  const mount = await known(guard, `the mount of ${folder}`, () => deps.machine.mountOf(folder));
  const planned =
    deps.machine.plannedMount === undefined
      ? null
      : await known(guard, `the planned mount of ${folder}`, async () => (await deps.machine.plannedMount?.(folder)) ?? NOBODY);
  const space = await known(guard, `the free space of ${folder}`, async () => ({
    known: true,
    value: await deps.files.space(folder),
    source: 'statfs',
  }));
  return {
    hostname: facts.hostname,
    bootId: facts.bootId,
    bootedAt: facts.bootedAt,
    initStartedAt: facts.initStartedAt ?? null,
    memoryBytes: facts.memoryBytes,
    dirty: facts.dirty,
    mount,
    planned,
    space,
  };
}

export async function gatherWriters(deps: HostDeps, guard: Guard): Promise<Known<readonly WriterSeen[]>> {
  const { folder } = deps.store;
  const real = (await deps.files.realPath(folder).catch(() => null)) ?? folder;
  const writers = await known(guard, `who writes below ${folder}`, () => deps.machine.writersBelow(folder));
  if (!writers.known) return writers;
  return { ...writers, value: writers.value.map((writer) => ({ ...writer, path: within(real, writer.path) })) };
}

/** Processes that hang in the kernel with something of the folder open: they cannot be killed, and may write when the storage is back. */
export async function gatherBlocked(deps: HostDeps, guard: Guard): Promise<Known<readonly BlockedSeen[]> | null> {
  const { machine, store } = deps;
  if (machine.blockedBelow === undefined) return null;
  const real = (await deps.files.realPath(store.folder).catch(() => null)) ?? store.folder;
  const blocked = await known(guard, `who hangs below ${store.folder}`, async () => (await machine.blockedBelow?.(real)) ?? NOBODY);
  return blocked.known ? { ...blocked, value: blocked.value.map((one) => ({ ...one, path: within(real, one.path) })) } : blocked;
}

const NOBODY = { known: false, why: 'this machine does not tell' } as const;

function within(folder: string, path: string): string {
  return path === folder ? '' : path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : path;
}

async function known<T>(guard: Guard, what: string, ask: () => Promise<Fact<T>>): Promise<Known<T>> {
  try {
    return await guard.run(what, PROBE_LIMIT_MS, ask);
  } catch (error) {
    if (refusalOf(error) === null) throw error;
    return { known: false, why: messageOf(error) };
  }
}
