import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Capture, Engine } from '../../src/engine/engine.ts';
import { DTYPE_BYTES } from '../../src/format/tensors.ts';

/** One engine under test, with what the suite must know of it. */
export interface EngineSubject {
  readonly engine: Engine;
  /** The boundaries that it was asked for, the last one included. */
  readonly layers: readonly number[];
  readonly width: number;
  /** Ids below this are known to the model. */
  readonly vocabularySize: number;
  /** Names in the staging folder; empty for an engine without one. */
  staged(): Promise<readonly string[]>;
  stop(): Promise<void>;
}

export interface EngineSuiteOptions {
  /** Whether a token's states depend on the tokens before it and on nothing after it, as a decoder's do. */
  readonly causal: boolean;
  /** Whether a row's states may depend, by rounding, on the batch that it ran in. The reason, or null for equal bits. */
  readonly roundsByBatch: string | null;
}

/** The contract of `Engine`, run by each adapter. */
export function engineSuite(name: string, start: () => Promise<EngineSubject>, options: EngineSuiteOptions): void {
  describe(`engine contract: ${name}`, () => {
    let subject: EngineSubject;
    beforeAll(async () => {
      subject = await start();
    });
    afterAll(() => subject?.stop());

    const capture = (row: number, ids: readonly number[], signal?: AbortSignal) =>
      subject.engine.capture({ row, attempt: 1, inputIds: Uint32Array.from(ids) }, signal);
    const idsOf = (count: number, seed: number) =>
      Array.from({ length: count }, (_, i) => 8 + ((i * 37 + seed * 101) % (subject.vocabularySize - 8)));

    async function states(row: number, ids: readonly number[]): Promise<Uint8Array> {
      const found = await capture(row, ids);
      try {
        return (await found.readRows(0, found.tokens)).slice();
      } finally {
        await found.release();
      }
    }

    /** Equal bits, or near for an engine that says why not. */
    function expectSame(found: Uint8Array, wanted: Uint8Array, form: Capture): void {
      if (options.roundsByBatch === null) {
        expect(Buffer.compare(found, wanted)).toBe(0);
        return;
      }
      const [a, b] = [floats(found, form.dtype), floats(wanted, form.dtype)];
      expect(a.length).toBe(b.length);
      const largest = b.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      const farthest = a.reduce((most, value, at) => Math.max(most, Math.abs(value - (b[at] ?? Number.NaN))), 0);
      expect(farthest / largest).toBeLessThan(0.02);
    }

    it('describes itself, the same each time', async () => {
      const first = await subject.engine.describe();
      expect(first.engine).not.toBe('');
      expect(first.model).not.toBe('');
      expect(Object.keys(first.state).length).toBeGreaterThan(0);
      expect(await subject.engine.describe()).toEqual(first);
    });

    it('is healthy', async () => {
      expect(await subject.engine.healthy()).toBe(true);
    });

    it('gives one row a token, all layers, finite and not zero', async () => {
      const ids = idsOf(33, 1);
      const found = await capture(1, ids);
      expect(found.tokens).toBe(ids.length);
      expect(found.layers).toEqual(subject.layers);
      expect(found.width).toBe(subject.width);
      expect(['pre-norm', 'post-norm']).toContain(found.lastStateNorm);
      const bytes = await found.readRows(0, found.tokens);
      const slot = found.width * DTYPE_BYTES[found.dtype];
      expect(bytes.length).toBe(ids.length * subject.layers.length * slot);
      const values = floats(bytes.slice(), found.dtype);
      expect(values.every(Number.isFinite)).toBe(true);
      for (let at = 0; at < bytes.length; at += slot) expect(bytes.subarray(at, at + slot).some((byte) => byte !== 0)).toBe(true);
      await found.release();
    });

    it('gives each layer its own states', async () => {
      const found = await capture(2, idsOf(4, 2));
      const row = (await found.readRows(3, 4)).slice();
      const slot = row.length / subject.layers.length;
      const slots = subject.layers.map((_, i) => Buffer.from(row.subarray(i * slot, (i + 1) * slot)).toString('hex'));
      expect(new Set(slots).size).toBe(slots.length);
      await found.release();
    });

    it('reads the same bytes in pieces and whole, in any order', async () => {
      const found = await capture(3, idsOf(21, 3));
      const whole = (await found.readRows(0, 21)).slice();
      const rowBytes = whole.length / 21;
      for (const [from, to] of [
        [20, 21],
        [0, 1],
        [5, 13],
        [7, 7],
      ] as const) {
        expect(Buffer.compare(await found.readRows(from, to), whole.subarray(from * rowBytes, to * rowBytes))).toBe(0);
      }
      await found.release();
    });

    it('takes a single token and the longest prompt, and refuses a longer one for good', async () => {
      const { maxTokens } = await subject.engine.describe();
      expect((await states(4, idsOf(1, 4))).length).toBeGreaterThan(0);
      if (maxTokens === null) return;
      const longest = await capture(5, idsOf(maxTokens, 5));
      expect(longest.tokens).toBe(maxTokens);
      await longest.release();
      await expect(capture(6, idsOf(maxTokens + 1, 6))).rejects.toMatchObject({
        code: 'engine-refused',
        retry: 'never',
        message: expect.stringMatching(/context length|model length/i),
      });
    });

    it('gives a prompt the same states again, whatever row and attempt ask', async () => {
      const ids = idsOf(17, 7);
      const form = await capture(7, ids);
      const first = (await form.readRows(0, form.tokens)).slice();
      await form.release();
      expectSame(await states(8, ids), first, form);
    });

    it('keeps captures apart that run at the same time', async () => {
      const prompts = Array.from({ length: 6 }, (_, i) => idsOf(9 + i * 5, 20 + i));
      const alone: Uint8Array[] = [];
      for (const [i, ids] of prompts.entries()) alone.push(await states(30 + i, ids));
      const together = await Promise.all(prompts.map((ids, i) => capture(40 + i, ids)));
      for (const [i, found] of together.entries()) {
        expectSame((await found.readRows(0, found.tokens)).slice(), alone[i] ?? new Uint8Array(0), found);
      }
      for (const found of together.reverse()) await found.release();
    });

    it.skipIf(!options.causal)('gives a prefix the first rows of the longer prompt', async () => {
      const ids = idsOf(40, 9);
      const form = await capture(50, ids);
      const whole = (await form.readRows(0, 24)).slice();
      await form.release();
      expectSame(await states(51, ids.slice(0, 24)), whole, form);
    });

    it('leaves nothing staged after release, which may be called twice', async () => {
      const found = await capture(60, idsOf(12, 10));
      if (subject.engine.capabilities.stagedFiles) expect((await subject.staged()).length).toBeGreaterThan(0);
      await found.release();
      await found.release();
      expect(await subject.staged()).toEqual([]);
    });

    it('rejects with interrupted when told to stop before it began', async () => {
      const signal = AbortSignal.abort(new Error('stop'));
      await expect(capture(61, idsOf(12, 11), signal)).rejects.toMatchObject({ code: 'interrupted' });
      expect(await subject.staged()).toEqual([]);
    });
  });
}

/** Decoded here in the slow, obvious way: the fast conversions have their own tests. */
function floats(bytes: Uint8Array, dtype: string): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values: number[] = [];
  const word = new DataView(new ArrayBuffer(4));
  for (let at = 0; at < bytes.length; at += dtype === 'F32' ? 4 : 2) {
    if (dtype === 'F32') values.push(view.getFloat32(at, true));
    else if (dtype === 'BF16') {
      word.setUint32(0, view.getUint16(at, true) << 16);
      values.push(word.getFloat32(0));
    } else {
      const half = view.getUint16(at, true);
      const exponent = (half >> 10) & 31;
      const mantissa = half & 1023;
      const size =
        exponent === 0
          ? mantissa * 2 ** -24
          : exponent === 31
            ? mantissa === 0
              ? Infinity
              : NaN
            : (1 + mantissa / 1024) * 2 ** (exponent - 15);
      values.push(half >> 15 ? -size : size);
    }
  }
  return values;
}
