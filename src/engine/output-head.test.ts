import { describe, expect, it } from 'vitest';
import { createMemoryFiles, type MemoryFiles } from '../../test/support/memory-files.ts';
import { seededRandom } from '../../test/support/seeded-random.ts';
import { writeSafetensors } from '../format/safetensors-writer.ts';
import { type OutputHead, openOutputHead } from './output-head.ts';
import { scoreStates } from './output-head-scores.ts';

const WIDTH = 6;
const VOCABULARY = 41;
const random = seededRandom(9);
const floats = (count: number): Float32Array => Float32Array.from({ length: count }, () => (random.fraction() - 0.5) * 3);

async function modelFolder(
  names: readonly string[],
  config: object,
  index: Readonly<Record<string, string>> | null = null,
): Promise<MemoryFiles> {
  const files = createMemoryFiles({ folders: ['/m'] });
  files.plant('/m/config.json', JSON.stringify(config));
  if (index !== null) files.plant('/m/model.safetensors.index.json', JSON.stringify({ weight_map: index }));
  const tensors = names.map((name) => {
    const shape = name.endsWith('.bias') ? [VOCABULARY] : [VOCABULARY, WIDTH];
    const bytes = new Uint8Array(floats(shape.reduce((a, b) => a * b, 1)).buffer);
    return { name, dtype: 'F32' as const, shape, pieces: () => [bytes] };
  });
  const parts: Uint8Array[] = [];
  for await (const piece of writeSafetensors(tensors)) parts.push(Uint8Array.from(piece));
  files.plant(`/m/${index === null ? 'model' : 'part-2'}.safetensors`, Buffer.concat(parts));
  return files;
}

describe('the output head', () => {
  it('is the model’s own where it has one, and the embedding otherwise', async () => {
    const own = await openOutputHead(await modelFolder(['lm_head.weight', 'lm_head.bias', 'model.embed_tokens.weight'], {}), '/m', WIDTH);
    expect(own).toMatchObject({ tensor: 'lm_head.weight', tied: false, vocabulary: VOCABULARY });
    expect(own.bias?.length).toBe(VOCABULARY);
    const tied = await openOutputHead(
      await modelFolder(['model.embed_tokens.weight'], { text_config: { final_logit_softcapping: 30 } }),
      '/m',
      WIDTH,
    );
    expect(tied).toMatchObject({ tensor: 'model.embed_tokens.weight', tied: true, softcap: 30 });
  });

  it('is found through the index of many files', async () => {
    const index = { 'model.norm.weight': 'part-1.safetensors', 'lm_head.weight': 'part-2.safetensors' };
    const head = await openOutputHead(await modelFolder(['lm_head.weight'], {}, index), '/m', WIDTH);
    expect((await head.readRows(3, 5)).length).toBe(2 * WIDTH);
    const outside = await modelFolder(['lm_head.weight'], {}, { 'lm_head.weight': '../part-2.safetensors' });
    await expect(openOutputHead(outside, '/m', WIDTH)).rejects.toMatchObject({ code: 'model' });
  });

  it('refuses what does not fit', async () => {
    await expect(openOutputHead(await modelFolder(['lm_head.weight'], {}), '/m', WIDTH + 1)).rejects.toMatchObject({ code: 'model' });
    await expect(openOutputHead(await modelFolder(['x'], {}), '/m', WIDTH)).rejects.toMatchObject({ code: 'model' });
    const lost = await modelFolder(['model.embed_tokens.weight'], { tie_word_embeddings: false });
    await expect(openOutputHead(lost, '/m', WIDTH)).rejects.toMatchObject({ code: 'model' });
  });

  it('scores as a plain softmax does, for any count of states', async () => {
    const files = await modelFolder(['lm_head.weight', 'lm_head.bias'], { final_logit_softcapping: 2 });
    const head: OutputHead = await openOutputHead(files, '/m', WIDTH);
    const matrix = await head.readRows(0, VOCABULARY);
    for (const count of [1, 3, 4, 6]) {
      const states = floats(count * WIDTH);
      const candidates = Array.from({ length: count }, () => [random.below(VOCABULARY), random.below(VOCABULARY)]);
      const scores = await scoreStates(head, states, candidates);
      candidates.forEach((tokens, state) => {
        const logits = Array.from({ length: VOCABULARY }, (_, token) => {
          let sum = 0;
          for (let i = 0; i < WIDTH; i += 1) sum += (matrix[token * WIDTH + i] ?? 0) * (states[state * WIDTH + i] ?? 0);
          return 2 * Math.tanh((sum + (head.bias?.[token] ?? 0)) / 2);
        });
        const mass = logits.reduce((sum, logit) => sum + Math.exp(logit), 0);
        const probabilities = logits.map((logit) => Math.exp(logit) / mass);
        expect(scores[state]?.entropy).toBeCloseTo(-probabilities.reduce((sum, p) => sum + p * Math.log(p), 0), 9);
        tokens.forEach((token, at) => {
          expect(scores[state]?.logProbs[at]).toBeCloseTo(Math.log(probabilities[token] ?? 0), 9);
          expect(scores[state]?.ranks[at]).toBe(logits.filter((logit) => logit > (logits[token] ?? 0)).length);
        });
      });
    }
  });
});
