import type { FileStore, Host } from '../host/host.ts';

/** Replaces a small file whole: temporary name, fsync, rename, directory fsync. Readers see the old bytes or the new ones. */
export async function replaceFile(host: Host, path: string, bytes: Uint8Array): Promise<void> {
  const directory = path.slice(0, path.lastIndexOf('/'));
  const temporary = `${path}.${Buffer.from(host.randomBytes(6)).toString('hex')}.tmp`;
  await ensureFolder(host.files, directory);
  await writeDurably(host, temporary, bytes);
  await host.files.rename(temporary, path);
  await host.files.syncDirectory(directory);
}

/** A new file with all its bytes on the disk, or no file. Its name is not durable yet: the caller syncs the directory. */
export async function writeDurably(host: Host, path: string, bytes: Uint8Array): Promise<void> {
  const file = await host.files.create(path, 0o644);
  try {
    await file.write(bytes);
    await file.sync();
  } catch (error) {
    await file.close();
    await host.files.unlink(path);
    throw error;
  }
  await file.close();
}

/**
 * A folder whose own name is durable. It may be there already without being so: a start that was killed between making it
 * and syncing it leaves a name that a later power cut takes, with everything below.
 */
export async function ensureFolder(files: FileStore, path: string): Promise<void> {
  await files.makeDirectory(path);
  await files.syncDirectory(path.slice(0, path.lastIndexOf('/')) || '/');
}
