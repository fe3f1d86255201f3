import { describe, expect, test } from 'vitest';
import { createSampler, type SamplingOptions } from './sampling.ts';

const plain: SamplingOptions = { temperature: 1, topP: 1, topK: 0, seed: 1 };

function drawMany(options: SamplingOptions, logits: readonly number[], count = 2000): readonly number[] {
  const sampler = createSampler(options);
  const counts = logits.map(() => 0);
  for (let i = 0; i < count; i++) {
    const id = sampler(Float32Array.from(logits));
    counts[id] = (counts[id] ?? 0) + 1;
  }
  return counts;
}

describe('the sampler', () => {
  test('takes the most likely token at temperature 0, the lowest id on a tie', () => {
    expect(createSampler({ ...plain, temperature: 0 })(Float32Array.of(1, 3, 3, 2))).toBe(1);
    expect(createSampler({ ...plain, temperature: 0 })(Float32Array.of(-5, -1))).toBe(1);
  });

  test('gives the same tokens for the same seed and others for another', () => {
    const logits = Float32Array.from({ length: 50 }, (_, id) => Math.sin(id));
    const twenty = (seed: number): readonly number[] => {
      const sampler = createSampler({ ...plain, seed });
      return Array.from({ length: 20 }, () => sampler(logits));
    };
    expect(twenty(7)).toEqual(twenty(7));
    expect(twenty(7)).not.toEqual(twenty(8));
    expect(twenty(7)).not.toEqual(twenty(7 + 2 ** 40));
    expect(twenty(-7)).toEqual(twenty(-7));
  });

  test('follows the probabilities', () => {
    const counts = drawMany(plain, [Math.log(6), Math.log(3), Math.log(1)]);
    expect((counts[0] ?? 0) / 2000).toBeCloseTo(0.6, 1);
    expect((counts[1] ?? 0) / 2000).toBeCloseTo(0.3, 1);
    expect(counts.reduce((sum, count) => sum + count)).toBe(2000);
  });

  test('keeps the tokens that reach top_p together, and at least one', () => {
    const logits = [Math.log(6), Math.log(3), Math.log(1)];
    expect(drawMany({ ...plain, topP: 0.85 }, logits)[2]).toBe(0);
    expect(drawMany({ ...plain, topP: 0.01 }, logits)).toEqual([2000, 0, 0]);
  });

  test('keeps top_k tokens', () => {
    const counts = drawMany({ ...plain, topK: 2 }, [1, 3, 3, 2]);
    expect(counts[0]).toBe(0);
    expect(counts[3]).toBe(0);
    expect(counts[1]).toBeGreaterThan(800);
  });

  test('survives logits that differ by more than a float can tell', () => {
    expect(createSampler({ ...plain, temperature: 0.01 })(Float32Array.of(-1e30, 0, -1e30))).toBe(1);
  });
});
