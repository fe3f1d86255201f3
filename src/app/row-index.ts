import type { RowIndexStore } from '../dataset/row-index.ts';
import type { Host } from '../host/host.ts';
import { type CacheOptions, cacheStore } from './cache-store.ts';
import { VERSION } from './version.ts';

/** Where row indexes are kept. Null when nothing may be: the dataset is scanned at each start then. */
export function rowIndexStore(host: Pick<Host, 'files' | 'clock' | 'randomBytes'>, options: CacheOptions = {}): RowIndexStore | null {
  const store = cacheStore(host, 'rows', options);
  return store === null ? null : { ...store, version: VERSION };
}
