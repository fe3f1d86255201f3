import { close, constants, fchmod, fsync, open, write } from 'node:fs';
import { promisify } from 'node:util';
import { isErrno, storageError, syncError } from './errno.ts';
import type { WritableFile } from './host.ts';

const openFd = promisify(open);
const closeFd = promisify(close);
const syncFd = promisify(fsync);
const chmodFd = promisify(fchmod);

/** One write(2) takes at most 2 GiB less a page, and Node truncates the length to 32 bits; stay well below. */
const writeBytesMost = 1 << 30;

/** One write(2) at the file's own position; resolves with how many bytes went, which may be fewer than asked. */
function writeFd(fd: number, bytes: Uint8Array, at: number): Promise<number> {
  const length = Math.min(bytes.length - at, writeBytesMost);
  return new Promise((resolve, reject) => {
    write(fd, bytes, at, length, null, (error, written) => (error ? reject(error) : resolve(written)));
  });
}

/** `mode` is cut by the umask, as always; `setMode` is not. */
export async function createLocal(path: string, mode: number): Promise<WritableFile> {
  try {
    // O_EXCL also refuses a link at the end, dangling or not.
    return writable(path, await openFd(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, mode));
  } catch (error) {
    throw storageError(error, 'create', path);
  }
}

function writable(path: string, fd: number): WritableFile {
  let open = true;
  // After a failed write the length is not known, and after a failed fsync the content is not: from then on every
  // call but `close` repeats that failure, so that no later success can hide it.
  let broken: unknown;
  // Calls run in the order they were made: two writes at once would mix their bytes after a short write.
  let last: Promise<void> = Promise.resolve();

  function inOrder(act: () => Promise<void>): Promise<void> {
    const result = last.then(async () => {
      if (broken !== undefined) throw broken;
      if (!open) throw storageError(new Error('it was closed'), 'write to', path);
      try {
        await act();
      } catch (error) {
        broken = error;
        throw error;
      }
    });
    last = result.catch(() => undefined);
    return result;
  }

  return {
    write: (bytes) =>
      inOrder(async () => {
        for (let at = 0; at < bytes.length; ) {
          const count = await writeFd(fd, bytes, at).catch((error: unknown) => {
            throw storageError(error, `write ${bytes.length} bytes to`, path);
          });
          if (count === 0) throw storageError(new Error('the kernel took no byte and gave no reason'), 'write to', path);
          at += count;
        }
      }),
    setMode: (mode) =>
      inOrder(() =>
        chmodFd(fd, mode).catch((error: unknown) => {
          throw storageError(error, `set mode ${mode.toString(8)} of`, path);
        }),
      ),
    sync: () =>
      inOrder(() =>
        syncFd(fd).catch((error: unknown) => {
          throw syncError(error, path);
        }),
      ),
    async close() {
      await last;
      if (!open) return;
      open = false;
      // Network filesystems report a failed write here. The descriptor is gone either way.
      await closeFd(fd).catch((error: unknown) => {
        throw storageError(error, 'close', path);
      });
    },
  };
}

export async function syncDirectoryLocal(path: string): Promise<void> {
  let fd: number;
  try {
    fd = await openFd(path, constants.O_RDONLY | constants.O_DIRECTORY);
  } catch (error) {
    throw storageError(error, 'open for syncing the folder', path);
  }
  try {
    await syncFd(fd);
  } catch (error) {
    throw syncError(error, path);
  } finally {
    await closeFd(fd);
  }
}

/** Like `syncDirectoryLocal`, for a folder that existed before: `false` when we may not even open it, and so cannot have put a name into it. */
export async function trySyncDirectory(path: string): Promise<boolean> {
  try {
    await syncDirectoryLocal(path);
    return true;
  } catch (error) {
    if (error instanceof Error && isErrno(error.cause, 'EACCES', 'EPERM')) return false;
    throw error;
  }
}
