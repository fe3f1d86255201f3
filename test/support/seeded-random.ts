/** Numbers that depend on the seed alone, so that a failing seed repeats a failure. */
export interface Random {
  /** 0 <= n < 1 */
  fraction(): number;
  /** An integer, 0 <= n < limit. */
  below(limit: number): number;
  chance(probability: number): boolean;
  bytes(length: number): Uint8Array;
}

/** mulberry32: 32 bits of state, good enough for choosing faults, useless for secrets. */
export function seededRandom(seed: number): Random {
  let state = seed | 0;
  function fraction(): number {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  const below = (limit: number) => Math.floor(fraction() * limit);
  return {
    fraction,
    below,
    chance: (probability) => fraction() < probability,
    bytes: (length) => Uint8Array.from({ length }, () => below(256)),
  };
}
