import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { assessFolder } from '../../../src/assess/assess.ts';
import type { Report } from '../../../src/core/report.ts';
import type { Level } from '../../../src/core/verdict.ts';
import { openDataset } from '../../../src/dataset/open-dataset.ts';
import { writeSafetensors } from '../../../src/format/safetensors-writer.ts';
import type { TensorSource } from '../../../src/format/tensors.ts';
import { writeTorchZip } from '../../../src/format/torch-zip-writer.ts';
import { createLocalHost } from '../../../src/host/local.ts';
import { planOf } from '../../../src/recover/planner.ts';
import { detectLayout } from '../../../src/store/detect.ts';
import { parseLayoutOption } from '../../../src/store/layout-option.ts';
import { type Placed, placeFiles } from '../../../src/store/place.ts';
import { createStoreReader } from '../../../src/store/reader.ts';
import type { Layout } from '../../../src/store/store.ts';

const GENERATOR = fileURLToPath(new URL('make_scene.py', import.meta.url));

export interface Tree {
  readonly folder: string;
  readonly dataset: string;
  readonly truth: string;
  remove(): Promise<void>;
}

/** A scene of make_scene.py; its README says what the arguments mean. */
export async function sceneTree(args: readonly string[]): Promise<Tree> {
  const root = await mkdtemp(join(tmpdir(), 'tidemark-tree-'));
  const out = join(root, 'scene');
  await promisify(execFile)('python3', ['-B', GENERATOR, ...args, out], { maxBuffer: 1 << 26 });
  return {
    folder: join(out, 'hidden_states'),
    dataset: join(out, 'dataset.jsonl'),
    truth: await readFile(join(out, 'truth.json'), 'utf8'),
    remove: () => rm(root, { recursive: true, force: true }),
  };
}

/** An empty tree with a dataset of `rows` rows, row `i` of the ids that `idsOf` gives. */
export async function emptyTree(rows: number): Promise<Tree> {
  const root = await mkdtemp(join(tmpdir(), 'tidemark-tree-'));
  const folder = join(root, 'hidden_states');
  const dataset = join(root, 'dataset.jsonl');
  await mkdir(folder);
  const lines = Array.from({ length: rows }, (_, row) => JSON.stringify({ id: `s${row}`, input_ids: idsOf(row) }));
  await writeFile(dataset, `${lines.join('\n')}\n`);
  return { folder, dataset, truth: '', remove: () => rm(root, { recursive: true, force: true }) };
}

export function idsOf(row: number): number[] {
  return Array.from({ length: 5 + (row % 7) }, (_, at) => 1 + ((row * 7919 + at * 104_729) % 50_000));
}

type Shape = (tokens: number) => readonly number[];

/** A tensor of a hand-made sample: ids and mask are filled from the row, all else with small numbers. */
export interface HandTensor {
  readonly name: string;
  readonly dtype: 'I64' | 'BOOL' | 'BF16';
  readonly shape: Shape;
}

export function handSource(tensor: HandTensor, row: number): TensorSource {
  const ids = idsOf(row);
  const shape = tensor.shape(ids.length);
  const count = shape.reduce((product, length) => product * length, 1);
  const bytes = (): Uint8Array => {
    if (tensor.dtype === 'I64') {
      const values = tensor.name.includes('ids') ? ids : ids.map(() => 1);
      return new Uint8Array(BigInt64Array.from(values, BigInt).buffer);
    }
    if (tensor.dtype === 'BOOL') return new Uint8Array(count).fill(1);
    return new Uint8Array(Uint16Array.from({ length: count }, (_, at) => 0x3f80 + ((row + at) % 100)).buffer);
  };
  return { name: tensor.name, dtype: tensor.dtype, shape, pieces: () => [bytes()] };
}

/** Writes one sample as the tool of that layout would, into `path` below the tree. */
export async function putSample(tree: Tree, path: string, tensors: readonly TensorSource[]): Promise<void> {
  const full = join(tree.folder, path);
  await mkdir(dirname(full), { recursive: true });
  const name = path.slice(path.lastIndexOf('/') + 1);
  const pieces = path.endsWith('.safetensors')
    ? writeSafetensors(tensors)
    : writeTorchZip(tensors, { stem: name.slice(0, name.lastIndexOf('.')) });
  const bytes: Uint8Array[] = [];
  for await (const piece of pieces) bytes.push(Uint8Array.from(piece));
  await writeFile(full, Buffer.concat(bytes));
}

/** Looks at a tree as `tidemark assess` does: layout by looking (or as `--layout` says), files placed, then the assessment. */
export async function assessTree(
  tree: Tree,
  level: Level,
  options: { readonly layout?: string; readonly withDataset?: boolean } = {},
): Promise<{ readonly report: Report; readonly layout: Layout; readonly placed: Placed }> {
  const host = createLocalHost();
  const dataset = options.withDataset === false ? null : await openDataset(host.files, tree.dataset, { encoder: null, maxTokens: null });
  try {
    const found = await detectLayout(host.files, tree.folder, options.layout === undefined ? null : parseLayoutOption(options.layout));
    const placed = await placeFiles(host.files, tree.folder, found, dataset?.table ?? null);
    const report = await assessFolder(
      {
        files: host.files,
        machine: host.machine,
        clock: host.clock,
        store: createStoreReader(host.files, tree.folder, placed.layout),
        ledger: null,
        dataset: dataset === null ? null : { path: dataset.path, table: dataset.table },
      },
      { level, plan: (facts) => planOf(facts, { retryFailed: false }) },
    );
    return { report, layout: found, placed };
  } finally {
    await dataset?.close();
    await host.http.close();
  }
}
