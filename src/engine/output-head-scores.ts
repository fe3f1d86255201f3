import { assert } from '../core/assert.ts';
import type { OutputHead } from './output-head.ts';

/** What the head says after one state. */
export interface HeadScores {
  /** One for each candidate token: log of its probability over the whole vocabulary. */
  readonly logProbs: readonly number[];
  /** One for each candidate: how many other tokens are likelier. */
  readonly ranks: readonly number[];
  /** Of the distribution, in nats. A state that belongs here is right as often as it is sure. */
  readonly entropy: number;
}

export interface ScoreOptions {
  readonly signal?: AbortSignal;
  readonly onProgress?: (rows: number, vocabulary: number) => void;
}

/** Of the matrix, as float64: what is held of it, whatever the model's size. */
const PIECE_BYTES = 8 * 1024 * 1024;

/**
 * The whole softmax after each state, over the vocabulary in pieces. Memory: the states, and one piece of the matrix.
 *
 * @param states row-major, `head.width` values each
 * @param candidates as many token ids for each state
 */
export async function scoreStates(
  head: OutputHead,
  states: Float32Array,
  candidates: readonly (readonly number[])[],
  options: ScoreOptions = {},
): Promise<HeadScores[]> {
  const { width, vocabulary } = head;
  const count = candidates.length;
  const each = candidates[0]?.length ?? 0;
  assert(states.length === count * width, 'one state for each list of candidates');
  // float64 throughout: no conversion in the inner loop, and sums that do not depend on their order.
  const wide = Float64Array.from(states);
  const targets = await candidateLogits(head, wide, candidates);
  const flat = Int32Array.from(candidates.flat());
  const sums = {
    top: new Float64Array(count).fill(Number.NEGATIVE_INFINITY),
    mass: new Float64Array(count),
    weighted: new Float64Array(count),
  };
  const ranks = new Int32Array(count * each);
  const pieceRows = Math.max(1, Math.floor(PIECE_BYTES / (width * Float64Array.BYTES_PER_ELEMENT)));
  const piece = new Float64Array(pieceRows * width);
  const logits = new Float64Array(4 * pieceRows);
  for (let from = 0; from < vocabulary; from += pieceRows) {
    options.signal?.throwIfAborted();
    const to = Math.min(vocabulary, from + pieceRows);
    piece.set(await head.readRows(from, to));
    const rows = to - from;
    for (let state = 0; state < count; state += 4) {
      const block = Math.min(4, count - state);
      multiply(wide, state, block, piece, rows, width, logits);
      for (let k = 0; k < block; k += 1) {
        const own = logits.subarray(k * rows, (k + 1) * rows);
        finishLogits(head, own, from);
        take(own, from, state + k, each, sums, targets, flat, ranks);
      }
    }
    options.onProgress?.(to, vocabulary);
  }
  return candidates.map((_, state) => {
    const top = sums.top[state] ?? 0;
    const mass = sums.mass[state] ?? 1;
    const logSum = top + Math.log(mass);
    const at = state * each;
    return {
      logProbs: [...targets.subarray(at, at + each)].map((logit) => logit - logSum),
      ranks: [...ranks.subarray(at, at + each)],
      entropy: logSum - (sums.weighted[state] ?? 0) / mass,
    };
  });
}

/** Logits of four states (or of the last few) for `rows` rows of the matrix: `out[k * rows + row]`. */
function multiply(
  states: Float64Array,
  first: number,
  block: number,
  matrix: Float64Array,
  rows: number,
  width: number,
  out: Float64Array,
): void {
  const x0 = first * width;
  // A block that is not full computes its first state again.
  const x1 = block > 1 ? x0 + width : x0;
  const x2 = block > 2 ? x0 + 2 * width : x0;
  const x3 = block > 3 ? x0 + 3 * width : x0;
  // Two rows at once: eight sums that do not wait for each other. A last odd row is computed twice.
  for (let row = 0; row < rows; row += 2) {
    const next = Math.min(row + 1, rows - 1);
    const v = row * width;
    const w = next * width;
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    let e = 0;
    let f = 0;
    let g = 0;
    let h = 0;
    for (let i = 0; i < width; i += 1) {
      const p = matrix[v + i] as number;
      const q = matrix[w + i] as number;
      const s0 = states[x0 + i] as number;
      const s1 = states[x1 + i] as number;
      const s2 = states[x2 + i] as number;
      const s3 = states[x3 + i] as number;
      a += p * s0;
      b += p * s1;
      c += p * s2;
      d += p * s3;
      e += q * s0;
      f += q * s1;
      g += q * s2;
      h += q * s3;
    }
    out[row] = a;
    out[rows + row] = b;
    out[2 * rows + row] = c;
    out[3 * rows + row] = d;
    out[next] = e;
    out[rows + next] = f;
    out[2 * rows + next] = g;
    out[3 * rows + next] = h;
  }
}

/** Bias and cap. */
function finishLogits({ bias, softcap }: OutputHead, logits: Float64Array, from: number): void {
  if (bias !== null) for (let row = 0; row < logits.length; row += 1) logits[row] = (logits[row] as number) + (bias[from + row] ?? 0);
  if (softcap !== null)
    for (let row = 0; row < logits.length; row += 1) logits[row] = softcap * Math.tanh((logits[row] as number) / softcap);
}

/** The logits of the candidates alone, each row of the matrix read once. */
async function candidateLogits(head: OutputHead, states: Float64Array, candidates: readonly (readonly number[])[]): Promise<Float64Array> {
  const { width } = head;
  const each = candidates[0]?.length ?? 0;
  const places = new Map<number, number[]>();
  candidates.flat().forEach((token, place) => {
    const known = places.get(token);
    if (known === undefined) places.set(token, [place]);
    else known.push(place);
  });
  const logits = new Float64Array(candidates.length * each);
  const one = new Float64Array(1);
  for (const [token, at] of places) {
    const row = Float64Array.from(await head.readRows(token, token + 1));
    for (const place of at) {
      const begin = Math.floor(place / each) * width;
      let sum = 0;
      for (let i = 0; i < width; i += 1) sum += (row[i] as number) * (states[begin + i] as number);
      one[0] = sum;
      finishLogits(head, one, token);
      logits[place] = one[0] as number;
    }
  }
  return logits;
}

interface Sums {
  readonly top: Float64Array;
  readonly mass: Float64Array;
  readonly weighted: Float64Array;
}

/** Adds a stretch of logits to a state's running softmax, and counts those above its candidates. */
function take(
  logits: Float64Array,
  from: number,
  state: number,
  each: number,
  sums: Sums,
  targets: Float64Array,
  tokens: Int32Array,
  ranks: Int32Array,
): void {
  let top = sums.top[state] as number;
  let mass = sums.mass[state] as number;
  let weighted = sums.weighted[state] as number;
  for (let row = 0; row < logits.length; row += 1) {
    const logit = logits[row] as number;
    if (logit > top) {
      const scale = Math.exp(top - logit);
      mass *= scale;
      weighted *= scale;
      top = logit;
    }
    const part = Math.exp(logit - top);
    mass += part;
    weighted += part * logit;
  }
  sums.top[state] = top;
  sums.mass[state] = mass;
  sums.weighted[state] = weighted;
  for (let k = state * each; k < (state + 1) * each; k += 1) {
    const target = targets[k] as number;
    const token = tokens[k] as number;
    let above = 0;
    for (let row = 0; row < logits.length; row += 1) if ((logits[row] as number) > target && from + row !== token) above += 1;
    ranks[k] = (ranks[k] as number) + above;
  }
}
