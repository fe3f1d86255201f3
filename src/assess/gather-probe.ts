import { identityOf, strippedLength } from '../core/identity.ts';
import { type Level, levelAtLeast } from '../core/verdict.ts';
import { crc32 } from '../format/crc32.ts';
import type { Damage } from '../format/tensors.ts';
import type { FileReader, FileStat } from '../host/host.ts';
import type { StoredSample, StoreReader } from '../store/store.ts';
import { type Refusal, refusalOf } from './gather-guard.ts';
import { tokensWithoutIds } from './gather-lengths.ts';
import { scanValues, type ValuesSeen } from './gather-values.ts';

/** One file's structure and ids may take so long. */
const OPEN_LIMIT_MS = 30_000;
/** Every byte of one file is allowed to come as slowly as this. */
const SLOWEST_BYTES_PER_MS = 4096;

/**
 * What one file's own bytes say, as plain data: no row, no dataset and no journal is needed to make it, so another process may
 * (probers.ts). gather-rows.ts turns it into a row's facts.
 */
export interface FileProbe {
  /** null when nothing is there, or the machine would not say. */
  readonly stat: ProbeStat | null;
  /** The machine's or our own refusal; what was read until then stands. */
  readonly refusal: Refusal | null;
  /** Why it could not be opened as a sample. */
  readonly damage: Damage | null;
  /** null where the level opens nothing, or it could not be opened. */
  readonly sample: SampleProbe | null;
}

/** What a file's inode says of it. */
export type ProbeStat = Pick<FileStat, 'kind' | 'bytes' | 'allocatedBytes' | 'modifiedMs' | 'changedMs' | 'device' | 'inode'>;

export interface SampleProbe {
  /** False when the writer switched checksums off. */
  readonly provable: boolean;
  /** How its tensors do not fit the layout, or null. */
  readonly misfit: string | null;
  /** Tokens that it must hold where it has no ids and fits in all else. */
  readonly tokensWithoutIds: number | null;
  /** Dtype, rank and width of its states in words: equal words are equal shapes. */
  readonly shape: string;
  /** How many records its directory has, and the CRC-32 over their own CRC-32 in file order (`recordsCrc32`). */
  readonly recordCount: number;
  readonly recordsCrc32: number;
  readonly ids: IdsProbe | null;
  readonly bytes: { readonly crc32: number } | { readonly damage: Damage } | null;
  readonly values: ValuesSeen | null;
}

export type IdsProbe =
  | { readonly damage: Damage }
  | {
      readonly tokens: number;
      readonly identity: string;
      /** Without right padding. */
      readonly strippedTokens: number;
      readonly stripped: string;
    };

export interface ProbeTools {
  readonly files: FileReader;
  readonly store: StoreReader;
  /** Bounds each step in time; a process that may be killed needs no bound of its own. */
  readonly limit: <T>(what: string, limitMs: number, work: () => Promise<T>) => Promise<T>;
}

type Building = { -readonly [K in keyof FileProbe]: FileProbe[K] };
type BuildingSample = { -readonly [K in keyof SampleProbe]: SampleProbe[K] };

/**
 * Reads one file as deep as the level asks. What the machine refuses is part of the answer.
 * @param path relative to the store's folder
 * @throws only for trouble that is no refusal
 */
export async function probeFile(tools: ProbeTools, path: string, level: Level): Promise<FileProbe> {
  const { files, store, limit } = tools;
  const full = `${store.folder}/${path}`;
  const probe: Building = { stat: null, refusal: null, damage: null, sample: null };
  try {
    if (!levelAtLeast(level, 'structure')) {
      probe.stat = await limit(`looking at ${full}`, OPEN_LIMIT_MS, () => files.stat(full));
      return probe;
    }
    const opened = await limit(`opening ${full}`, OPEN_LIMIT_MS, () => store.openAt(path));
    if (opened === null) return probe;
    probe.stat = opened.stat;
    if (!opened.ok) {
      probe.damage = opened.damage;
      return probe;
    }
    const building = shapeOf(opened.sample, store);
    probe.sample = building;
    const limitMs = OPEN_LIMIT_MS + (levelAtLeast(level, 'checksum') ? opened.stat.bytes / SLOWEST_BYTES_PER_MS : 0);
    await limit(`reading ${full}`, limitMs, () => readSample(opened.sample, store, level, building));
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal === null) throw error;
    probe.refusal = refusal;
    // What may not be opened may still be looked at; a mount that does not answer is not asked again.
    if (probe.stat === null && refusal.reason === 'permission') probe.stat = await files.stat(full).catch(() => null);
  }
  return probe;
}

function shapeOf(sample: StoredSample, store: StoreReader): BuildingSample {
  const { layout } = store;
  // The row's own length is left out: a file of another row has another length, which is drift and not the engine's fault.
  // Only the ids tell the two apart, and below the identity level they are not read.
  const misfit = layout.misfit(sample.tensors, { tokens: null, width: null, auxiliaryLayers: null });
  const parts = layout.stateTensors.map((name) => {
    const tensor = sample.tensors.get(name);
    return tensor === undefined ? `${name} -` : `${name} ${tensor.dtype} rank ${tensor.shape.length} x${tensor.shape.at(-1) ?? 0}`;
  });
  return {
    provable: sample.provable,
    misfit,
    tokensWithoutIds: misfit === null ? null : tokensWithoutIds(layout, sample.tensors),
    shape: parts.join(', '),
    recordCount: sample.records.length,
    recordsCrc32: recordsCrc32(sample.records.map((record) => record.crc32)),
    ids: null,
    bytes: null,
    values: null,
  };
}

/** One number for the records' checksums: little-endian, four bytes each. */
export function recordsCrc32(records: readonly number[]): number {
  const bytes = new DataView(new ArrayBuffer(4 * records.length));
  for (let at = 0; at < records.length; at += 1) bytes.setUint32(4 * at, records[at] ?? 0, true);
  return crc32(new Uint8Array(bytes.buffer));
}

/** Each step only where the one before leaves something to ask. */
async function readSample(sample: StoredSample, store: StoreReader, level: Level, into: BuildingSample): Promise<void> {
  try {
    if (levelAtLeast(level, 'identity')) into.ids = await readIds(sample);
    const torn = into.ids !== null && 'damage' in into.ids && into.ids.damage.kind === 'torn' && into.misfit === null;
    if (torn || !levelAtLeast(level, 'checksum')) return;
    const checked = await sample.checkBytes();
    into.bytes = checked.ok ? { crc32: checked.crc32 } : { damage: checked.damage };
    if (level !== 'content' || !checked.ok) return;
    // In the order of the file: an inflated one cannot be read backwards.
    const place = (name: string): number => sample.tensors.get(name)?.fileOffset ?? 0;
    into.values = await scanValues(
      sample,
      [...store.layout.stateTensors].sort((a, b) => place(a) - place(b)),
    );
  } finally {
    await sample.close();
  }
}

async function readIds(sample: StoredSample): Promise<IdsProbe> {
  const read = await sample.readIds();
  if (!read.ok) return { damage: read.damage };
  const { inputIds, lossMask } = read.value;
  const identity = identityOf(inputIds);
  // SpecForge pads a row to the longest of its batch: id 0 under mask 0 behind the row's own ids is no damage.
  const strippedTokens = lossMask === null ? inputIds.length : strippedLength(inputIds, lossMask);
  const stripped = strippedTokens === inputIds.length ? identity : identityOf(inputIds.subarray(0, strippedTokens));
  return { tokens: inputIds.length, identity, strippedTokens, stripped };
}
