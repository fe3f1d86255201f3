import type { Host } from '../host/host.ts';
import { createLocalHost } from '../host/local.ts';

export type { Host } from '../host/host.ts';

/** The machine that the command runs on. Node runs the readers' program only where it was built; from sources each command reads itself. */
export function createHost(): Host {
  const readers = new URL('./reader-process.js', import.meta.url);
  return createLocalHost(import.meta.url.endsWith('.js') ? readers : null);
}
