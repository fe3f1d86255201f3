import { gzipSync } from 'node:zlib';
import { exitOfInspection, INSPECT_LEVELS, inspectFile } from '../../src/app/inspect.ts';
import { renderInspection } from '../../src/cli/render-inspect.ts';
import { memoryHost } from '../support/memory-host.ts';
import { damaged, oneOf } from './mutate.ts';
import type { Seeds } from './seeds.ts';
import { type FuzzTarget, input, keep } from './target.ts';

/** The whole command over any bytes: every parser behind one door, values and words included. */
export function inspectTarget(seeds: Seeds, hostile: readonly FuzzTarget[]): FuzzTarget {
  const good = [...seeds.torch, ...seeds.safetensors, ...seeds.torch.slice(0, 3).map((bytes) => gzipSync(bytes))];
  return {
    name: 'inspect',
    make(random) {
      if (random.chance(0.3)) return { ...oneOf(random, hostile).make(random), hole: null, sealed: false };
      const { bytes, made } = damaged(random, oneOf(random, good), oneOf(random, good));
      return input(bytes, made);
    },
    async check({ bytes }) {
      const host = memoryHost();
      const name = oneOfNames(bytes);
      host.files.plant(`/x/${name}`, bytes);
      const level = INSPECT_LEVELS[bytes.length % INSPECT_LEVELS.length] ?? 'content';
      const inspection = await inspectFile(host, name, { level, cwd: '/x' });
      keep([0, 3, 7].includes(exitOfInspection(inspection)), 'it exits otherwise');
      JSON.stringify(inspection);
      const text = renderInspection(inspection);
      keep(text.length < 200_000, `it says ${text.length} characters`);
      keep(![...text].some((character) => character < ' ' && character !== '\n'), 'its text has control characters');
    },
  };
}

function oneOfNames(bytes: Uint8Array): string {
  return ['a.ckpt', 'a.safetensors', 'a.ckpt.gz', 'a'][(bytes[0] ?? 0) % 4] ?? 'a';
}
