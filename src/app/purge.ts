import { resolve } from 'node:path';
import { listOrphanCaptures } from '../engine/staged-list.ts';
import type { FileStore, Host } from '../host/host.ts';
import type { RunRecord } from '../ledger/ledger.ts';
import { openLedger } from '../ledger/open.ts';
import { openRunWriter } from '../ledger/write.ts';
import { parseTemporary } from '../store/temporary.ts';
import { captureOwner } from './capture-owner.ts';
import { parseSettings } from './config-settings.ts';

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
  readonly bytes: number;
}

/**
 * Gives back the bytes of what crashes left: temporaries and captures under our own naming and, when asked, the
 * quarantine. The `run` lease is held meanwhile, so no living driver of ours owns any of it. Nothing else is touched.
 * @throws TidemarkError `no-run`, `run-locked`
 */
export async function purge(host: Host, folder: string, options: PurgeOptions): Promise<readonly Purged[]> {
  const root = resolve(options.cwd, folder);
  const writer = await openRunWriter(host, root, { takeOver: false });
  try {
    const found = await orphans(host.files, root);
    if (options.quarantine) found.push(...(await below(host.files, root, '.tidemark/quarantine')));
    found.push(...(await orphanCaptures(host, root, writer.run)));
    if (!options.dryRun) for (const { path } of found) await host.files.unlink(path);
    return found;
  } finally {
    await writer.close();
  }
}

/** Temporaries beside samples, and those of leases and whole files inside `.tidemark/`. */
async function orphans(files: FileStore, root: string): Promise<Purged[]> {
  const found: Purged[] = [];
  for (const entry of (await files.list(root)) ?? []) {
    if (entry.kind !== 'directory' || !entry.openable || entry.name === '.tidemark') continue;
    found.push(...(await filesIn(files, root, entry.name, (name) => parseTemporary(name) !== null)));
  }
  for (const folder of ['.tidemark', '.tidemark/leases'])
    found.push(...(await filesIn(files, root, folder, (name) => /\.[0-9a-f]{12}\.tmp$/.test(name))));
  return found;
}

/** What this run's killed drivers asked of the engine and never took away. The names carry the run's own digits. */
async function orphanCaptures(host: Host, root: string, run: RunRecord): Promise<Purged[]> {
  const settings = (await openLedger(host, root, { parseSettings }))?.settings ?? null;
  return settings === null ? [] : [...(await listOrphanCaptures(host.files, settings.engine.staging, captureOwner(run.folderId)))];
}

async function filesIn(files: FileStore, root: string, folder: string, wanted: (name: string) => boolean): Promise<Purged[]> {
  const found: Purged[] = [];
  for (const entry of (await files.list(`${root}/${folder}`)) ?? []) {
    if (entry.kind !== 'file' || !entry.openable || !wanted(entry.name)) continue;
    const path = `${root}/${folder}/${entry.name}`;
    found.push({ path, bytes: (await files.stat(path))?.bytes ?? 0 });
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
