import { assert } from '../core/assert.ts';
import { TidemarkError } from '../core/errors.ts';
import type { DirectoryEntry, FileReader, FileStat, Helper, ReadableFile } from './host.ts';

/** A call of `FileReader` as plain data. */
export type FileCall =
  | { readonly call: 'list' | 'stat' | 'open' | 'realPath' | 'space'; readonly path: string }
  | { readonly call: 'readSmall'; readonly path: string; readonly mostBytes: number }
  | { readonly call: 'read'; readonly handle: number; readonly offset: number; readonly length: number }
  | { readonly call: 'close'; readonly handle: number };

/** A call on a network mount that takes longer is not coming back. */
const SILENT_MS = 30_000;
/** One message carries so much; longer reads go in pieces. */
const MESSAGE_BYTES = 8 * 1024 * 1024;

/** Carries calls out against `files`: the helper's side. Handles live as long as the process. */
export function fileCallServer(files: FileReader): (call: FileCall) => Promise<unknown> {
  const open = new Map<number, ReadableFile>();
  let handles = 0;
  const fileOf = (handle: number): ReadableFile => {
    const file = open.get(handle);
    assert(file !== undefined, 'a handle that this process gave out');
    return file;
  };
  return async (call) => {
    switch (call.call) {
      case 'list':
        return files.list(call.path);
      case 'stat':
        return files.stat(call.path);
      case 'realPath':
        return files.realPath(call.path);
      case 'space':
        return files.space(call.path);
      case 'readSmall':
        return files.readSmall(call.path, call.mostBytes);
      case 'open': {
        const file = await files.open(call.path);
        if (file === null) return null;
        handles += 1;
        open.set(handles, file);
        return { handle: handles, stat: file.stat };
      }
      case 'read':
        return fileOf(call.handle).read(call.offset, call.length);
      case 'close': {
        const file = fileOf(call.handle);
        open.delete(call.handle);
        return file.close();
      }
    }
  };
}

/** Lends a helper for one question; `use` names the one that must be asked. */
export interface HelperLender {
  lend<T>(work: (helper: Helper) => Promise<T>, use?: Helper): Promise<T>;
}

/** The same files, read by helpers: a call that hangs hangs there. */
export function filesThroughHelpers(lender: HelperLender): FileReader {
  const ask = <T>(call: FileCall, use?: Helper): Promise<{ readonly value: T; readonly helper: Helper }> =>
    lender.lend(async (helper) => {
      let value: unknown = null;
      const onWord = (word: unknown): void => {
        value = word;
      };
      await helper.ask(call, { silentMs: SILENT_MS, onWord }).catch((error: unknown) => {
        throw named(error, 'path' in call ? call.path : null);
      });
      return { value: value as T, helper };
    }, use);
  return {
    list: async (path) => (await ask<readonly DirectoryEntry[] | null>({ call: 'list', path })).value,
    stat: async (path) => (await ask<FileStat | null>({ call: 'stat', path })).value,
    realPath: async (path) => (await ask<string | null>({ call: 'realPath', path })).value,
    space: async (path) => (await ask<Awaited<ReturnType<FileReader['space']>>>({ call: 'space', path })).value,
    readSmall: async (path, mostBytes) => (await ask<Uint8Array | null>({ call: 'readSmall', path, mostBytes })).value,
    async open(path) {
      const { value, helper } = await ask<{ readonly handle: number; readonly stat: FileStat } | null>({ call: 'open', path });
      if (value === null) return null;
      const { handle, stat } = value;
      let open = true;
      return {
        size: stat.bytes,
        stat,
        async read(offset, length) {
          if (!open) throw new TidemarkError('storage-failed', `could not read ${path}: it was closed`, { where: path });
          const piece = async (at: number): Promise<Uint8Array> => {
            const call: FileCall = { call: 'read', handle, offset: offset + at, length: Math.min(MESSAGE_BYTES, length - at) };
            return (await ask<Uint8Array>(call, helper)).value;
          };
          if (length <= MESSAGE_BYTES) return piece(0);
          const bytes = new Uint8Array(length);
          for (let at = 0; at < length; at += MESSAGE_BYTES) bytes.set(await piece(at), at);
          return bytes;
        },
        async close() {
          if (!open) return;
          open = false;
          if (helper.alive) await ask({ call: 'close', handle }, helper);
        },
      };
    },
  };
}

/** The helper does not know at which name it hangs; we do. */
function named(error: unknown, path: string | null): unknown {
  if (!(error instanceof TidemarkError) || error.code !== 'storage-silent' || path === null) return error;
  return new TidemarkError('storage-silent', `${path} was not answered for in ${SILENT_MS / 1000} s: its mount may be dead`, {
    where: path,
    hint: 'findmnt -T PATH, for that path',
    retry: 'later',
  });
}
