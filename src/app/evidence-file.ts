import { basename, dirname, resolve } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { shellLine } from '../core/shell-line.ts';
import type { Host } from '../host/host.ts';
import { isBelow } from '../host/proc.ts';
import { writeDurably } from '../ledger/whole-file.ts';

export interface EvidenceTarget {
  /** As given, absolute; null for a name of ours in the current folder. */
  readonly output: string | null;
  readonly cwd: string;
  /** The assessed folder. */
  readonly folder: string;
  readonly nowMs: number;
}

/** `tidemark-evidence-hidden_states-20260314T021000Z.tar.gz`, whatever the folder is called. */
export function evidenceName(folder: string, nowMs: number): string {
  const plain = basename(folder)
    .replace(/[^A-Za-z0-9._-]+/g, '_')
    .replace(/^[._-]+/, '')
    .slice(0, 60);
  const time = new Date(nowMs).toISOString().replace(/[-:]|\.\d+/g, '');
  return `tidemark-evidence-${plain === '' ? 'folder' : plain}-${time}.tar.gz`;
}

/**
 * Where the tarball goes. Never into the folder that was looked at, not even when asked: an assessed folder is only read.
 * @throws TidemarkError `usage` before anything is gathered
 */
export async function evidencePath(host: Host, target: EvidenceTarget): Promise<string> {
  const path = target.output ?? resolve(target.cwd, evidenceName(target.folder, target.nowMs));
  const parent = await host.files.realPath(dirname(path));
  if (parent === null) throw refused(path, 'its folder does not exist', shellLine(['mkdir', '-p', dirname(path)]));
  const folder = (await host.files.realPath(target.folder)) ?? target.folder;
  if (isBelow(parent, folder)) {
    const elsewhere = ['tidemark', 'evidence', target.folder, '--output', `/tmp/${evidenceName(target.folder, target.nowMs)}`];
    throw refused(path, 'it lies in the folder that is looked at, where nothing is written', shellLine(elsewhere));
  }
  if ((await host.files.stat(path)) !== null) throw refused(path, 'something of that name is there, and evidence replaces nothing');
  return path;
}

/** Temporary name, fsync, then the name itself, which must still be free, then fsync of the folder: there is no file or the whole one. */
export async function publishEvidence(host: Host, path: string, bytes: Uint8Array): Promise<void> {
  const { files } = host;
  const temporary = `${path}.${Buffer.from(host.randomBytes(6)).toString('hex')}.tmp`;
  try {
    await writeDurably(host, temporary, bytes);
    const linked = await files.link(temporary, path);
    if (linked === false || (linked === 'unsupported' && (await files.stat(path)) !== null))
      throw refused(path, 'something of that name has come meanwhile, and evidence replaces nothing');
    if (linked === 'unsupported') await files.rename(temporary, path);
    else await files.unlink(temporary);
  } catch (error) {
    // The name is random, so whatever has it is ours.
    await files.unlink(temporary).catch(() => undefined);
    throw error;
  }
  await files.syncDirectory(dirname(path));
}

function refused(path: string, why: string, hint = 'give --output another name'): TidemarkError {
  return new TidemarkError('usage', `the evidence cannot be written to ${path}: ${why}`, { where: path, hint });
}
