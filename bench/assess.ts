import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CLI } from '../test/support/processes.ts';
import { checksumFigures } from './assess-checksum.ts';
import { sampleFigures } from './assess-samples.ts';
import { storageCrashFigures, trueSizeFigures } from './assess-scenes.ts';
import type { BenchOptions, Ground, Planned } from './ground.ts';
import type { Figure } from './measure.ts';
import { canDropCaches } from './run-tree.ts';

const GROUPS: readonly ((ground: Ground) => Promise<readonly Planned[]>)[] = [
  storageCrashFigures,
  trueSizeFigures,
  checksumFigures,
  sampleFigures,
];

/** `npm run bench -- assess [--only NAME] [--scale full]`. One group's trees are on the disk at a time. */
export async function* benchAssess(options: BenchOptions): AsyncGenerator<Figure> {
  if (!existsSync(CLI)) throw new Error('the built command is measured: npm run build');
  const cold = canDropCaches();
  if (!cold) console.error('cold figures are left out: only root may drop the caches');
  for (const group of GROUPS) {
    const place = mkdtempSync(join(tmpdir(), 'tidemark-bench-'));
    try {
      const wants = (figure: string): boolean => options.only === null || figure.includes(options.only) || options.only.startsWith(figure);
      const planned = await group({ place, scale: options.scale, wants });
      for (const one of planned) {
        if ((one.cache === 'cold' && !cold) || (options.only !== null && !one.figure.includes(options.only))) continue;
        const made = await one.measure();
        if (Array.isArray(made)) yield* made as readonly Figure[];
        else yield made as Figure;
      }
    } finally {
      rmSync(place, { recursive: true });
    }
  }
}
