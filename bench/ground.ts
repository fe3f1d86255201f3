import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { CLI } from '../test/support/processes.ts';
import type { Figure } from './measure.ts';
import { type Cost, runTree } from './run-tree.ts';
import type { Tree } from './trees.ts';

export interface BenchOptions {
  /** Only figures whose name has this in it. */
  readonly only: string | null;
  /** `full`: the sizes that were asked for, 30 GB and a million files; `small`: a tenth of them. */
  readonly scale: 'small' | 'full';
}

/** One figure, or a few of one measurement, measured only when it is asked for. */
export interface Planned {
  readonly figure: string;
  readonly cache: 'warm' | 'cold';
  measure(): Promise<Figure | readonly Figure[]>;
}

export interface Ground {
  /** An empty folder; what lies in it is gone after the group. */
  readonly place: string;
  readonly scale: BenchOptions['scale'];
  /** Whether any figure with this in its name is asked for: trees cost minutes. */
  wants(figure: string): boolean;
}

export interface AssessRun {
  readonly level: 'identity' | 'checksum';
  /** The user's cache folder: what an earlier run with the same one learnt may be used. */
  readonly cache: string;
  /** Default: the tree's own; null for a run of ours, which remembers its rows. */
  readonly dataset?: string | null;
  /** Also what was proved of the files counts; default false: each run reads them. */
  readonly again?: boolean;
}

/** Our own command over a tree, which must find every file of it sound: a bench over a broken tree measures something else. */
export async function assess(tree: Tree, { level, cache, dataset = tree.dataset, again = false }: AssessRun): Promise<Cost> {
  mkdirSync(cache, { recursive: true });
  if (!again) rmSync(join(cache, 'tidemark/proofs'), { recursive: true, force: true });
  const argv = [CLI, 'assess', tree.folder, '--level', level, '--json', ...(dataset === null ? [] : ['--dataset', dataset])];
  const cost = await runTree(process.execPath, argv, { env: { XDG_CACHE_HOME: cache }, keepOutput: true });
  const { totals, level: reached } = JSON.parse(cost.stdout) as { totals: { sound: number; files: number }; level: string };
  if (totals.sound !== tree.files || totals.files !== tree.files || reached !== level)
    throw new Error(`${tree.folder}: ${totals.sound} of ${tree.files} files are sound at level ${reached}`);
  return cost;
}
