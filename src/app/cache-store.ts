import { isAbsolute, join, relative } from 'node:path';
import type { CacheFolder } from '../dataset/cache-folder.ts';
import type { Host } from '../host/host.ts';

export interface CacheOptions {
  /** `off` keeps nothing and uses nothing that was kept. Default `use`. */
  readonly cache?: 'use' | 'off' | undefined;
  /** A folder in which nothing may be written: that of the files being assessed. */
  readonly outside?: string;
  /** Default: this process's. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

/** A folder of the user's cache folder, never beside a dataset or in a folder that is assessed. Null when there is none. */
export function cacheStore(host: Pick<Host, 'files' | 'clock' | 'randomBytes'>, name: string, options: CacheOptions): CacheFolder | null {
  const folder = cacheFolder(options.environment ?? process.env);
  if (options.cache === 'off' || folder === null) return null;
  if (options.outside !== undefined && !relative(options.outside, folder).startsWith('..')) return null;
  return {
    files: host.files,
    folder: join(folder, name),
    now: () => host.clock.now(),
    randomBytes: (length) => host.randomBytes(length),
  };
}

/** By the XDG base directory specification: a relative path counts as none. */
export function cacheFolder(environment: Readonly<Record<string, string | undefined>>): string | null {
  const { XDG_CACHE_HOME: cache, HOME: home } = environment;
  if (cache !== undefined && isAbsolute(cache)) return join(cache, 'tidemark');
  return home !== undefined && isAbsolute(home) ? join(home, '.cache', 'tidemark') : null;
}
