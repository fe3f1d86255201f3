import { basename, dirname, isAbsolute, join } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import type { FileReader, FileStore } from '../host/host.ts';
import { requestIdIn, shown } from './vllm-protocol.ts';

const pathLengthMost = 4096;

/**
 * Turns the path that a server named into one that may be read and deleted, or refuses it.
 *
 * The name comes over the network and we delete what it names, so it must be a `.safetensors` file in a folder
 * that really (all links resolved) lies below the staging folder. What is refused here is neither opened nor deleted.
 * The last name itself is not resolved: it is opened without following links.
 */
export async function resolveStaged(files: FileReader, staging: string, named: string, requestId: string): Promise<string> {
  const bad = badForm(named);
  if (bad !== null) throw foreign(named, bad, 'this server must not be trusted with paths; look at what answers at its address');
  const name = basename(named);
  const owner = requestIdIn(name);
  if (owner !== null && owner !== requestId) {
    throw foreign(
      named,
      `it is the file of another request (${owner}, ours is ${requestId})`,
      'the server mixes up its answers, so none of its states can be trusted: restart it',
    );
  }
  const root = await files.realPath(staging);
  if (root === null) {
    throw foreign(named, `the staging folder ${staging} does not exist on this machine`, seenHint(staging));
  }
  const folder = await files.realPath(dirname(named));
  if (folder === null) throw foreign(named, 'its folder does not exist on this machine', seenHint(staging));
  if (folder !== root && !folder.startsWith(root.endsWith('/') ? root : `${root}/`)) {
    throw foreign(named, `it lies outside of the staging folder ${root}`, "set engine.staging to the server's shared_storage_path");
  }
  return join(folder, name);
}

function badForm(named: string): string | null {
  if (named.length > pathLengthMost) return `it has ${named.length} characters`;
  // A NUL ends a path for the kernel but not for us; the others could only serve to hide something in a terminal.
  if (/\p{Cc}/u.test(named)) return 'it has control characters';
  if (!isAbsolute(named)) return 'it is not absolute';
  if (named.split('/').includes('..')) return 'it climbs with ..';
  if (!/[^/]\.safetensors$/.test(named)) return 'it does not end in .safetensors';
  return null;
}

function foreign(named: string, why: string, hint: string): TidemarkError {
  return new TidemarkError('engine-protocol', `refused the path that the server named: ${why}; it was neither read nor deleted`, {
    where: shown(named),
    hint,
  });
}

function seenHint(staging: string): string {
  return `start the server on this machine, or mount its shared_storage_path under the same name; engine.staging is ${staging}`;
}

/** Whether the server named the file after this request; only then may it be deleted unread. */
export function isNamedAfter(path: string, requestId: string): boolean {
  return requestIdIn(basename(path)) === requestId;
}

export function lockOf(path: string): string {
  return `${path}.lock`;
}

/** Deletes what the server staged: the data file and its lock, which the server itself never deletes. */
export async function removeStaged(files: FileStore, path: string): Promise<void> {
  await files.unlink(path);
  await files.unlink(lockOf(path));
}
