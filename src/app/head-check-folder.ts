import { resolve } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { shellLine } from '../core/shell-line.ts';
import type { Dataset } from '../dataset/dataset.ts';
import { openDataset } from '../dataset/open-dataset.ts';
import { parseModelConfig } from '../engine/model-config.ts';
import type { FileReader, Host } from '../host/host.ts';
import { detectLayout } from '../store/detect.ts';
import { createStoreReader } from '../store/reader.ts';
import type { Layout, StoredSample, StoreReader } from '../store/store.ts';
import { type HeadCheckOptions, type HeadCheckReport, type HeadSample, headCheck } from './head-check.ts';
import { seededUniform } from './head-check-random.ts';
import { lastStateOf, readStates } from './head-check-states.ts';
import { encoderIfAny } from './run-inputs.ts';

export interface FolderHeadCheckOptions extends Omit<HeadCheckOptions, 'seed'> {
  /** The target's folder: config.json and safetensors. */
  readonly model: string;
  /** The rows that the files belong to; null asks for the ids that the files hold themselves. */
  readonly dataset: string | null;
  /** Files to look at, spread over the tree. Default 48. */
  readonly files?: number;
  /** Default: from the host's generator; the report says which. */
  readonly seed?: number;
  /** Default: detected. */
  readonly layout?: Layout;
  readonly cwd: string;
}

export interface FolderHeadCheckReport extends HeadCheckReport {
  readonly folder: string;
  /** Files of samples in the tree; `files` of them were asked. */
  readonly filesThere: number;
  /** Chosen files that could not be asked, and why: an assessment says more. */
  readonly skipped: readonly { readonly path: string; readonly why: string }[];
}

const FILES = 48;
const CONFIG_BYTES_MAX = 4 << 20;
const DEPTH_MAX = 4;

/**
 * The head check over a folder: some files of it, chosen by seed from equal stretches, so that a run of wrong ones is met. Reads only.
 * @throws TidemarkError `no-run` where there are no samples, `model`, `decision-needed`
 */
export async function runHeadCheck(host: Host, folder: string, options: FolderHeadCheckOptions): Promise<FolderHeadCheckReport> {
  const root = resolve(options.cwd, folder);
  const model = resolve(options.cwd, options.model);
  const layout = options.layout ?? (await detectLayout(host.files, root));
  const seed = options.seed ?? new DataView(host.randomBytes(4).buffer).getUint32(0) >>> 1;
  const all = await samplesIn(host.files, root, layout);
  if (all.length === 0)
    throw new TidemarkError('no-run', `${root} holds no samples of the layout ${layout.pattern}`, {
      where: root,
      hint: shellLine(['tidemark', 'assess', root]),
    });
  const width = await widthOf(host.files, model);
  const dataset = options.dataset === null ? null : await openRows(host.files, resolve(options.cwd, options.dataset), model);
  const skipped: { path: string; why: string }[] = [];
  try {
    const reading = { store: createStoreReader(host.files, root, layout), dataset, width, skipped };
    const report = await headCheck(host.files, model, samplesOf(reading, spread(all, options.files ?? FILES, seed)), { ...options, seed });
    return { ...report, folder: root, filesThere: all.length, skipped };
  } finally {
    await dataset?.close();
  }
}

interface SampleFile {
  readonly path: string;
  /** Null where the name does not tell it. */
  readonly row: number | null;
}

/** All files of samples, in the order of their rows. */
async function samplesIn(files: FileReader, root: string, layout: Layout): Promise<SampleFile[]> {
  const found: SampleFile[] = [];
  const walk = async (folder: string, depth: number): Promise<void> => {
    for (const entry of (await files.list(folder === '' ? root : `${root}/${folder}`)) ?? []) {
      if (!entry.openable || entry.name.startsWith('.')) continue;
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
      if (entry.kind === 'directory' && depth < DEPTH_MAX) await walk(path, depth + 1);
      if (entry.kind !== 'file') continue;
      const name = layout.parse(folder, entry.name);
      if (name.kind === 'sample' && name.inPlace) found.push({ path, row: name.index });
      else if (name.kind === 'unplaced') found.push({ path, row: null });
    }
  };
  await walk('', 0);
  return found.sort((a, b) => (a.row ?? 0) - (b.row ?? 0) || (a.path < b.path ? -1 : 1));
}

/** One of each of `count` equal stretches. */
function spread<T>(items: readonly T[], count: number, seed: number): T[] {
  const uniform = seededUniform(seed);
  const most = Math.min(count, items.length);
  return Array.from({ length: most }, (_, at) => {
    const from = Math.floor((at * items.length) / most);
    const to = Math.floor(((at + 1) * items.length) / most);
    return items[from + Math.floor(uniform() * (to - from))];
  }).filter((item) => item !== undefined);
}

interface Reading {
  readonly store: StoreReader;
  readonly dataset: Dataset | null;
  readonly width: number;
  readonly skipped: { path: string; why: string }[];
}

async function* samplesOf(reading: Reading, chosen: readonly SampleFile[]): AsyncGenerator<HeadSample> {
  for (const file of chosen) {
    const skip = (why: string): void => {
      reading.skipped.push({ path: file.path, why });
    };
    const opened = await reading.store.openAt(file.path);
    if (opened === null) skip('it has just gone');
    else if (!opened.ok) skip(`${opened.damage.kind}: ${opened.damage.detail}`);
    else {
      try {
        const sample = await headSample(reading, file, opened.sample);
        if (typeof sample === 'string') skip(sample);
        else yield sample;
      } finally {
        await opened.sample.close();
      }
    }
  }
}

/** A text says why the file cannot be asked. */
async function headSample(reading: Reading, file: SampleFile, sample: StoredSample): Promise<HeadSample | string> {
  const ids = await sample.readIds();
  if (!ids.ok) return `${ids.damage.kind}: ${ids.damage.detail}`;
  if (reading.store.layout.codec === 'torch-gzip') {
    // Only a stream that was inflated to its end tells where its tensors are.
    const checked = await sample.checkBytes();
    if (!checked.ok) return `${checked.damage.kind}: ${checked.damage.detail}`;
  }
  const last = lastStateOf(sample.tensors, ids.value.inputIds.length, reading.width);
  if (typeof last === 'string') return last;
  const { inputIds, lossMask } = (await rowOf(reading.dataset, file, ids.value.inputIds.length)) ?? ids.value;
  return { path: file.path, inputIds, lossMask, readLast: (places) => readStates(sample.source, last, places) };
}

/** The row's own ids, where a dataset is there and has the row; a file may be longer by its padding, and never shorter. */
async function rowOf(
  dataset: Dataset | null,
  { row }: SampleFile,
  tokens: number,
): Promise<{ inputIds: Uint32Array; lossMask: Uint8Array } | null> {
  if (dataset === null || row === null || row >= dataset.rows || dataset.table.at(row) === null) return null;
  const { inputIds, lossMask } = await dataset.read(row);
  return inputIds.length <= tokens ? { inputIds, lossMask } : null;
}

async function openRows(files: FileReader, path: string, model: string): Promise<Dataset> {
  const { encoder, encoderProblem } = await encoderIfAny(files, model);
  return openDataset(files, path, { encoder, ...(encoderProblem === null ? {} : { encoderProblem }), maxTokens: null });
}

async function widthOf(files: FileReader, model: string): Promise<number> {
  const where = `${model}/config.json`;
  const real = await files.realPath(where);
  const bytes = real === null ? null : await files.readSmall(real, CONFIG_BYTES_MAX);
  if (bytes === null)
    throw new TidemarkError('model', `the model ${model} has no config.json`, { where, hint: 'give the folder of the target with --head' });
  return parseModelConfig(bytes, where).hiddenSize;
}
