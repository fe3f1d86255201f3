import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createVllmEngine } from '../../src/engine/vllm.ts';
import { createLocalHost } from '../../src/host/local.ts';
import { startWireServer } from '../support/wire-server.ts';
import { engineSuite } from './engine.suite.ts';

engineSuite(
  'vllm, against the wire server',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tidemark-wire-'));
    const staging = join(folder, 'staging');
    const layers = [2, 4, 5, 8];
    const server = await startWireServer({ staging, layers: layers.length, width: 24, maxModelLen: 200 });
    const host = createLocalHost();
    const engine = createVllmEngine(host, {
      url: `${server.url}/v1/`,
      staging,
      timeoutMs: 10_000,
      auxiliaryLayers: layers.slice(0, -1),
      lastLayer: 8,
      width: 24,
    });
    return {
      engine,
      layers,
      width: 24,
      vocabularySize: 1000,
      staged: () => readdir(staging),
      async stop() {
        await engine.close();
        await host.http.close();
        await server.stop();
        await rm(folder, { recursive: true });
      },
    };
  },
  // Its states depend on id, row and layer alone.
  { causal: true, roundsByBatch: null },
);
