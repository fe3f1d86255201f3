import { describe, expect, it } from 'vitest';
import { engineSuite } from '../../test/contracts/engine.suite.ts';
import { isTidemarkError } from '../core/errors.ts';
import { createLocalClock } from '../host/local-clock.ts';
import { createReplayEngine, type ReplayOptions } from './replay.ts';

const layers = [2, 4, 5, 8];
const clock = createLocalClock();
const start = (options: Partial<ReplayOptions> = {}) => createReplayEngine(clock, { layers, width: 24, ...options });

for (const dtype of ['BF16', 'F16', 'F32'] as const) {
  engineSuite(
    `replay, ${dtype}`,
    async () => {
      const engine = start({ dtype, maxTokens: 100 });
      return { engine, layers, width: 24, vocabularySize: 1000, staged: async () => [], stop: () => engine.close() };
    },
    { causal: true, roundsByBatch: null },
  );
}

describe('replay', () => {
  const request = (row: number, attempt = 1) => ({ row, attempt, inputIds: Uint32Array.of(5, 6, 7) });

  it('gives other states for another seed', async () => {
    const [a, b] = await Promise.all([start({ seed: 1 }).capture(request(0)), start({ seed: 2 }).capture(request(0))]);
    expect(Buffer.compare(await a.readRows(0, 3), await b.readRows(0, 3))).not.toBe(0);
  });

  it('never makes a zero, an infinity or a NaN', async () => {
    const engine = start({ width: 4096, layers: [1, 2] });
    const capture = await engine.capture(request(0));
    const words = new Uint16Array((await capture.readRows(0, 3)).slice().buffer);
    expect(words.every((word) => (word & 0x7f80) !== 0 && (word & 0x7f80) !== 0x7f80)).toBe(true);
    expect(new Set(words).size).toBeGreaterThan(500);
  });

  it('fails as planned, by row and attempt', async () => {
    const engine = start({ failures: ({ row, attempt }) => (row === 4 && attempt === 1 ? { kind: 'error', code: 'capture-bad' } : null) });
    await expect(engine.capture(request(4, 1))).rejects.toMatchObject({ code: 'capture-bad' });
    await expect(engine.capture(request(4, 2))).resolves.toMatchObject({ tokens: 3 });
    await expect(engine.capture(request(5, 1))).resolves.toMatchObject({ tokens: 3 });
  });

  it('puts a bad value where it was told', async () => {
    const engine = start({ failures: () => ({ kind: 'values', value: 'nan', row: 1, slot: 2 }) });
    const bytes = await (await engine.capture(request(0))).readRows(1, 3);
    const words = new Uint16Array(bytes.slice().buffer);
    const bad = [...words.keys()].filter((at) => ((words[at] ?? 0) & 0x7f80) === 0x7f80);
    expect(bad).toEqual([2 * 24 + 12]);
  });

  it('hangs until it is stopped', async () => {
    const stop = new AbortController();
    const waiting = start({ failures: () => ({ kind: 'hang' }) }).capture(request(0), stop.signal);
    setTimeout(() => stop.abort(new Error('enough')), 20);
    await expect(waiting).rejects.toSatisfy((error) => isTidemarkError(error, 'interrupted'));
  });

  it('counts captures that nobody released', async () => {
    const engine = start();
    const [a, b] = await Promise.all([engine.capture(request(0)), engine.capture(request(1))]);
    expect(engine.outstanding).toBe(2);
    await a.release();
    await a.release();
    expect(engine.outstanding).toBe(1);
    await b.release();
    expect(engine.outstanding).toBe(0);
  });
});
