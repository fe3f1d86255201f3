import type { Host } from '../host/host.ts';
import { createLocalHost } from '../host/local.ts';

export type { Host } from '../host/host.ts';

/** The machine that the command runs on. */
export function createHost(): Host {
  return createLocalHost();
}
