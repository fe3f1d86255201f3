import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect } from 'vitest';
import type { ErrorCode, TidemarkError } from '../../src/core/errors.ts';
import type { Capture, Engine } from '../../src/engine/engine.ts';
import { createVllmEngine, type VllmOptions } from '../../src/engine/vllm.ts';
import type { FileStore } from '../../src/host/host.ts';
import { createLocalHost } from '../../src/host/local.ts';
import { type FileShape, type Scenario, startWireServer, type WireServer } from '../support/wire-server.ts';

/** A wire server with an empty staging folder, and a file beside it that is none of our business; new for each test. */
export interface Place {
  readonly folder: string;
  /** Stays as it is, whatever the server says. */
  readonly outside: string;
  readonly server: WireServer;
  /** @param faults in place of parts of the local host */
  engine(options?: Partial<VllmOptions>, faults?: Partial<FileStore>): Engine;
}

export const sentIds = Uint32Array.from({ length: 40 }, (_, i) => 100 + i * 3);
const outsideText = 'somebody else needs this';

/** Call once at the top of a test file. */
export function usePlace(): () => Place {
  let place: Place | undefined;
  const host = createLocalHost();
  beforeEach(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tidemark-odd-'));
    const server = await startWireServer({ staging: join(folder, 'staging'), layers: 4, width: 24 });
    const outside = join(folder, 'outside.safetensors');
    await writeFile(outside, outsideText);
    const defaults = {
      url: server.url,
      staging: server.staging,
      timeoutMs: 700,
      settleMs: 400,
      auxiliaryLayers: [2, 4, 5],
      lastLayer: 8,
      width: 24,
    };
    place = {
      folder,
      outside,
      server,
      engine: (options = {}, faults = {}) =>
        createVllmEngine({ ...host, files: { ...host.files, ...faults } }, { ...defaults, ...options }),
    };
  });
  afterEach(async () => {
    if (place === undefined) return;
    await place.server.stop();
    await rm(place.folder, { recursive: true });
  });
  return () => {
    if (place === undefined) throw new Error('no place outside of a test');
    return place;
  };
}

export function captureRow(engine: Engine, row = 7, signal?: AbortSignal): Promise<Capture> {
  return engine.capture({ row, attempt: 2, inputIds: sentIds }, signal);
}

export interface Case {
  readonly name: string;
  readonly scenario: Scenario;
  readonly code: ErrorCode;
  readonly message: RegExp;
  /** What to do next. */
  readonly hint: RegExp;
  readonly retry?: 'later';
  /** How many names stay in the staging folder. Default 0: all that the request staged is gone. */
  readonly left?: number;
  /** A case that does not wait for anything must not take as long as the deadline. */
  readonly waits?: true;
}

export const shaped =
  (shape: FileShape | ((sent: readonly number[]) => FileShape)): Scenario =>
  async (call) => {
    await call.lock();
    await call.publish(call.file(typeof shape === 'function' ? shape(call.ids) : shape));
    call.answer();
  };

export const status =
  (code: number, body: string): Scenario =>
  async (call) =>
    call.send(code, body);

/** The one assertion of all odd cases: code, message, next step, and nobody's files but ours are touched. */
export async function checkCase({ server, outside, engine }: Place, one: Case): Promise<void> {
  server.scenario = one.scenario;
  const startedMs = performance.now();
  const error = await captureRow(engine()).then(
    () => expect.fail('the capture succeeded'),
    (thrown: unknown) => thrown as TidemarkError,
  );
  expect({ code: error.code, retry: error.retry }).toEqual({ code: one.code, retry: one.retry ?? 'never' });
  expect(error.message).toMatch(one.message);
  expect(error.message).not.toMatch(/\p{Cc}/u);
  expect(error.hint ?? '').toMatch(one.hint);
  expect(error.where).toBeDefined();
  if (one.waits !== true) expect(performance.now() - startedMs).toBeLessThan(600);
  // Whatever happened: what is not ours is untouched, and what is ours is gone.
  expect(await readFile(outside, 'utf8')).toBe(outsideText);
  expect(await readdir(server.staging)).toHaveLength(one.left ?? 0);
}
