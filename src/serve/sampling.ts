export interface SamplingOptions {
  /** 0 takes the most likely token (the lowest id on a tie). */
  readonly temperature: number;
  /** Keeps the most likely tokens until their probabilities sum to this; 1 keeps all. */
  readonly topP: number;
  /** Keeps this many tokens; 0 keeps all. */
  readonly topK: number;
  /** The same seed and logits give the same tokens. */
  readonly seed: number;
}

export type Sampler = (logits: Float32Array) => number;

export function createSampler(options: SamplingOptions): Sampler {
  if (options.temperature === 0) return mostLikely;
  const uniform = seededUniform(options.seed);
  return (logits) => draw(logits, options, uniform());
}

function mostLikely(logits: Float32Array): number {
  let best = 0;
  let bestLogit = Number.NEGATIVE_INFINITY;
  logits.forEach((logit, id) => {
    if (logit > bestLogit) {
      best = id;
      bestLogit = logit;
    }
  });
  return best;
}

function draw(logits: Float32Array, options: SamplingOptions, uniform: number): number {
  const highest = logits[mostLikely(logits)] ?? 0;
  let kept = Array.from(logits, (logit, id) => ({ id, weight: Math.exp((logit - highest) / options.temperature) }));
  if (options.topK > 0 || options.topP < 1) {
    kept.sort((a, b) => b.weight - a.weight || a.id - b.id);
    if (options.topK > 0) kept = kept.slice(0, options.topK);
    if (options.topP < 1) kept = kept.slice(0, nucleusCount(kept, options.topP));
  }
  const total = kept.reduce((sum, { weight }) => sum + weight, 0);
  let rest = uniform * total;
  for (const { id, weight } of kept) {
    rest -= weight;
    if (rest < 0) return id;
  }
  return kept.at(-1)?.id ?? 0;
}

/** How many of the sorted tokens reach `topP` together; at least one. */
function nucleusCount(sorted: readonly { readonly weight: number }[], topP: number): number {
  const wanted = topP * sorted.reduce((sum, { weight }) => sum + weight, 0);
  let reached = 0;
  for (const [index, { weight }] of sorted.entries()) {
    reached += weight;
    if (reached >= wanted) return index + 1;
  }
  return sorted.length;
}

/** splitmix32 (public domain): short, and good enough to pick tokens. Both halves of a 53-bit seed count. */
function seededUniform(seed: number): () => number {
  let state = (seed ^ Math.imul(Math.floor(seed / 2 ** 32), 0x9e3779b9)) >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
}
