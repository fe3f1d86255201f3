import { isTidemarkError } from '../core/errors.ts';
import type { FileStore } from '../host/host.ts';

const FREE_BYTES_LEAST = 1024 * 1024 * 1024;
/** All files of one kind together; the oldest go. */
const FOLDER_BYTES_MOST = 2 * 1024 * 1024 * 1024;
/** A temporary file this old belongs to a process that died. */
const ABANDONED_MS = 60 * 60 * 1000;

/** A folder of files that can be made again: none of them is worth an error. */
export interface CacheFolder {
  readonly files: FileStore;
  readonly folder: string;
  now(): number;
  randomBytes(length: number): Uint8Array;
  /** Default 2 GiB. */
  readonly folderBytesMost?: number;
}

/**
 * Writes a file whose name is 32 hex digits and a suffix (`.rows`), in place of one of that name; older ones of that suffix go when there are too
 * many. False where it could not be kept: a folder that cannot be written to, or a disk with little room, is no trouble.
 */
export async function keepInCache(cache: CacheFolder, name: string, bytes: Uint8Array): Promise<boolean> {
  try {
    const most = cache.folderBytesMost ?? FOLDER_BYTES_MOST;
    const { freeBytes } = await cache.files.space(cache.folder);
    if (bytes.length > most || freeBytes < bytes.length + FREE_BYTES_LEAST) return false;
    await cache.files.makeDirectory(cache.folder);
    await removeOldest(cache, name, most - bytes.length);
    await write(cache, `${cache.folder}/${name}`, bytes);
    return true;
  } catch (error) {
    if (!isTidemarkError(error, 'storage-full', 'storage-failed', 'storage-denied')) throw error;
    return false;
  }
}

/** No fsync: a file that a power cut tore fails its checksum and is made again. */
async function write({ files, randomBytes }: CacheFolder, path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}.${Buffer.from(randomBytes(6)).toString('hex')}.tmp`;
  const file = await files.create(temporary, 0o600);
  try {
    await file.write(bytes);
    await file.close();
    await files.rename(temporary, path);
  } catch (error) {
    await file.close();
    await files.unlink(temporary);
    throw error;
  }
}

async function removeOldest(cache: CacheFolder, replaced: string, bytesMost: number): Promise<void> {
  const suffix = replaced.slice(32);
  const found: { readonly path: string; readonly bytes: number; readonly modifiedMs: number }[] = [];
  for (const { name, kind } of (await cache.files.list(cache.folder)) ?? []) {
    const rest = name.slice(32);
    if (kind !== 'file' || !/^[0-9a-f]{32}/.test(name) || !(rest === suffix || (rest.startsWith(suffix) && TEMPORARY.test(rest)))) continue;
    const path = `${cache.folder}/${name}`;
    const stat = await cache.files.stat(path);
    if (stat === null) continue;
    if (name.endsWith('.tmp') && cache.now() - stat.modifiedMs > ABANDONED_MS) await cache.files.unlink(path);
    else if (name !== replaced) found.push({ path, bytes: stat.bytes, modifiedMs: stat.modifiedMs });
  }
  let sum = found.reduce((total, { bytes }) => total + bytes, 0);
  for (const { path, bytes } of found.sort((a, b) => a.modifiedMs - b.modifiedMs)) {
    if (sum <= bytesMost) return;
    await cache.files.unlink(path);
    sum -= bytes;
  }
}

const TEMPORARY = /\.[0-9a-f]{12}\.tmp$/;
