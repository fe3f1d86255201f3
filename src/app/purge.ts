import { resolve } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { reclaimableBytes } from '../core/reclaimable.ts';
import { listOrphanCaptures } from '../engine/staged-list.ts';
import type { FileStore, Host } from '../host/host.ts';
import { listLeases } from '../ledger/lease.ts';
import type { Holder, LedgerReader, LostHolder } from '../ledger/ledger.ts';
import { openLedger } from '../ledger/open.ts';
import { type Scope, shardScope } from '../ledger/paths.ts';
import type { Layout } from '../store/store.ts';
import { captureOwner } from './capture-owner.ts';
import { parseSettings } from './config-settings.ts';
import { openRunLayout } from './run-layout.ts';

export interface PurgeOptions {
  /** Also what was set aside. Default false: somebody may want to rescue it. */
  readonly quarantine: boolean;
  /** Say what would go, remove nothing. */
  readonly dryRun: boolean;
  readonly cwd: string;
}

export interface Purged {
  /** Absolute. */
  readonly path: string;
  /** What the disk gives back, not what the file is said to have: a torn capture has its full size and mostly holes. */
  readonly bytes: number;
}

/**
 * Gives back the bytes of what crashes left: temporaries and captures under our own naming and, when asked, the
 * quarantine. Nothing else is touched. It takes no lease, because it must work on a full disk; a driver that starts meanwhile
 * writes under higher lease numbers than those listed here, so nothing of its is removed.
 * @throws TidemarkError `no-run`, `run-locked`, `run-unknown-holder`
 */
export async function purge(host: Host, folder: string, options: PurgeOptions): Promise<readonly Purged[]> {
  const root = resolve(options.cwd, folder);
  const leases = await listLeases(host.files, root);
  const ledger = await openLedger(host, root, { parseSettings });
  if (ledger === null) throw noRun(root);
  const holder = await ledger.holder();
  if (holder !== null && holder.alive !== 'dead') throw heldBy(holder, root);
  const { layout, shardRows } = ledger.run.identity;
  const found = await orphans(host.files, root, await openRunLayout(host.files, root, layout), leases, shardRows);
  if (options.quarantine) found.push(...(await below(host.files, root, '.tidemark/quarantine')));
  found.push(...(await orphanCaptures(host, ledger, root)));
  if (!options.dryRun) for (const { path } of found) await host.files.unlink(path);
  return found;
}

function noRun(root: string): TidemarkError {
  return new TidemarkError('no-run', `${root} is no run of tidemark: it has no .tidemark/run.json`, {
    where: root,
    hint: `ls -la ${root}`,
  });
}

function heldBy(holder: Holder | LostHolder, root: string): TidemarkError {
  if (holder.alive === 'unreadable') {
    return new TidemarkError(
      'run-unknown-holder',
      `lease run.${holder.lease} of ${root} is not readable and was never released, so nobody can tell whether its driver still runs`,
      { where: root, hint: `make sure that it is dead and begin: tidemark resume ${root} --take-over` },
    );
  }
  const who = `process ${holder.process.pid} on ${holder.process.hostname}`;
  return holder.alive === 'alive'
    ? new TidemarkError('run-locked', `${who} is writing to ${root}; what it has in hand looks like what a crash leaves`, {
        where: root,
        retry: 'later',
        hint: 'wait for it',
      })
    : new TidemarkError(
        'run-unknown-holder',
        `${who} took ${root} at ${holder.takenAt}, and from this machine nobody can tell whether it still runs`,
        {
          where: root,
          hint: `run it there, or make sure that it is dead and begin: tidemark resume ${root} --take-over`,
        },
      );
}

/** Folders below each other that are searched for temporaries; deeper than any layout's. */
const DEPTH_MOST = 8;

/** Temporaries beside samples, of leases that were there when we looked, and those of leases and whole files inside `.tidemark/`. */
async function orphans(
  files: FileStore,
  root: string,
  layout: Layout,
  leases: ReadonlyMap<Scope, readonly number[]>,
  shardRows: number,
): Promise<Purged[]> {
  const newest = (row: number): number => leases.get(shardScope(Math.floor(row / shardRows)))?.at(-1) ?? 0;
  const ours = (folder: string, name: string): boolean => {
    const parsed = layout.parse(folder, name);
    return parsed.kind === 'temporary' && parsed.index !== null && parsed.lease !== null && parsed.lease <= newest(parsed.index);
  };
  const found: Purged[] = [];
  let level = [''];
  for (let depth = 0; depth <= DEPTH_MOST && level.length > 0; depth += 1) {
    const deeper: string[] = [];
    for (const folder of level) {
      found.push(...(await filesIn(files, root, folder, (name) => ours(folder, name))));
      for (const entry of (await files.list(folder === '' ? root : `${root}/${folder}`)) ?? []) {
        if (entry.kind !== 'directory' || !entry.openable || entry.name.startsWith('.') || entry.name === 'lost+found') continue;
        deeper.push(folder === '' ? entry.name : `${folder}/${entry.name}`);
      }
    }
    level = deeper;
  }
  for (const folder of ['.tidemark', '.tidemark/leases'])
    found.push(...(await filesIn(files, root, folder, (name) => /\.[0-9a-f]{12}\.tmp$/.test(name))));
  return found;
}

/** What this run's killed drivers asked of the engine and never took away. The names carry the run's own digits. */
async function orphanCaptures(host: Host, ledger: LedgerReader, root: string): Promise<Purged[]> {
  const { settings, run } = ledger;
  // A copy of the folder has the same digits in its names, and the original may be at work.
  return settings === null || settings.output !== root
    ? []
    : (await listOrphanCaptures(host.files, settings.engine.staging, captureOwner(run.folderId))).map((capture) => ({
        path: capture.path,
        bytes: capture.reclaimableBytes,
      }));
}

async function filesIn(files: FileStore, root: string, folder: string, wanted: (name: string) => boolean): Promise<Purged[]> {
  const found: Purged[] = [];
  const full = folder === '' ? root : `${root}/${folder}`;
  for (const entry of (await files.list(full)) ?? []) {
    if (entry.kind !== 'file' || !entry.openable || !wanted(entry.name)) continue;
    const path = `${full}/${entry.name}`;
    const stat = await files.stat(path);
    found.push({ path, bytes: stat === null ? 0 : reclaimableBytes(stat) });
  }
  return found;
}

async function below(files: FileStore, root: string, folder: string): Promise<Purged[]> {
  const found = await filesIn(files, root, folder, () => true);
  for (const entry of (await files.list(`${root}/${folder}`)) ?? []) {
    if (entry.kind === 'directory' && entry.openable) found.push(...(await below(files, root, `${folder}/${entry.name}`)));
  }
  return found;
}
