import { closeSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { readTargetModel } from '../src/engine/model-files.ts';
import { createVllmEngine } from '../src/engine/vllm.ts';
import { stateSlots } from '../src/format/states.ts';
import { writeTorchZip } from '../src/format/torch-zip-writer.ts';
import { createLocalHost } from '../src/host/local.ts';
import { specForgeLayout } from '../src/store/layouts/specforge.ts';

// What most tools do: straight to the final name, no fsync, no record. The same engine, the same tensors.
const { values } = parseArgs({
  options: {
    dataset: { type: 'string' },
    output: { type: 'string' },
    url: { type: 'string' },
    staging: { type: 'string' },
    model: { type: 'string' },
  },
});
const need = (name: keyof typeof values): string => values[name] ?? fail(`--${name} is needed`);
function fail(why: string): never {
  throw new Error(why);
}

const host = createLocalHost();
const model = await readTargetModel(host.files, need('model'));
const engine = createVllmEngine(host, {
  url: need('url'),
  staging: need('staging'),
  timeoutMs: 60_000,
  auxiliaryLayers: [2, 4, 5],
  lastLayer: model.layerCount,
});
await engine.describe();
const layout = specForgeLayout({ extension: 'ckpt', groupSize: 50 });
const lines = readFileSync(need('dataset'), 'utf8').trimEnd().split('\n');

for (const [index, line] of lines.entries()) {
  const row = JSON.parse(line) as { input_ids: number[]; loss_mask: number[] };
  const inputIds = Uint32Array.from(row.input_ids);
  const capture = await engine.capture({ row: index, attempt: 1, inputIds });
  const states = {
    tokens: capture.tokens,
    layers: capture.layers.length,
    width: capture.width,
    dtype: capture.dtype,
    readRows: (from: number, to: number) => capture.readRows(from, to),
  };
  const tensors = layout.tensorsOf({
    inputIds,
    lossMask: Uint8Array.from(row.loss_mask),
    width: capture.width,
    auxiliaryLayers: capture.layers.length - 1,
    dtype: 'BF16',
    slots: (first, end) => stateSlots(states, { first, end, dtype: 'BF16', norm: model.norm }),
  });
  const path = join(need('output'), layout.pathOf(index));
  mkdirSync(dirname(path), { recursive: true });
  const file = openSync(path, 'w');
  for await (const piece of writeTorchZip(tensors, { stem: `data_${index}` })) writeSync(file, piece);
  closeSync(file);
  await capture.release();
  process.stdout.write(`${index}\n`);
}
await host.http.close();
