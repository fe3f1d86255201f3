import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createLocalHost } from '../../src/host/local.ts';
import { bucketOf, type KeyValueCache } from '../../src/serve/key-value-cache.ts';
import { type EngineModel, loadModel, type StepResult } from '../../src/serve/model.ts';

/**
 * What the server's batching rests on: a row's bits depend on that row alone. If a new runtime or model breaks this,
 * `batchMost` must be 1 until it is understood.
 */
const directory = new URL('../../models/tide-5m', import.meta.url).pathname;
const host = createLocalHost();
let model: EngineModel;

beforeAll(async () => {
  model = await loadModel(host, { directory, threadCount: 2 });
});

afterAll(async () => {
  await model.release();
  await host.http.close();
});

/** Ids without a pattern, the same in each run. */
function prompt(length: number, seed: number): readonly number[] {
  let state = seed;
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 1;
    return 5 + (state % 1339);
  });
}

const bits = (values: Float32Array): Buffer => Buffer.from(values.buffer, values.byteOffset, values.byteLength);

function expectSameBits(one: StepResult, other: StepResult): void {
  expect(bits(one.logits).equals(bits(other.logits))).toBe(true);
  for (let id = 0; one.states !== null && id <= model.facts.layerCount; id++) {
    expect(other.states !== null && bits(one.states.layer(id)).equals(bits(other.states.layer(id)))).toBe(true);
  }
}

function single(results: readonly StepResult[]): StepResult {
  const [result] = results;
  if (result === undefined || results.length !== 1) throw new Error('one row was asked for');
  return result;
}

async function cacheOf(tokenIds: readonly number[]): Promise<KeyValueCache> {
  const { cache } = single(await model.prefill([tokenIds], { states: false, cache: true }));
  if (cache === null) throw new Error('a cache was asked for');
  return cache;
}

describe('prefill', () => {
  test.each([1, 2, 7, 16, 33, 64, 65, 127, 150, 256, 500])('of %i tokens gives the same bits alone and in company', async (length) => {
    for (const rowCount of [2, 3, 8]) {
      const rows = Array.from({ length: rowCount }, (_, row) => prompt(length, 17 * row + length));
      const together = await model.prefill(rows, { states: true, cache: false });
      for (const [index, row] of rows.entries()) {
        const result = together[index];
        if (result === undefined) throw new Error('a row is missing');
        expectSameBits(single(await model.prefill([row], { states: true, cache: false })), result);
      }
    }
  });

  test('gives the same bits whatever else is asked for', async () => {
    const row = prompt(70, 3);
    const both = single(await model.prefill([row], { states: true, cache: true }));
    expectSameBits(single(await model.prefill([row], { states: false, cache: true })), both);
    expectSameBits(single(await model.prefill([row], { states: true, cache: false })), both);
  });

  test('gives the same bits with one thread', async () => {
    const other = await loadModel(host, { directory, threadCount: 1 });
    const row = prompt(150, 5);
    const [here] = await model.prefill([row], { states: true, cache: false });
    expectSameBits(single(await other.prefill([row], { states: true, cache: false })), here ?? single([]));
    await other.release();
  });
});

describe('decode', () => {
  test('gives the same bits alone and in company of other lengths, across the edge of a bucket', async () => {
    const lengths = [5, 17, 31, 44, 50, 58, 62, 63];
    const prompts = lengths.map((length) => prompt(length, length));
    const alone = await Promise.all(prompts.map(cacheOf));
    const together = await Promise.all(prompts.map(cacheOf));
    for (let step = 0; step < 6; step++) {
      const tokenId = 100 + step;
      const singles: StepResult[] = [];
      for (const cache of alone) singles.push(single(await model.decode([{ tokenId, cache }])));
      const placed = together.map((cache, index) => ({ cache, index, bucket: bucketOf(cache.length) }));
      for (const bucket of new Set(placed.map((place) => place.bucket))) {
        const members = placed.filter((place) => place.bucket === bucket);
        const results = await model.decode(members.map(({ cache }) => ({ tokenId, cache })));
        for (const [at, { index }] of members.entries()) expectSameBits(singles[index] ?? single([]), results[at] ?? single([]));
      }
    }
    expect(together.map((cache) => cache.length)).toEqual(lengths.map((length) => length + 6));
    for (const [index, cache] of together.entries()) expect(cache.length).toBe(alone[index]?.length);
  });

  test('says what the whole prompt would have said, to rounding', async () => {
    const row = prompt(130, 9);
    const cache = await cacheOf(row.slice(0, 120));
    let last: StepResult | undefined;
    for (const tokenId of row.slice(120)) last = single(await model.decode([{ tokenId, cache }]));
    const whole = single(await model.prefill([row], { states: false, cache: false }));
    const furthest = whole.logits.reduce((most, logit, id) => Math.max(most, Math.abs(logit - (last?.logits[id] ?? Number.NaN))), 0);
    expect(furthest).toBeLessThan(1e-4);
  });
});
