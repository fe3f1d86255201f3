import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { assessFolder } from '../../src/assess/assess.ts';
import type { Report } from '../../src/core/report.ts';
import type { Level, VerdictKind } from '../../src/core/verdict.ts';
import { openDataset } from '../../src/dataset/open-dataset.ts';
import { createLocalHost } from '../../src/host/local.ts';
import { planOf } from '../../src/recover/planner.ts';
import { specForgeLayout } from '../../src/store/layouts/specforge.ts';
import { createStoreReader } from '../../src/store/reader.ts';

const GENERATOR = new URL('../support/scenes/make_scene.py', import.meta.url).pathname;

/** One row of a scene's truth; the scenes' README says what the words mean. */
export interface TruthRow {
  readonly i: number;
  readonly state: 'ok' | 'missing' | 'torn' | 'mismatch' | 'bad-values' | 'wrong-shape';
  readonly reason?: string;
  readonly seen_by?: 'size' | 'structure' | 'crc' | 'content' | 'none';
  readonly holds_row?: number | null;
  readonly also?: readonly { readonly path: string }[];
}

export interface Truth {
  readonly totals: {
    readonly rows: number;
    readonly files: number;
    readonly ok: number;
    readonly no_file: number;
    readonly no_file_inside: number;
    readonly next: number;
    readonly bytes: number;
  };
  readonly run: { readonly last_write: string; readonly writers: readonly { from: number; to: number; next: number }[] };
  readonly folders: readonly { readonly path: string; readonly files: number; readonly ok: number }[];
  readonly extras: readonly { readonly path: string; readonly kind: string }[];
  readonly index: readonly TruthRow[];
}

export interface Scene {
  readonly folder: string;
  readonly dataset: string;
  readonly truth: Truth;
  readonly extension: 'ckpt' | 'pt';
  readonly groupSize: number;
  remove(): Promise<void>;
}

export interface SceneOptions {
  readonly scene: string;
  readonly format?: 'ckpt' | 'pt';
  readonly samples?: number;
  readonly group?: number;
  readonly more?: readonly string[];
}

export async function makeScene(options: SceneOptions): Promise<Scene> {
  const root = await mkdtemp(join(tmpdir(), 'tidemark-scene-'));
  const extension = options.format ?? 'ckpt';
  const groupSize = options.group ?? 2000;
  const sizes = options.samples === undefined ? [] : ['--samples', `${options.samples}`];
  const out = join(root, 'scene');
  const given = ['--scene', options.scene, '--format', extension, '--group', `${groupSize}`, ...sizes, ...(options.more ?? []), out];
  await promisify(execFile)('python3', [GENERATOR, ...given], { maxBuffer: 1 << 26 });
  return {
    folder: join(out, 'hidden_states'),
    dataset: join(out, 'dataset.jsonl'),
    truth: JSON.parse(await readFile(join(out, 'truth.json'), 'utf8')) as Truth,
    extension,
    groupSize,
    remove: () => rm(root, { recursive: true, force: true }),
  };
}

export async function assessScene(scene: Scene, level: Level, options: { readonly withDataset?: boolean } = {}): Promise<Report> {
  const host = createLocalHost();
  const layout = specForgeLayout({ extension: scene.extension, groupSize: scene.groupSize });
  const dataset = options.withDataset === false ? null : await openDataset(host.files, scene.dataset, { encoder: null, maxTokens: null });
  try {
    return await assessFolder(
      {
        files: host.files,
        machine: host.machine,
        clock: host.clock,
        store: createStoreReader(host.files, scene.folder, layout),
        ledger: null,
        dataset: dataset === null ? null : { path: dataset.path, table: dataset.table },
      },
      { level, plan: (facts) => planOf(facts, { retryFailed: false }) },
    );
  } finally {
    await dataset?.close();
    await host.http.close();
  }
}

/** Verdict and reason of each row. */
export function verdictsByRow(report: Report): { readonly verdict: VerdictKind; readonly reason: string }[] {
  const rows: { verdict: VerdictKind; reason: string }[] = [];
  for (const { verdict, reason, ranges } of report.verdicts) {
    for (const [from, to] of ranges) for (let row = from; row < to; row += 1) rows[row] = { verdict, reason };
  }
  return rows;
}

/** Every name below a folder with its size and times: what a look must not change. */
export async function snapshot(folder: string): Promise<string[]> {
  const lines: string[] = [];
  for (const entry of await readdir(folder, { recursive: true })) {
    const seen = await stat(join(folder, entry));
    lines.push(`${entry} ${seen.size} ${seen.mtimeMs} ${seen.ctimeMs}`);
  }
  return lines.sort();
}
