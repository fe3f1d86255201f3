import { rmSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { CAT } from './baselines.ts';
import { assess, type Ground, type Planned } from './ground.ts';
import { atMost, compare, type Figure, plain } from './measure.ts';
import { type Cost, dropCaches, runTree } from './run-tree.ts';
import { fullFiles, type Tree } from './trees.ts';

const MB = 1_000_000;
const GIB = 2 ** 30;

interface Case {
  readonly name: string;
  readonly full: readonly number[];
  readonly small: readonly number[];
}

/** Small files, files of the usual size, and files beyond 2 and 4 GiB. */
const CASES: readonly Case[] = [
  { name: '1MB', full: Array.from({ length: 2000 }, () => MB), small: Array.from({ length: 500 }, () => MB) },
  { name: '500MB', full: Array.from({ length: 40 }, () => 500 * MB), small: Array.from({ length: 4 }, () => 500 * MB) },
  { name: 'GiB', full: [3 * GIB, 5 * GIB], small: [3 * GIB, 5 * GIB] },
];

/** Every byte read: at the disk's rate when cold, near memory's when warm. */
export async function checksumFigures({ place, scale, wants }: Ground): Promise<readonly Planned[]> {
  const planned: Planned[] = [];
  for (const one of CASES) {
    const figure = `assess.checksum.${one.name}`;
    if (!wants(figure)) continue;
    // One case's bytes at a time: they are made when its first figure is measured, and go with its last.
    let made: Promise<Tree> | null = null;
    const sizes = one[scale];
    const tree = (): Promise<Tree> => {
      made ??= fullFiles(place, one.name, sizes.length, sizes);
      return made;
    };
    const cache = join(place, 'cache');
    const cat = async () => runTree(CAT.file, [...CAT.argv, (await tree()).folder]);
    const ours = async () => assess(await tree(), { level: 'checksum', cache });
    const gigabytes = (sizes.reduce((sum, size) => sum + size, 0) / 1e9).toFixed(1);
    const against = `${CAT.name}, ${gigabytes} GB`;
    planned.push({
      figure,
      cache: 'warm',
      async measure() {
        const cores: Cost[] = [];
        await ours();
        await cat();
        const measured = await compare(figure, against, 2, async () => cores.push(await ours()), cat, {
          cache: 'warm',
          wanted: atMost(1 / 0.4),
        });
        const used = Math.max(...cores.map((cost) => cost.processorSeconds / cost.seconds));
        const wanted = { text: 'all of them, with a start and an end on one', holds: (value: number) => value > 0.8 * cpus().length };
        const busy: Figure = plain(`${figure}.cores`, used, 'cores', { against: `${cpus().length} cores`, wanted, cache: 'warm' });
        return [measured, busy];
      },
    });
    planned.push({
      figure,
      cache: 'cold',
      measure: async () => {
        await tree();
        const measured = await compare(figure, against, 2, ours, cat, { cache: 'cold', wanted: atMost(1), before: dropCaches });
        // The last figure of the case: the next one needs the room.
        rmSync(join(place, one.name), { recursive: true });
        return measured;
      },
    });
  }
  return planned;
}
