import type { RowLookup } from './gathered.ts';

/** The rule by which rows were dealt to ranks: rank r has rows r, r + ranks, …, and numbers them from `starts[r]` on. */
export interface RankRule {
  readonly ranks: number;
  /** null for a rank that has no file. */
  readonly starts: readonly (number | null)[];
  /** How many places of its block each rank has reached: one past the last with a file. */
  readonly reached: readonly number[];
  /** Rows at the end of the ranks' shares that no rank reached although all came equally far: dropped tails, most likely. */
  readonly tail: number;
  /** Batch sizes that explain the tails; powers of two. */
  readonly batches: readonly number[];
}

export interface Numbering {
  /** File number to the row that it holds, for every file of which that is known, ascending by number. Several files may hold one row. */
  readonly holds: ReadonlyMap<number, number>;
  readonly rule: RankRule | null;
  /** File numbers with ids that no row of the dataset has, ascending. */
  readonly strangers: readonly number[];
}

export interface NumberingFacts {
  /** Numbers whose file's ids are those of the row of that number, ascending. */
  readonly matching: readonly number[];
  /** Of the other files whose ids were read, the stripped identity that each holds. */
  readonly otherIds: ReadonlyMap<number, string>;
  /** What they hold (drift.ts); null where no row has these ids. */
  readonly held: ReadonlyMap<number, number | null>;
  /** Of those, the ones that are part of a shift. */
  readonly shifted: ReadonlySet<number>;
  readonly table: RowLookup;
}

/** Fewer drifted files say nothing about a rule. */
const FILES_LEAST = 8;
/** So many of all files must be drifted, so many of those known, and so many of the known different rows. */
const DRIFTED_SHARE = 0.5;
const KNOWN_SHARE = 0.9;
/** Neighbouring files that are one step apart: below that there is no rule. */
const STEP_SHARE = 0.5;
const RULE_SHARE = 0.9;
const RANKS_MOST = 4096;
/** A dropped tail is less than one batch; no batch is larger. */
const BATCH_MOST = 1024;

/**
 * Whether the numbers of a tree are a permutation of the rows: most files hold another row than their number, nearly all of
 * those rows are in the dataset, and no two hold the same. A sampler that deals rows to ranks in turn makes such trees, and so does a
 * dataset that was put into another order afterwards. null when the numbers are row numbers, or shifted ones.
 */
export function numberingOf(facts: NumberingFacts): Numbering | null {
  const { matching, held, shifted, table } = facts;
  const drifted = held.size;
  if (drifted < FILES_LEAST || drifted - shifted.size < (drifted + matching.length) * DRIFTED_SHARE) return null;
  const known = [...held].filter((entry): entry is [number, number] => entry[1] !== null);
  if (known.length < drifted * KNOWN_SHARE || new Set(known.map((entry) => entry[1])).size < known.length * KNOWN_SHARE) return null;
  const holds = new Map<number, number>([...known, ...matching.map((row): [number, number] => [row, row])].sort((a, b) => a[0] - b[0]));
  const strangers = [...held].filter((entry) => entry[1] === null).map((entry) => entry[0]);
  const rule = rankRuleOf(holds, table.rows);
  if (rule !== null) {
    // Equal rows exist: where the rule names one of them, that is the one.
    for (const [number, ids] of facts.otherIds) {
      const row = rowUnder(rule, number, table.rows);
      if (row !== null && table.at(row)?.stripped === ids) holds.set(number, row);
    }
  }
  return { holds, rule, strangers: strangers.sort((a, b) => a - b) };
}

/** The rule behind numbers and the rows they hold; null where there is none. */
export function rankRuleOf(holds: ReadonlyMap<number, number>, rows: number): RankRule | null {
  const ranks = commonStep(holds);
  if (ranks === null || ranks < 2 || ranks > Math.min(RANKS_MOST, rows)) return null;
  const votes = Array.from({ length: ranks }, () => new Map<number, number>());
  for (const [number, row] of holds) {
    const start = number - Math.floor(row / ranks);
    const vote = votes[row % ranks];
    vote?.set(start, (vote.get(start) ?? 0) + 1);
  }
  const starts = votes.map((vote) => mostCommon(vote));
  const reached = new Array<number>(ranks).fill(0);
  let explained = 0;
  for (const [number, row] of holds) {
    const start = starts[row % ranks] ?? null;
    const place = Math.floor(row / ranks);
    if (start === null || number !== start + place) continue;
    explained += 1;
    reached[row % ranks] = Math.max(reached[row % ranks] ?? 0, place + 1);
  }
  if (explained < holds.size * RULE_SHARE) return null;
  return { ranks, starts, reached, ...tailOf(reached, ranks, rows) };
}

/** The distance between the rows of neighbouring files, where one is usual. */
function commonStep(holds: ReadonlyMap<number, number>): number | null {
  const steps = new Map<number, number>();
  let pairs = 0;
  for (const [number, row] of holds) {
    const next = holds.get(number + 1);
    if (next === undefined) continue;
    pairs += 1;
    steps.set(next - row, (steps.get(next - row) ?? 0) + 1);
  }
  const step = mostCommon(steps);
  return step !== null && (steps.get(step) ?? 0) >= pairs * STEP_SHARE ? step : null;
}

function mostCommon(counts: ReadonlyMap<number, number>): number | null {
  let best: number | null = null;
  for (const [value, count] of counts) if (best === null || count > (counts.get(best) ?? 0)) best = value;
  return best;
}

/** Samplers that drop incomplete batches leave every rank short by less than one batch, all of them equally. */
function tailOf(reached: readonly number[], ranks: number, rows: number): Pick<RankRule, 'tail' | 'batches'> {
  const [places = 0] = reached;
  const shares = reached.map((_, rank) => Math.ceil((rows - rank) / ranks));
  const short = Math.min(...shares) - places;
  if (places === 0 || reached.some((count) => count !== places) || short < 0 || short >= BATCH_MOST) return { tail: 0, batches: [] };
  const tail = shares.reduce((sum, share) => sum + share - places, 0);
  if (tail === 0) return { tail: 0, batches: [] };
  const batches: number[] = [];
  for (let batch = 2; batch <= BATCH_MOST; batch *= 2) if (batch > short && places % batch === 0) batches.push(batch);
  return batches.length === 0 ? { tail: 0, batches } : { tail, batches };
}

/**
 * The number that the rule gives a row; null where it gives none. A rank without a file has its place where all others begin as
 * SpecForge's writer has them: blocks of equal size, the first ones longer by the rest.
 */
export function numberUnder(rule: RankRule, row: number, rows: number): number | null {
  const { ranks, starts } = rule;
  const usual = (rank: number): number => rank * Math.floor(rows / ranks) + Math.min(rank, rows % ranks);
  const rank = row % ranks;
  const start = starts[rank] ?? (starts.every((known, at) => known === null || known === usual(at)) ? usual(rank) : null);
  return start === null ? null : start + Math.floor(row / ranks);
}

/** The row that a file of this number holds under the rule; null where the rule says nothing. */
export function rowUnder(rule: RankRule, number: number, rows: number): number | null {
  let best: { rank: number; start: number } | null = null;
  for (const [rank, start] of rule.starts.entries()) {
    if (start !== null && start <= number && (best === null || start > best.start)) best = { rank, start };
  }
  if (best === null) return null;
  const row = best.rank + rule.ranks * (number - best.start);
  return row < rows ? row : null;
}
