import { join } from 'node:path';
import { BARE, type Baseline, COUNT, FIND, HAS_TORCH, LOAD, NAMES, TESTZIP } from './baselines.ts';
import { assess, type Ground, type Planned } from './ground.ts';
import { atMost, type CompareOptions, compare, median, plain, type Wanted } from './measure.ts';
import { dropCaches, runTree } from './run-tree.ts';
import { storageCrash, type Tree, trueSize } from './trees.ts';

const RUNS = 3;

interface Pair {
  readonly figure: string;
  readonly level: 'identity' | 'checksum';
  readonly baseline: Baseline;
  readonly wanted: Wanted | null;
}

const by = (baseline: Baseline, tree: Tree) => () => runTree(baseline.file, [...baseline.argv, tree.folder]);

async function hasTorch(): Promise<boolean> {
  try {
    await runTree(HAS_TORCH.file, HAS_TORCH.argv);
    return true;
  } catch {
    console.error(`figures against torch.load are left out: ${HAS_TORCH.file} has no torch (apt-get install python3-torch)`);
    return false;
  }
}

/** 18,421 small files: every check's cost beside the bytes. */
export async function storageCrashFigures({ place, wants }: Ground): Promise<readonly Planned[]> {
  const names = ['assess.identity.storage-crash', 'assess.checksum.storage-crash'] as const;
  if (!names.some(wants)) return [];
  const tree = storageCrash(place);
  const cache = join(place, 'cache');
  // The dataset's own scan is made once and kept: it is the dataset's cost, not the tree's.
  await assess(tree, { level: 'identity', cache });
  const torch = await hasTorch();
  const pairs: readonly Pair[] = [
    { figure: names[0], level: 'identity', baseline: COUNT, wanted: null },
    { figure: names[0], level: 'identity', baseline: FIND, wanted: null },
    { figure: names[0], level: 'identity', baseline: BARE, wanted: atMost(2, 0.5) },
    { figure: names[0], level: 'identity', baseline: NAMES, wanted: atMost(1) },
    ...(torch ? [{ figure: names[0], level: 'identity', baseline: LOAD, wanted: atMost(1 / 3) } as const] : []),
    { figure: names[1], level: 'checksum', baseline: TESTZIP, wanted: atMost(1 / 3) },
  ];
  return (['warm', 'cold'] as const).flatMap((state) =>
    pairs.map(({ figure, level, baseline, wanted }): Planned => {
      const options: CompareOptions = {
        cache: state,
        ...(wanted === null ? {} : { wanted }),
        ...(state === 'cold' ? { before: dropCaches } : {}),
      };
      const ours = () => assess(tree, { level, cache });
      return {
        figure,
        cache: state,
        measure: () => compare(figure, baseline.name, baseline === LOAD ? 1 : RUNS, ours, by(baseline, tree), options),
      };
    }),
  );
}

/** The same tree at its true size, 2.3 TB by `ls`: nothing may grow with a file's length. */
export async function trueSizeFigures({ place, wants }: Ground): Promise<readonly Planned[]> {
  const figure = 'assess.identity.true-size';
  if (!wants(figure)) return [];
  const small = storageCrash(place);
  const large = await trueSize(place);
  const cache = join(place, 'cache');
  for (const tree of [small, large]) await assess(tree, { level: 'identity', cache });
  const states = ['warm', 'cold'] as const;
  const planned = states.map(
    (state): Planned => ({
      figure,
      cache: state,
      measure: () =>
        compare(
          figure,
          'the same with small files',
          RUNS,
          () => assess(large, { level: 'identity', cache }),
          () => assess(small, { level: 'identity', cache }),
          { cache: state, wanted: atMost(1.5), ...(state === 'cold' ? { before: dropCaches } : {}) },
        ),
    }),
  );
  const bytesFigure = `${figure}.bytes`;
  return [...planned, { figure: bytesFigure, cache: 'warm', measure: () => bytesRead(bytesFigure, large, cache) }];
}

/** Read a file, on the average: everything that the processes read, less what they read for a tree of the same dataset without files. */
async function bytesRead(figure: string, tree: Tree, cache: string) {
  const costs = [];
  for (let run = 0; run < RUNS; run += 1) costs.push(await assess(tree, { level: 'identity', cache }));
  const mostTokens = 2100 + 159;
  const bound = 64 * 1024 + 8 * mostTokens;
  const value = median(costs.map((cost) => cost.readBytes / tree.files));
  const wanted = { text: `under 64 KiB and 8 a token, ${bound} at most`, holds: (ours: number) => ours < bound };
  return plain(figure, value, 'bytes', { against: 'all that was read, code and row table too, over the files', wanted, cache: 'warm' });
}
