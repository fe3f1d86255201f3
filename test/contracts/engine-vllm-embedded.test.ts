import { mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ErrorCode } from '../../src/core/errors.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { createVllmEngine, type VllmOptions } from '../../src/engine/vllm.ts';
import { createLocalHost } from '../../src/host/local.ts';
import { type EngineOptions, runEngine } from '../../src/serve/engine-command.ts';
import { engineSuite } from './engine.suite.ts';

const host = createLocalHost();
const modelDirectory = new URL('../../models/tide-5m', import.meta.url).pathname;
const layers = [2, 4, 5, 8];
let root: string;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'tidemark-embedded-'));
});

afterAll(async () => {
  await host.http.close();
  await rm(root, { recursive: true });
});

interface Served {
  readonly engine: Engine;
  readonly staging: string;
  stop(): Promise<void>;
}

/** The embedded engine's own server, in this process, and the client for it. */
async function serve(server: Partial<EngineOptions>, client: Partial<VllmOptions> = {}): Promise<Served> {
  const stop = new AbortController();
  const staging = await mkdtemp(join(root, 'staging-'));
  const running = await runEngine(
    { modelDirectory, staging, version: '0.0.0', drainMs: 100, log: () => undefined, symlink, ...server },
    host,
    stop.signal,
  );
  const engine = createVllmEngine(host, {
    url: running.url,
    staging,
    timeoutMs: 30_000,
    auxiliaryLayers: layers.slice(0, -1),
    lastLayer: 8,
    width: 256,
    ...client,
  });
  return {
    engine,
    staging,
    async stop() {
      await engine.close();
      stop.abort();
      await running.closed;
    },
  };
}

engineSuite(
  'vllm, against the embedded engine',
  async () => {
    const { engine, staging, stop } = await serve({ dtype: 'bfloat16', contextLength: 160 });
    return { engine, layers, width: 256, vocabularySize: 1344, staged: () => readdir(staging), stop };
  },
  { causal: true, roundsByBatch: null },
);

/** Each word of the double, and what the adapter makes of it. Null: the capture succeeds. */
const words: readonly (readonly [word: string, code: ErrorCode | null, message: RegExp])[] = [
  ['400', 'engine-refused', /maximum context length|400/],
  ['429', 'engine-busy', /429/],
  ['500', 'engine-unreachable', /500/],
  ['503', 'engine-busy', /503/],
  ['drop', 'engine-unreachable', /connection/],
  ['hang', 'engine-timeout', /no complete answer/],
  ['wrong-ids', 'capture-bad', /echoed ids differ/],
  ['wrong-file-ids', 'capture-bad', /stored ids differ/],
  ['no-path', 'engine-protocol', /hidden_states_path/],
  ['foreign-path', 'engine-protocol', /outside of the staging folder/],
  ['short', 'capture-bad', /prefix cache/],
  ['zero-states', 'capture-bad', /never written from row 0/],
  ['zero-tail', 'capture-bad', /never written from row 8 of 24/],
  ['drop-last-layer', 'engine-protocol', /final layer was dropped/],
  ['never-completes', 'capture-bad', /never appeared/],
  ['lock-free-no-file', 'capture-bad', /never appeared.*\.lock is there/],
  ['cut-file', 'capture-bad', /incomplete/],
  ['slow=50', null, /./],
  ['late=200', null, /./],
  ['grows=200', null, /./],
  ['zeros-first=200', null, /./],
  ['no-lock', null, /./],
  ['litter', null, /./],
];

describe('the embedded engine, misbehaving', () => {
  it.each(words)('%s', async (word, code, message) => {
    const { engine, staging, stop } = await serve({ misbehave: [word] }, { timeoutMs: 1500, settleMs: 600 });
    try {
      const inputIds = Uint32Array.from({ length: 24 }, (_, i) => 20 + i);
      const capture = engine.capture({ row: 3, attempt: 1, inputIds });
      if (code === null) await (await capture).release();
      else await expect(capture).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
      // What may stay: a file that no answer named, another request's litter, an unfinished sibling.
      const ours = (await readdir(staging)).filter((name) => /^cmpl-tm-3-1-.*\.safetensors(\.lock)?$/.test(name));
      if (code === null || code === 'capture-bad') expect(ours).toEqual([]);
    } finally {
      await stop();
    }
  });
});
