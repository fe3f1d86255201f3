import { assert } from '../core/assert.ts';
import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import { shellLine } from '../core/shell-line.ts';
import type { DirectoryEntry, FileReader, FileStat, Helper, ReadableFile } from './host.ts';

/** A call of `FileReader` as plain data. */
export type FileCall =
  | { readonly call: 'list' | 'stat' | 'open' | 'realPath' | 'space'; readonly path: string }
  | { readonly call: 'readSmall'; readonly path: string; readonly mostBytes: number }
  | { readonly call: 'read'; readonly handle: number; readonly offset: number; readonly length: number }
  | { readonly call: 'close'; readonly handle: number };

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
export function filesThroughHelpers(lender: HelperLender, silentMs: number): FileReader {
  // What was not answered for once is not asked for again: each further look would wait as long.
  const silent = new Map<string, unknown>();
  const refuseSilent = (path: string): void => {
    for (let at = path; silent.size > 0 && at.length > 1; at = at.slice(0, at.lastIndexOf('/'))) if (silent.has(at)) throw silent.get(at);
  };
  const askOnce = <T>(call: FileCall, use: Helper | undefined): Promise<Asked<T>> =>
    lender.lend(async (helper) => {
      let value: unknown = null;
      const onWord = (word: unknown): void => {
        value = word;
      };
      try {
        await helper.ask(call, { silentMs, onWord });
        return { value: value as T, helper, ended: null };
      } catch (error) {
        if (isTidemarkError(error, 'storage-failed') && !helper.alive) return { value: null, helper, ended: error };
        if (!('path' in call) || !isTidemarkError(error, 'storage-silent')) throw error;
        const told = namedSilence(call.path, silentMs);
        silent.set(call.path, told);
        throw told;
      }
    }, use);
  const ask = async <T>(call: FileCall, use?: Helper): Promise<{ readonly value: T; readonly helper: Helper }> => {
    if ('path' in call) refuseSilent(call.path);
    let asked = await askOnce<T>(call, use);
    // Killed for memory, perhaps: the next one has the answer. A handle went with the one that gave it out.
    if (asked.ended !== null && use === undefined) asked = await askOnce<T>(call, use);
    if (asked.ended !== null) throw asked.ended;
    return asked;
  };
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

type Asked<T> =
  | { readonly value: T; readonly helper: Helper; readonly ended: null }
  | { readonly value: null; readonly helper: Helper; readonly ended: TidemarkError };

/** The helper does not know at which name it hangs; we do. */
function namedSilence(path: string, silentMs: number): TidemarkError {
  return new TidemarkError('storage-silent', `${path} was not answered for in ${silentMs / 1000} s: its mount may be dead`, {
    where: path,
    hint: shellLine(['findmnt', '-T', path]),
    retry: 'later',
  });
}
