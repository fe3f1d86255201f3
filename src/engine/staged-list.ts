import { join } from 'node:path';
import { reclaimableBytes } from '../core/reclaimable.ts';
import type { FileReader } from '../host/host.ts';
import { requestIdIn } from './vllm-protocol.ts';

/** A file that lies in the staging folder, whoever left it. */
export interface StagedFile {
  readonly path: string;
  readonly bytes: number;
  /** What the disk gives back when it is removed. */
  readonly reclaimableBytes: number;
  readonly modifiedMs: number;
  /** `states`: a data file. `lock`: its lock, which no server deletes. `temporary`: safetensors' unfinished sibling. */
  readonly kind: 'states' | 'lock' | 'temporary';
  /** The tidemark request that it was made for, or null: then it belongs to somebody else or nobody can tell. */
  readonly requestId: string | null;
}

/** Everything of a connector's kind in the staging folder, by path; other files (the folder may be /tmp) are left out. Deletes nothing. */
export async function listStaged(files: FileReader, staging: string): Promise<readonly StagedFile[]> {
  const entries = (await files.list(staging)) ?? [];
  const found: StagedFile[] = [];
  for (const { name, kind, openable } of entries) {
    const staged = kindOfName(name);
    if (staged === null || kind !== 'file' || !openable) continue;
    const path = join(staging, name);
    const stat = await files.stat(path);
    // Somebody may delete while we list.
    if (stat === null) continue;
    found.push({
      path,
      bytes: stat.bytes,
      reclaimableBytes: reclaimableBytes(stat),
      modifiedMs: stat.modifiedMs,
      kind: staged,
      requestId: requestIdIn(name),
    });
  }
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * What a tidemark driver asked for and did not take away: it was killed, or gave up before the server was done.
 * The name tells (`cmpl-tm-…`), so other clients' files are never among them. While a driver runs on the
 * same folder, its captures in flight are among them too: ask only when none does, or look at `modifiedMs`.
 * @param owner only those of the run with these eight hex digits; nothing means any run's
 */
export async function listOrphanCaptures(files: FileReader, staging: string, owner = ''): Promise<readonly StagedFile[]> {
  const staged = await listStaged(files, staging);
  return staged.filter((one) => one.requestId !== null && ownerOf(one.requestId).startsWith(owner));
}

/** The last part of a request id is the owner's eight digits, where it was given one, and eight random ones. */
function ownerOf(requestId: string): string {
  return requestId.slice(requestId.lastIndexOf('-') + 1, -8);
}

function kindOfName(name: string): StagedFile['kind'] | null {
  if (name.endsWith('.safetensors')) return 'states';
  if (name.endsWith('.safetensors.lock')) return 'lock';
  return /^\.tmp[A-Za-z0-9]{6}$|\.safetensors\.[A-Za-z0-9]+\.tmp$/.test(name) ? 'temporary' : null;
}
