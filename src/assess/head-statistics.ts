/** By how many tokens stored states may stand off: a state at place t that is really that of place t + shift. */
export const SHIFTS: readonly number[] = [-2, -1, 0, 1, 2];

/** What the head says after one state, with the logs of probabilities of the tokens that each shift would make the next one. */
export interface PositionScores {
  /** In the order of `SHIFTS`. */
  readonly logProbs: readonly number[];
  /** Of a token that follows another state: what chance gives, frequent tokens included. */
  readonly shuffled: number;
  /** The true next token is the likeliest. */
  readonly top1: boolean;
  readonly entropy: number;
}

export interface HeadPosition {
  /** Relative to the folder. */
  readonly path: string;
  readonly stored: PositionScores;
  readonly normed: PositionScores;
  /** Root mean square of the state once the norm's own weight is taken out: 1 behind the norm, whatever the state. Null where it cannot be told. */
  readonly undone: number | null;
  readonly zero: boolean;
  readonly finite: boolean;
}

export type HeadVerdict = 'post-norm' | 'pre-norm' | 'does-not-predict' | 'shifted';

export interface HeadJudgement {
  readonly verdict: HeadVerdict;
  /** Of `shifted`; 0 otherwise. */
  readonly shift: number;
  /** Whether what predicts best are the states as they are, or normed. */
  readonly norm: 'post-norm' | 'pre-norm';
  readonly detail: string;
}

export interface HeadOutlier extends HeadJudgement {
  readonly path: string;
  readonly positions: number;
  readonly meanLogProb: number;
  readonly meanShuffled: number;
}

/** Standard errors that a gain over chance must be above zero: one false alarm of a hundred thousand checks. */
const GAIN_ERRORS_MIN = 5;
/** Nats over chance that states of the right place give at the very least. */
const GAIN_MIN = 0.5;
/** Standard errors by which another reading of the same states must be better to be believed. */
const BETTER_ERRORS_MIN = 4;
const BETTER_MIN = 0.05;
/** Nats by which a target may be surer than right on text that is not its own. States of a lower layer, or scaled ones, are far beyond it. */
const OVERSURE_MAX = 2;
/**
 * Loss beyond which a model's own answers are no explanation. A layer near the last predicts a little and is honest about how little,
 * so that only this number tells it from a model on hard text.
 */
const LOSS_OF_OWN_ANSWERS_MAX = 1.5;
/** A file is told apart when its gain is below this share of the usual file's. */
const OUTLIER_SHARE = 0.25;
/** How far from 1 the root mean square of normed states may be: bfloat16 alone leaves it within 0.0001, a noisy copy within 0.01. */
const UNDONE_SLACK = 0.05;
const ZERO_SHIFT = SHIFTS.indexOf(0);

interface Reading {
  readonly norm: 'post-norm' | 'pre-norm';
  readonly place: number;
  readonly logProbs: readonly number[];
  readonly mean: number;
}

/** Which reading of the states predicts the rows' next tokens, if any does. Pure: the same numbers, the same words. */
export function judgePositions(positions: readonly HeadPosition[]): HeadJudgement {
  const readings = readingsOf(positions);
  const hinted = normHint(positions) ?? 'post-norm';
  const plain = readings.find(({ norm, place }) => norm === hinted && place === ZERO_SHIFT);
  if (plain === undefined || positions.length === 0) return none(hinted, 'no positions');
  // The states at their own place, in the norm that their size tells, unless another reading is clearly better: ties say nothing against it.
  let best = plain;
  for (const reading of readings) if (reading.mean > best.mean && clearlyBetter(reading, plain)) best = reading;
  // At another place the norm is still the one that their size tells, if it explains them about as well.
  const sized = readings.find(({ norm, place }) => norm === hinted && place === best.place) ?? best;
  if (!clearlyBetter(best, sized)) best = sized;
  const shuffled = positions.map((position) => scoresOf(position, best.norm).shuffled);
  const gain = paired(best.logProbs, shuffled);
  if (gain.mean < GAIN_MIN || gain.mean < GAIN_ERRORS_MIN * gain.error) {
    const zero = positions.filter((position) => position.zero).length;
    const lost = positions.filter((position) => !position.finite).length;
    const why = zero + lost > 0 ? `; ${zero} states are all zero, ${lost} have values that are not finite` : '';
    return none(best.norm, `the next tokens are as likely as shuffled ones (${nats(gain.mean)} apart)${why}`);
  }
  const entropy = meanOf(positions.map((position) => scoresOf(position, best.norm).entropy));
  const oversure = -best.mean - entropy;
  if (oversure > OVERSURE_MAX) {
    return none(
      best.norm,
      `they predict a little, and are ${nats(oversure)} surer than right: states of another layer, or scaled ones, do that`,
    );
  }
  const shift = SHIFTS[best.place] ?? 0;
  if (shift !== 0)
    return {
      verdict: 'shifted',
      shift,
      norm: best.norm,
      detail: `the state at a place is that of the place ${shift > 0 ? '+' : ''}${shift}, ${best.norm}`,
    };
  const low =
    -best.mean > LOSS_OF_OWN_ANSWERS_MAX
      ? `; ${nats(-best.mean)} a token is much for answers of the target itself: if these are, look for a layer below the last`
      : '';
  return {
    verdict: best.norm,
    shift: 0,
    norm: best.norm,
    detail: `the next tokens are ${nats(gain.mean)} likelier than shuffled ones${low}`,
  };
}

/**
 * The norm by the states' own size, which no token can contradict: a model that is sure of itself predicts well from states that
 * are too large. Null where the weight does not tell.
 */
function normHint(positions: readonly HeadPosition[]): 'post-norm' | 'pre-norm' | null {
  const known = positions.filter(({ zero, finite }) => !zero && finite).flatMap(({ undone }) => (undone === null ? [] : [undone]));
  if (known.length === 0) return null;
  return Math.abs(median(known) - 1) <= UNDONE_SLACK ? 'post-norm' : 'pre-norm';
}

/** Files whose states do not do what those of the others do. */
export function outliersOf(positions: readonly HeadPosition[], overall: HeadJudgement): HeadOutlier[] {
  const files = new Map<string, HeadPosition[]>();
  for (const position of positions) {
    const known = files.get(position.path);
    if (known === undefined) files.set(position.path, [position]);
    else known.push(position);
  }
  const place = SHIFTS.indexOf(overall.shift);
  const gainsOf = (some: readonly HeadPosition[]): number[] =>
    some.map((position) => {
      const scores = scoresOf(position, overall.norm);
      return (scores.logProbs[place] ?? 0) - scores.shuffled;
    });
  const usual = median([...files.values()].map((some) => meanOf(gainsOf(some))));
  const outliers: HeadOutlier[] = [];
  for (const [path, some] of files) {
    const gain = meanOf(gainsOf(some));
    const own = judgeFile(some, overall);
    const unlike = overall.verdict !== 'does-not-predict' && usual > GAIN_MIN && gain < usual * OUTLIER_SHARE;
    const dead = some.filter((position) => position.zero || !position.finite).length * 2 > some.length;
    if (own === null && !unlike && !dead) continue;
    outliers.push({
      path,
      positions: some.length,
      meanLogProb: meanOf(some.map((position) => scoresOf(position, overall.norm).logProbs[ZERO_SHIFT] ?? 0)),
      meanShuffled: meanOf(some.map((position) => scoresOf(position, overall.norm).shuffled)),
      ...(own ??
        none(
          overall.norm,
          dead
            ? 'its states are zero or not finite'
            : `its next tokens are ${nats(gain)} likelier than shuffled ones, in other files ${nats(usual)}`,
        )),
    });
  }
  return outliers.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Another reading that explains one file better than the one that explains the others; null where none does. */
function judgeFile(positions: readonly HeadPosition[], overall: HeadJudgement): HeadJudgement | null {
  if (positions.every((position) => position.zero || !position.finite)) return null;
  const readings = readingsOf(positions);
  const place = SHIFTS.indexOf(overall.shift);
  const usual = readings.find((reading) => reading.norm === overall.norm && reading.place === place);
  if (usual === undefined || overall.verdict === 'does-not-predict') return null;
  // Its own size may tell another norm than the other files have.
  const hinted = normHint(positions);
  let best = readings.find((reading) => reading.norm === hinted && reading.place === place) ?? usual;
  // One file's few positions: only a large difference counts.
  for (const reading of readings) if (reading.mean > best.mean + 1 && clearlyBetter(reading, usual)) best = reading;
  if (best.norm === overall.norm && best.place === place) return null;
  const shift = SHIFTS[best.place] ?? 0;
  const gain = meanOf(best.logProbs) - meanOf(positions.map((position) => scoresOf(position, best.norm).shuffled));
  if (gain < GAIN_MIN) return null;
  return {
    verdict: shift === 0 ? best.norm : 'shifted',
    shift,
    norm: best.norm,
    detail:
      shift === 0
        ? `its states are ${best.norm}, those of the others ${overall.norm}`
        : `shifted by ${shift}: better by ${nats(best.mean - usual.mean)} a token`,
  };
}

function readingsOf(positions: readonly HeadPosition[]): Reading[] {
  return (['post-norm', 'pre-norm'] as const).flatMap((norm) =>
    SHIFTS.map((_, place) => {
      const logProbs = positions.map((position) => scoresOf(position, norm).logProbs[place] ?? 0);
      return { norm, place, logProbs, mean: meanOf(logProbs) };
    }),
  );
}

/** States that are stored behind the norm are scored as they are; those before it, once they are normed. */
export function scoresOf(position: HeadPosition, norm: 'post-norm' | 'pre-norm'): PositionScores {
  return norm === 'post-norm' ? position.stored : position.normed;
}

function clearlyBetter(reading: Reading, than: Reading): boolean {
  const { mean, error } = paired(reading.logProbs, than.logProbs);
  return mean > BETTER_MIN && mean > BETTER_ERRORS_MIN * error;
}

function paired(a: readonly number[], b: readonly number[]): { readonly mean: number; readonly error: number } {
  const differences = a.map((value, at) => value - (b[at] ?? 0));
  const mean = meanOf(differences);
  const squares = differences.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, error: Math.sqrt(squares / Math.max(1, differences.length - 1) / Math.max(1, differences.length)) };
}

export function meanOf(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function none(norm: 'post-norm' | 'pre-norm', detail: string): HeadJudgement {
  return { verdict: 'does-not-predict', shift: 0, norm, detail };
}

function nats(value: number): string {
  return `${value.toFixed(2)} nats`;
}
