import { assert } from '../core/assert.ts';
import type { ModelFacts } from './model-facts.ts';

/**
 * The keys and values of one sequence, and how several of them are laid side by side for one step.
 *
 * A step's width depends on the sequence alone: its length rounded up to a multiple of `COLUMNS_PER_BUCKET`,
 * with masked columns on the left. Rows of one bucket therefore run together without one row's company
 * changing another row's arithmetic; `test/contracts/engine-server.test.ts` proves it bit for bit.
 */
const COLUMNS_PER_BUCKET = 64;

export interface KeyValueCache {
  /** Tokens held. */
  length: number;
  /** Columns per block, a multiple of the bucket. */
  capacity: number;
  /** [layer x (key, value) x head][capacity][head size], left-aligned. */
  data: Float32Array;
}

/** Blocks of contiguous columns that one sequence has: one for each layer, key or value, and head. */
function blockCount(facts: ModelFacts): number {
  return facts.layerCount * 2 * facts.keyValueHeadCount;
}

/** The width, in columns, of the step that appends one token to a cache of `length`. */
export function bucketOf(length: number): number {
  return Math.ceil((length + 1) / COLUMNS_PER_BUCKET) * COLUMNS_PER_BUCKET;
}

/** Copies row `rowIndex` of a `present` tensor [layers, 2, rows, heads, columns, head size] into a cache of its own. */
export function cacheFromPresent(
  facts: ModelFacts,
  present: { readonly data: Float32Array; readonly rowCount: number; readonly columns: number; readonly rowIndex: number },
): KeyValueCache {
  const { headSize, keyValueHeadCount } = facts;
  const capacity = bucketOf(present.columns);
  const data = new Float32Array(blockCount(facts) * capacity * headSize);
  for (let block = 0; block < blockCount(facts); block++) {
    const source = blockOffset(block, present.rowIndex, present.rowCount, keyValueHeadCount) * present.columns * headSize;
    data.set(present.data.subarray(source, source + present.columns * headSize), block * capacity * headSize);
  }
  return { length: present.columns, capacity, data };
}

/** Lays caches of one bucket side by side as `past`, right-aligned in `columns`; what is left of a row stays as it was and is masked. */
export function gatherPast(facts: ModelFacts, caches: readonly KeyValueCache[], columns: number, past: Float32Array): void {
  const { headSize, keyValueHeadCount } = facts;
  assert(past.length === blockCount(facts) * caches.length * columns * headSize, 'past has the size of its shape');
  caches.forEach((cache, rowIndex) => {
    assert(cache.length <= columns, 'a cache fits its bucket');
    for (let block = 0; block < blockCount(facts); block++) {
      const source = block * cache.capacity * headSize;
      const target = (blockOffset(block, rowIndex, caches.length, keyValueHeadCount) * columns + columns - cache.length) * headSize;
      past.set(cache.data.subarray(source, source + cache.length * headSize), target);
    }
  });
}

/** Appends the last column of each row of `present` to that row's cache. */
export function appendColumns(facts: ModelFacts, caches: readonly KeyValueCache[], columns: number, present: Float32Array): void {
  const { headSize, keyValueHeadCount } = facts;
  caches.forEach((cache, rowIndex) => {
    if (cache.length === cache.capacity) grow(facts, cache);
    for (let block = 0; block < blockCount(facts); block++) {
      const source = (blockOffset(block, rowIndex, caches.length, keyValueHeadCount) * columns + columns - 1) * headSize;
      cache.data.set(present.subarray(source, source + headSize), (block * cache.capacity + cache.length) * headSize);
    }
    cache.length += 1;
  });
}

/** A tensor has its rows between (layer, key or value) and head; a cache has not. */
function blockOffset(block: number, rowIndex: number, rowCount: number, headCount: number): number {
  return (Math.floor(block / headCount) * rowCount + rowIndex) * headCount + (block % headCount);
}

function grow(facts: ModelFacts, cache: KeyValueCache): void {
  const { headSize } = facts;
  const capacity = cache.capacity + COLUMNS_PER_BUCKET;
  const data = new Float32Array(blockCount(facts) * capacity * headSize);
  for (let block = 0; block < blockCount(facts); block++) {
    const source = block * cache.capacity * headSize;
    data.set(cache.data.subarray(source, source + cache.length * headSize), block * capacity * headSize);
  }
  cache.capacity = capacity;
  cache.data = data;
}
