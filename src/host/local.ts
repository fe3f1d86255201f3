import { randomBytes } from 'node:crypto';
import type { Host } from './host.ts';
import { createLocalClock } from './local-clock.ts';
import { createLocalFiles } from './local-files.ts';
import { createLocalHttp } from './local-http.ts';
import { createLocalMachine } from './local-machine.ts';

/** This machine. `http.close()` ends the connections that are kept open; nothing else needs closing. */
export function createLocalHost(): Host {
  const files = createLocalFiles();
  return {
    files,
    http: createLocalHttp(),
    clock: createLocalClock(),
    machine: createLocalMachine({ files }),
    randomBytes: (length) => new Uint8Array(randomBytes(length)),
  };
}
