import { randomBytes } from 'node:crypto';
import type { Host, Http } from './host.ts';
import { createLocalClock } from './local-clock.ts';
import { createLocalFiles } from './local-files.ts';
import { createLocalHelpers } from './local-helpers.ts';
import { createLocalMachine } from './local-machine.ts';

/**
 * This machine. `http.close()` ends the connections that are kept open; nothing else needs closing.
 * @param helper the program of helper processes (serve-helper.ts); null for none
 */
export function createLocalHost(helper: URL | null = null): Host {
  const files = createLocalFiles();
  return {
    files,
    http: httpWhenAsked(),
    clock: createLocalClock(),
    machine: createLocalMachine({ files }),
    ...(helper === null ? {} : { helpers: createLocalHelpers(helper) }),
    randomBytes: (length) => new Uint8Array(randomBytes(length)),
  };
}

/** Most commands ask no server anything: the client is loaded with the first request. */
function httpWhenAsked(): Http {
  let http: Promise<Http> | null = null;
  return {
    async request(request) {
      http ??= import('./local-http.ts').then(({ createLocalHttp }) => createLocalHttp());
      return (await http).request(request);
    },
    close: async () => (await http)?.close(),
  };
}
