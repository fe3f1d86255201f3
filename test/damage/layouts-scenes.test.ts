import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LEVELS, type Level, levelAtLeast } from '../../src/core/verdict.ts';
import { assessTree, sceneTree, type Tree } from '../support/scenes/tree.ts';
import { type Truth, type TruthRow, verdictsByRow } from './scene.ts';

/** The scenes' checks in our words; null where nothing in the file can tell. */
const SEEN_FROM: Readonly<Record<string, Level | null>> = {
  size: 'structure',
  structure: 'structure',
  crc: 'checksum',
  content: 'content',
  none: null,
};

function allowed(row: TruthRow, level: Level): readonly string[] {
  switch (row.state) {
    case 'ok':
      return ['sound'];
    case 'missing':
      return ['missing'];
    case 'mismatch':
      return levelAtLeast(level, 'identity') ? ['drifted'] : ['sound'];
    case 'wrong-shape':
      return levelAtLeast(level, 'structure') ? ['poisoned'] : ['sound'];
    case 'bad-values':
      // Without checksums lost pages and computed zeros look alike.
      return level === 'content' ? (row.reason?.includes('zero') === true ? ['poisoned', 'torn'] : ['poisoned']) : ['sound', 'poisoned'];
    case 'torn': {
      const from = SEEN_FROM[row.seen_by ?? 'none'] ?? null;
      return from !== null && levelAtLeast(level, from) ? ['torn', 'corrupt'] : ['sound', 'torn', 'corrupt'];
    }
  }
}

const SCENES = [
  { args: ['torn-tail', '--format', 'ckpt.gz'], layout: 'specforge', codec: 'torch-gzip', groupSize: 250 },
  {
    args: ['torn-tail', '--format', 'ckpt.gz', '--torch', '1.13', '--crc', 'off'],
    layout: 'specforge',
    codec: 'torch-gzip',
    groupSize: 250,
  },
  { args: ['nan', '--format', 'ckpt.gz', '--mask', 'bool'], layout: 'specforge', codec: 'torch-gzip', groupSize: 250 },
  { args: ['wrong-shape', '--format', 'ckpt.gz', '--torch', '2.1'], layout: 'specforge', codec: 'torch-gzip', groupSize: 250 },
  { args: ['dataset-drift', '--format', 'ckpt.gz'], layout: 'specforge', codec: 'torch-gzip', groupSize: 250 },
  { args: ['torn-tail', '--format', 'safetensors'], layout: 'speculators', codec: 'safetensors', groupSize: 0 },
  { args: ['torn-tail', '--format', 'safetensors', '--tree', 'grouped'], layout: 'speculators', codec: 'safetensors', groupSize: 250 },
  { args: ['nan', '--format', 'safetensors'], layout: 'speculators', codec: 'safetensors', groupSize: 0 },
  { args: ['wrong-shape', '--format', 'safetensors'], layout: 'speculators', codec: 'safetensors', groupSize: 0 },
  { args: ['dataset-drift', '--format', 'safetensors'], layout: 'speculators', codec: 'safetensors', groupSize: 0 },
  {
    args: ['torn-tail', '--format', 'pt', '--tree', 'flat', '--mask', 'bool', '--torch', '2.7'],
    layout: 'specforge',
    codec: 'torch-zip',
    groupSize: 0,
  },
  { args: ['mixed-writers', '--format', 'ckpt.gz'], layout: 'specforge', codec: 'torch-gzip', groupSize: 250 },
] as const;

for (const { args, layout, codec, groupSize } of SCENES) {
  describe(`${args.join(' ')}`, () => {
    let tree: Tree;
    let truth: Truth;
    beforeAll(async () => {
      tree = await sceneTree(['--samples', '750', '--group', '250', '--scene', ...args]);
      truth = JSON.parse(tree.truth) as Truth;
    });
    afterAll(() => tree.remove());

    for (const level of LEVELS) {
      it(`is recognised, and said the truth of at level ${level}`, async () => {
        const { report } = await assessTree(tree, level);
        expect(report.layout).toMatchObject({ name: layout, codec, groupSize });
        const verdicts = verdictsByRow(report);
        const wrong = truth.index.flatMap((row) => {
          const { verdict, reason } = verdicts[row.i] ?? { verdict: 'none', reason: 'none' };
          const right = allowed(row, level).includes(verdict);
          return right
            ? []
            : [`row ${row.i}: ${row.state} ${row.reason ?? ''} (seen by ${row.seen_by ?? '-'}) was called ${verdict} ${reason}`];
        });
        expect(wrong).toEqual([]);
        expect(report.totals.rows).toBe(truth.totals.rows);
        expect(report.totals.files).toBe(truth.totals.files);
        expect(report.totals.bytes).toBe(truth.totals.bytes);
      });
    }
  });
}
