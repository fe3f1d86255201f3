import {
  type HeadOutlier,
  type HeadPosition,
  type HeadVerdict,
  judgePositions,
  meanOf,
  median,
  outliersOf,
  type PositionScores,
  SHIFTS,
  scoresOf,
} from '../assess/head-statistics.ts';
import { TidemarkError } from '../core/errors.ts';
import { strippedLength } from '../core/identity.ts';
import { readTargetModel, type TargetModel } from '../engine/model-files.ts';
import { type OutputHead, openOutputHead } from '../engine/output-head.ts';
import { type HeadScores, scoreStates } from '../engine/output-head-scores.ts';
import { applyFinalNorm, type FinalNorm } from '../format/norm.ts';
import type { FileReader } from '../host/host.ts';
import { seededUniform } from './head-check-random.ts';

/** One stored sample as the check needs it. */
export interface HeadSample {
  /** Of its file, for people: relative to the folder. */
  readonly path: string;
  readonly inputIds: Uint32Array;
  /** One byte a token: places whose next token is the target's own answer are asked first. Null asks any. */
  readonly lossMask: Uint8Array | null;
  /** The stored last states of these places, row-major, in their order. */
  readLast(places: readonly number[]): Promise<Float32Array>;
}

export interface HeadCheckOptions {
  /** Default 256. */
  readonly positions?: number;
  /** Default 8. More files tell more than more places of one. */
  readonly positionsPerFile?: number;
  /** Chooses places; the same seed chooses the same. */
  readonly seed: number;
  readonly signal?: AbortSignal;
  /** Rows of the matrix done, of how many. */
  readonly onProgress?: (done: number, total: number) => void;
}

export interface HeadCheckReport {
  readonly verdict: HeadVerdict;
  /** In tokens, for `shifted`: the state at a place is really that of the place + shift. */
  readonly shift: number;
  readonly detail: string;
  readonly model: string;
  readonly head: { readonly tensor: string; readonly tied: boolean; readonly vocabulary: number };
  readonly seed: number;
  readonly files: number;
  readonly positions: number;
  /** Mean log of the next token's probability, in nats: the states as stored, normed, and as stored with shuffled tokens. */
  readonly meanLogProb: { readonly stored: number; readonly normed: number; readonly shuffled: number };
  /** Mean entropy of what the head says after the better of the two. */
  readonly entropy: number;
  readonly top1: { readonly stored: number; readonly normed: number };
  /** Root mean square without the norm's weight, the median: 1 behind the norm. Null where the weight does not tell. */
  readonly undoneRms: number | null;
  /** By shift: mean log-probability of the better of the two. */
  readonly byShift: readonly { readonly shift: number; readonly meanLogProb: number }[];
  readonly zeroStates: number;
  readonly nonFiniteStates: number;
  readonly perFile: readonly HeadOutlier[];
}

const POSITIONS = 256;
const POSITIONS_PER_FILE = 8;
/** Fewer say nothing. */
const POSITIONS_MIN = 24;
const BEFORE = 1;
const BEHIND = 3;

/**
 * Whether stored last states are the target's, at their places and in which norm: its own final norm and output head must find the
 * row's next tokens likely, against tokens of other places. CPU only; the head's matrix is read in pieces.
 * @throws TidemarkError `model`; `decision-needed` when the samples hold too few places
 */
export async function headCheck(
  files: FileReader,
  modelFolder: string,
  samples: AsyncIterable<HeadSample>,
  options: HeadCheckOptions,
): Promise<HeadCheckReport> {
  const model = await readTargetModel(files, modelFolder);
  const head = await openOutputHead(files, modelFolder, model.hiddenSize);
  try {
    const asked = await collect(samples, model.hiddenSize, head.vocabulary, options);
    if (asked.length < POSITIONS_MIN) {
      throw new TidemarkError(
        'decision-needed',
        `the samples hold ${asked.length} places to ask the head about, and fewer than ${POSITIONS_MIN} say nothing`,
        {
          where: modelFolder,
          hint: 'check a folder with more or longer samples',
        },
      );
    }
    const positions = await scored(head, model, asked, options);
    return reportOf(positions, model, head, options.seed);
  } finally {
    await head.close();
  }
}

interface Asked {
  readonly path: string;
  readonly state: Float32Array;
  /** In the order of SHIFTS. */
  readonly tokens: readonly number[];
}

async function collect(samples: AsyncIterable<HeadSample>, width: number, vocabulary: number, options: HeadCheckOptions): Promise<Asked[]> {
  const wanted = options.positions ?? POSITIONS;
  const perFile = options.positionsPerFile ?? POSITIONS_PER_FILE;
  const uniform = seededUniform(options.seed);
  const asked: Asked[] = [];
  for await (const sample of samples) {
    options.signal?.throwIfAborted();
    const places = choosePlaces(sample, Math.min(perFile, wanted - asked.length), vocabulary, uniform);
    if (places.length === 0) continue;
    const states = await sample.readLast(places);
    if (states.length !== places.length * width) {
      throw new TidemarkError(
        'model',
        `${sample.path} holds states ${states.length / places.length} wide, and the target is ${width} wide`,
        { hint: 'give the model that the states were made with' },
      );
    }
    places.forEach((place, at) => {
      const tokens = SHIFTS.map((shift) => sample.inputIds[place + shift + 1] ?? 0);
      asked.push({ path: sample.path, state: states.slice(at * width, (at + 1) * width), tokens });
    });
    if (asked.length >= wanted) break;
  }
  return asked;
}

/** Places whose neighbours are there for every shift, ascending; those before the target's own tokens first. */
function choosePlaces({ inputIds, lossMask }: HeadSample, most: number, vocabulary: number, uniform: () => number): number[] {
  const length = lossMask === null ? inputIds.length : strippedLength(inputIds, lossMask);
  const usable: number[] = [];
  for (let place = BEFORE; place + BEHIND < length; place += 1) {
    if (SHIFTS.every((shift) => (inputIds[place + shift + 1] ?? vocabulary) < vocabulary)) usable.push(place);
  }
  const answers = lossMask === null ? [] : usable.filter((place) => lossMask[place + 1] === 1);
  const pool = answers.length >= most ? answers : usable;
  const chosen = new Set<number>();
  while (chosen.size < Math.min(most, pool.length)) chosen.add(pool[Math.floor(uniform() * pool.length)] ?? BEFORE);
  return [...chosen].sort((a, b) => a - b);
}

async function scored(head: OutputHead, model: TargetModel, asked: readonly Asked[], options: HeadCheckOptions): Promise<HeadPosition[]> {
  const width = model.hiddenSize;
  const count = asked.length;
  const kept = asked.map(({ state }) => ({ zero: state.every((value) => value === 0), finite: state.every(Number.isFinite) }));
  // First the states as stored, then the same ones normed.
  const states = new Float32Array(2 * count * width);
  asked.forEach(({ state }, at) => {
    if (kept[at]?.finite) states.set(state, at * width);
  });
  states.copyWithin(count * width, 0, count * width);
  applyFinalNorm(model.norm, states.subarray(count * width), width);
  const candidates = asked.map(({ tokens }, at) => [...tokens, shuffledToken(asked, at)]);
  const scores = await scoreStates(head, states, [...candidates, ...candidates], {
    ...(options.signal === undefined ? {} : { signal: options.signal }),
    ...(options.onProgress === undefined ? {} : { onProgress: options.onProgress }),
  });
  return asked.map(({ path, state }, at) => ({
    path,
    stored: scoresAt(scores[at]),
    normed: scoresAt(scores[count + at]),
    undone: undoneRms(model.norm, state),
    zero: kept[at]?.zero ?? false,
    finite: kept[at]?.finite ?? false,
  }));
}

function scoresAt(scores: HeadScores | undefined): PositionScores {
  const logProbs = scores?.logProbs.slice(0, SHIFTS.length) ?? [];
  return {
    logProbs,
    shuffled: scores?.logProbs[SHIFTS.length] ?? 0,
    top1: scores?.ranks[SHIFTS.indexOf(0)] === 0,
    entropy: scores?.entropy ?? 0,
  };
}

/** The next token of a place half the list away, of another file where there is one, and not the same token. */
function shuffledToken(asked: readonly Asked[], at: number): number {
  const own = asked[at]?.tokens[SHIFTS.indexOf(0)];
  for (let step = 0; step < asked.length; step += 1) {
    const other = asked[(at + Math.floor(asked.length / 2) + step) % asked.length]?.tokens[SHIFTS.indexOf(0)];
    if (other !== undefined && other !== own) return other;
  }
  return own ?? 0;
}

/**
 * What a norm leaves behind can be told from the state alone: without its weight, the mean square is 1. Weights near zero would
 * blow up bfloat16's rounding and are left out.
 */
function undoneRms({ kind, weight, bias }: FinalNorm, state: Float32Array): number | null {
  const scale = kind === 'rms-plus-one' ? weight.map((value) => 1 + value) : weight;
  const least = median([...scale].map(Math.abs)) / 10;
  let squares = 0;
  let count = 0;
  for (let at = 0; at < state.length; at += 1) {
    if (Math.abs(scale[at] ?? 0) < least) continue;
    squares += (((state[at] ?? 0) - (bias?.[at] ?? 0)) / (scale[at] ?? 1)) ** 2;
    count += 1;
  }
  return count * 2 < state.length || !Number.isFinite(squares) ? null : Math.sqrt(squares / count);
}

function reportOf(positions: readonly HeadPosition[], model: TargetModel, head: OutputHead, seed: number): HeadCheckReport {
  const judged = judgePositions(positions);
  const own = SHIFTS.indexOf(0);
  const mean = (of: (position: HeadPosition) => number): number => meanOf(positions.map(of));
  const undone = positions.map(({ undone: value }) => value).filter((value) => value !== null);
  return {
    verdict: judged.verdict,
    shift: judged.shift,
    detail: judged.detail,
    model: model.folder,
    head: { tensor: head.tensor, tied: head.tied, vocabulary: head.vocabulary },
    seed,
    files: new Set(positions.map(({ path }) => path)).size,
    positions: positions.length,
    meanLogProb: {
      stored: mean(({ stored }) => stored.logProbs[own] ?? 0),
      normed: mean(({ normed }) => normed.logProbs[own] ?? 0),
      shuffled: mean(({ stored }) => stored.shuffled),
    },
    entropy: mean((position) => scoresOf(position, judged.norm).entropy),
    top1: { stored: mean(({ stored }) => (stored.top1 ? 1 : 0)), normed: mean(({ normed }) => (normed.top1 ? 1 : 0)) },
    undoneRms: undone.length === 0 ? null : median(undone),
    byShift: SHIFTS.map((shift, place) => ({
      shift,
      meanLogProb: mean((position) => scoresOf(position, judged.norm).logProbs[place] ?? 0),
    })),
    zeroStates: positions.filter(({ zero }) => zero).length,
    nonFiniteStates: positions.filter(({ finite }) => !finite).length,
    perFile: outliersOf(positions, judged),
  };
}
