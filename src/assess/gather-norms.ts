import { bf16ToFloat32, f16ToFloat32 } from '../format/bf16.ts';
import type { Dtype, TensorInfo } from '../format/tensors.ts';
import type { StoredSample, StoreReader } from '../store/store.ts';
import { type Guard, pooled, refusalOf } from './gather-guard.ts';
import { changeBetween, isSmall, type NormMix, normMixOf, type StateSize } from './norm-mix.ts';

/** Files looked at in all; the rest of the bound is for finding the row where the kind changes. */
const FILES_MOST = 64;
const FILES_SPREAD = 44;
/** Tokens of one file; the first ones are left out, because many models keep huge states there. */
const TOKENS_READ = 5;
const TOKENS_SKIPPED = 4;
const ROW_BYTES_MOST = 256 * 1024;
const LIMIT_MS = 30_000;

export interface NormReading {
  readonly store: StoreReader;
  readonly guard: Guard;
  readonly width: number;
  /** Rows whose files are sound as far as is known, ascending. */
  readonly rows: readonly number[];
  /** The file number of a row. */
  readonly fileOf: (row: number) => number;
}

/**
 * Whether a folder holds last states of two kinds, from a few tokens of at most 64 files spread over it. Reads pieces of one row
 * of states each, whatever the files' size.
 */
export async function gatherNorms(reading: NormReading): Promise<NormMix | null> {
  const { rows } = reading;
  // One gzip stream has to be inflated from its start for a few rows: too dear for a glance.
  if (reading.store.layout.codec === 'torch-gzip') return null;
  const count = Math.min(FILES_SPREAD, rows.length);
  const chosen = Array.from({ length: count }, (_, i) => rows[Math.floor((i * (rows.length - 1)) / Math.max(1, count - 1))] ?? 0);
  const sizes: StateSize[] = [];
  await pooled([...new Set(chosen)], reading.width, async (row) => {
    const rms = await sizeOf(reading, row);
    if (rms !== null) sizes.push({ row, rms });
  });
  const mix = normMixOf(sizes);
  return mix === null ? null : { ...mix, changesAt: await placeOfChange(reading, mix) };
}

/** Halves the stretch in which the kind changes until the row is found or the bound is reached. */
async function placeOfChange(reading: NormReading, mix: NormMix): Promise<number | null> {
  const change = changeBetween(mix);
  if (change === null) return null;
  let before = reading.rows.indexOf(change.before);
  let after = reading.rows.indexOf(change.after);
  for (let files = FILES_SPREAD; files < FILES_MOST && after - before > 1; files += 1) {
    const middle = Math.floor((before + after) / 2);
    const rms = await sizeOf(reading, reading.rows[middle] ?? 0);
    const small = rms === null ? null : isSmall(mix, rms);
    if (small === null) return null;
    if (small === change.smallFirst) before = middle;
    else after = middle;
  }
  return after - before === 1 ? (reading.rows[after] ?? null) : null;
}

/** null where the file cannot be read now or its last states are not told by its shapes. */
async function sizeOf(reading: NormReading, row: number): Promise<number | null> {
  try {
    return await reading.guard.run(`reading states of row ${row}`, LIMIT_MS, async () => {
      const opened = await reading.store.open(reading.fileOf(row));
      if (opened === null || !opened.ok) return null;
      try {
        return await medianSize(opened.sample, reading.store.layout.stateTensors);
      } finally {
        await opened.sample.close();
      }
    });
  } catch (error) {
    if (refusalOf(error) === null) throw error;
    return null;
  }
}

interface LastStates {
  readonly tensor: TensorInfo;
  readonly tokens: number;
  readonly width: number;
  /** Elements from one token's last state to the next, and to the first one. */
  readonly step: number;
  readonly first: number;
}

async function medianSize(sample: StoredSample, names: readonly string[]): Promise<number | null> {
  const last = lastStatesOf(sample, names);
  if (last === null) return null;
  const from = Math.min(TOKENS_SKIPPED, last.tokens - 1);
  const count = Math.min(TOKENS_READ, last.tokens - from);
  const element = ELEMENT_BYTES[last.tensor.dtype] ?? 0;
  if (element === 0 || last.width * element > ROW_BYTES_MOST) return null;
  const sizes: number[] = [];
  for (let i = 0; i < count; i += 1) {
    const token = from + Math.floor((i * (last.tokens - 1 - from)) / Math.max(1, count - 1));
    const at = last.tensor.fileOffset + (last.first + token * last.step) * element;
    const rms = rmsOf(await sample.source.read(at, last.width * element), last.tensor.dtype);
    // Padding is zero; what is not finite is another finding's.
    if (rms > 0 && Number.isFinite(rms)) sizes.push(rms);
  }
  sizes.sort((a, b) => a - b);
  return sizes[Math.floor(sizes.length / 2)] ?? null;
}

/** Names under which tools keep the last state alone; a stack of all layers has it in its last slot. */
const LAST_NAMES = ['hidden_state', 'target_last_hidden_states', 'target_hiddens', 'last_hidden_state'];

function lastStatesOf(sample: StoredSample, names: readonly string[]): LastStates | null {
  const widths = names.flatMap((name) => sample.tensors.get(name)?.shape.at(-1) ?? []);
  const width = Math.min(...widths);
  const alone = LAST_NAMES.map((name) => sample.tensors.get(name)).find((tensor) => tensor?.contiguous === true);
  if (alone !== undefined && alone.shape.at(-1) === width) return { ...plain(alone, width), first: 0, step: width };
  const states = sample.tensors.get('hidden_states');
  if (states === undefined || !states.contiguous || !names.includes('hidden_states')) return null;
  const [, slots = 0] = states.shape;
  // [tokens, layers, width]: speculators and the vLLM connector.
  if (states.shape.length === 3 && slots > 1 && states.shape[0] !== 1) {
    return { tensor: states, tokens: states.shape[0] ?? 0, width, step: slots * width, first: (slots - 1) * width };
  }
  // ModelOpt keeps the last state under this name, beside wider auxiliary ones.
  return widths.length > 1 && states.shape.at(-1) === width && widths.some((other) => other > width)
    ? { ...plain(states, width), first: 0, step: width }
    : null;
}

function plain(tensor: TensorInfo, width: number): { tensor: TensorInfo; tokens: number; width: number } {
  return { tensor, tokens: tensor.shape.reduce((product, length) => product * length, 1) / width, width };
}

const ELEMENT_BYTES: Partial<Record<Dtype, number>> = { BF16: 2, F16: 2, F32: 4 };

function rmsOf(bytes: Uint8Array, dtype: Dtype): number {
  const values = decoded(bytes.slice(), dtype);
  let sum = 0;
  for (const value of values) sum += value * value;
  return Math.sqrt(sum / Math.max(1, values.length));
}

/** @param bytes a copy of their own, so that they begin at an even address */
function decoded(bytes: Uint8Array, dtype: Dtype): Float32Array {
  if (dtype === 'F32') return new Float32Array(bytes.buffer, 0, bytes.length / 4);
  const bits = new Uint16Array(bytes.buffer, 0, bytes.length / 2);
  const values = new Float32Array(bits.length);
  if (dtype === 'BF16') bf16ToFloat32(bits, values);
  else f16ToFloat32(bits, values);
  return values;
}
