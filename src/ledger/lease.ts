import { z } from 'zod';
import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import { encodeLine, parseLines } from '../format/checked-lines.ts';
import type { FileReader, Host, ProcessIdentity } from '../host/host.ts';
import type { Holder } from './ledger.ts';
import { leaseName, memoryPath, parseNumbered, type Scope } from './paths.ts';
import { ensureFolder, writeDurably } from './whole-file.ts';

const FORMAT = 'tidemark.lease/1';
const MOST_LEASE_BYTES = 64 * 1024;

const leaseSchema = z.object({
  format: z.string(),
  scope: z.string(),
  number: z.int().positive(),
  holder: z.object({
    hostname: z
      .string()
      .max(255)
      .regex(/^\P{Cc}*$/u),
    bootId: z.string(),
    pid: z.int(),
    startTicks: z.string(),
    pidNamespace: z.string().exactOptional(),
  }),
  takenAt: z.iso.datetime(),
  over: z.enum(['none', 'released', 'dead', 'forced']),
});

/** The numbers of all leases ever taken, by scope, ascending. A journal proves its lease, also where the lease's own file is gone. */
export async function listLeases(files: FileReader, folder: string): Promise<ReadonlyMap<Scope, readonly number[]>> {
  const found = new Map<Scope, Set<number>>();
  for (const [name, suffix] of [
    ['leases', ''],
    ['journal', '.log'],
  ] as const) {
    for (const entry of (await files.list(memoryPath(folder, name))) ?? []) {
      const parsed = entry.kind === 'file' ? parseNumbered(entry.name, suffix) : null;
      if (parsed === null) continue;
      const numbers = found.get(parsed.scope) ?? new Set<number>();
      found.set(parsed.scope, numbers.add(parsed.lease));
    }
  }
  return new Map([...found].map(([scope, numbers]) => [scope, [...numbers].sort((a, b) => a - b)]));
}

/**
 * Who took a lease; null when its file says nothing that checks. That cannot be a crash of ours (a
 * lease is synced before it gets its name), so such a holder counts as unknown and a person decides.
 */
export async function readHolder(
  host: Pick<Host, 'machine'> & { readonly files: FileReader },
  folder: string,
  scope: Scope,
  lease: number,
): Promise<Holder | null> {
  let bytes: Uint8Array | null = null;
  try {
    bytes = await host.files.readSmall(memoryPath(folder, 'leases', leaseName(scope, lease)), MOST_LEASE_BYTES);
  } catch (error) {
    // Too large to be one of ours, or not to be read at all: either way it says nothing, and that is no answer to wait for.
    if (!isTidemarkError(error)) throw error;
  }
  const parsed = leaseSchema.safeParse(bytes === null ? null : parseLines(bytes).values[0]);
  if (!parsed.success || parsed.data.format !== FORMAT) return null;
  // A filesystem that was repaired can give a file another's content: the word of another lease says nothing of this one.
  if (parsed.data.scope !== scope || parsed.data.number !== lease) return null;
  return {
    scope,
    lease,
    process: parsed.data.holder,
    takenAt: parsed.data.takenAt,
    alive: await host.machine.isAlive(parsed.data.holder),
  };
}

export interface TakeLeaseOptions {
  /** Leases of the scope that exist, ascending. */
  readonly existing: readonly number[];
  /** Whether the newest journal of the scope was closed in good order. */
  readonly released: boolean;
  /** A person says that the holder is dead. */
  readonly force: boolean;
}

/**
 * Takes the next lease of a scope, or says who has it.
 * @throws TidemarkError `run-locked` when its holder lives or somebody was faster; `run-unknown-holder` when only a person can tell
 */
export async function takeLease(host: Host, folder: string, scope: Scope, options: TakeLeaseOptions): Promise<number> {
  const newest = options.existing.at(-1) ?? 0;
  let over: 'none' | 'released' | 'dead' | 'forced' = newest === 0 ? 'none' : 'released';
  if (newest > 0 && !options.released) {
    const holder = await readHolder(host, folder, scope, newest);
    if (holder?.alive === 'alive') throw lockedBy(holder, folder);
    if (holder?.alive === 'dead') over = 'dead';
    else if (options.force) over = 'forced';
    else throw unknownHolder(holder, folder, scope, newest);
  }
  const number = newest + 1;
  if (!(await publishLease(host, folder, scope, number, over))) {
    const winner = await readHolder(host, folder, scope, number);
    throw winner === null
      ? new TidemarkError('run-locked', `another process took lease ${number} of ${scope} in ${folder} a moment ago`, {
          where: folder,
          retry: 'later',
          hint: `tidemark assess ${folder}`,
        })
      : lockedBy(winner, folder);
  }
  return number;
}

/** Written under a name of its own, synced, then linked: exactly one process gets a number. */
async function publishLease(
  host: Host,
  folder: string,
  scope: Scope,
  number: number,
  over: z.infer<typeof leaseSchema>['over'],
): Promise<boolean> {
  const directory = memoryPath(folder, 'leases');
  await ensureFolder(host.files, directory);
  const self = await host.machine.self();
  const line = encodeLine({ format: FORMAT, scope, number, holder: self, takenAt: new Date(host.clock.now()).toISOString(), over });
  const unique = Buffer.from(host.randomBytes(6)).toString('hex');
  const temporary = `${directory}/${leaseName(scope, number)}.${unique}.tmp`;
  const final = `${directory}/${leaseName(scope, number)}`;
  await writeDurably(host, temporary, line);
  const linked = await host.files.link(temporary, final);
  if (linked === 'unsupported') return publishWithoutLinks(host, directory, temporary, final, line);
  await host.files.unlink(temporary);
  await host.files.syncDirectory(directory);
  return linked;
}

/** O_EXCL is the other atomic claim. A crash can leave the name without its line; `readHolder` then says unknown, and a person decides. */
async function publishWithoutLinks(host: Host, directory: string, temporary: string, final: string, line: Uint8Array): Promise<boolean> {
  await host.files.unlink(temporary);
  if ((await host.files.stat(final)) !== null) return false;
  await writeDurably(host, final, line);
  await host.files.syncDirectory(directory);
  return true;
}

function describeProcess(process: ProcessIdentity): string {
  return `process ${process.pid} on ${process.hostname}`;
}

function lockedBy(holder: Holder, folder: string): TidemarkError {
  return new TidemarkError('run-locked', `${describeProcess(holder.process)} has been writing to ${folder} since ${holder.takenAt}`, {
    where: folder,
    retry: 'later',
    hint: `wait for it, or stop it with: kill ${holder.process.pid}`,
  });
}

function unknownHolder(holder: Holder | null, folder: string, scope: Scope, lease: number): TidemarkError {
  const who =
    holder === null
      ? `lease ${lease} of ${scope} in ${folder} is not readable`
      : `${describeProcess(holder.process)} took ${folder} at ${holder.takenAt}`;
  return new TidemarkError('run-unknown-holder', `${who}, and from this machine nobody can tell whether it still runs`, {
    where: folder,
    hint: `make sure that it is dead, then: tidemark resume ${folder} --take-over`,
  });
}
