import { dirname, isAbsolute, relative, resolve } from 'node:path';
import { isTidemarkError, messageOf, TidemarkError } from '../core/errors.ts';
import { defaultAuxiliaryLayers } from '../core/layers.ts';
import { counted, formatBytes, formatCount } from '../core/units.ts';
import { printable } from '../dataset/jsonl.ts';
import { openConversationEncoder } from '../dataset/tokenizer.ts';
import type { ModelConfig } from '../engine/model-config.ts';
import type { Host } from '../host/host.ts';
import { CONFIG_NAME, DEFAULTS } from './config.ts';
import { formatDuration, formatSize } from './config-units.ts';
import { askServer, type DatasetSample, readModelShape, type ServerFacts, sampleDataset } from './init-inspect.ts';

export interface InitOptions {
  /** As typed; what is null becomes a commented line to fill in. Paths are taken from `cwd`. */
  readonly model: string | null;
  readonly dataset: string | null;
  readonly url: string | null;
  readonly output: string | null;
  /** The file to write; null is `tidemark.yaml` in `cwd`. */
  readonly path: string | null;
  readonly cwd: string;
}

export interface InitResult {
  readonly path: string;
  readonly text: string;
  /** What was found, one line each, for the operator to read. */
  readonly found: readonly string[];
}

/**
 * Writes a commented configuration after a look at the model folder, the first rows of the dataset and the server. What cannot be
 * seen is said in a comment; it never stops the file from being written. An existing file is never replaced.
 */
export async function writeInitialConfig(host: Host, options: InitOptions, signal?: AbortSignal): Promise<InitResult> {
  const path = resolve(options.cwd, options.path ?? CONFIG_NAME);
  if ((await host.files.stat(path)) !== null) throw taken(path);
  const at = (name: string): string => resolve(options.cwd, name);
  const shape = options.model === null ? null : await orWhy(readModelShape(host.files, at(options.model)));
  const encoder = options.model === null ? null : await orWhy(openConversationEncoder(host.files, at(options.model)));
  const sample =
    options.dataset === null
      ? null
      : await orWhy(sampleDataset(host.files, at(options.dataset), typeof encoder === 'string' ? null : encoder));
  const server = options.url === null ? null : await askServer(host.http, rootOf(options.url), signal);
  signal?.throwIfAborted();

  const facts = { model: modelLine(shape), dataset: datasetLine(sample), server: serverLine(server), size: sizeLine(shape, sample) };
  const written = (name: string): string => fromConfig(at(name), dirname(path));
  const text = configText({
    model: options.model === null ? null : written(options.model),
    dataset: options.dataset === null ? null : written(options.dataset),
    output: options.output === null ? null : written(options.output),
    url: options.url,
    layers: typeof shape === 'string' || shape === null ? null : shape.layerCount,
    facts,
  });
  await create(host, path, text);
  return { path, text, found: [facts.model, facts.dataset, facts.server, facts.size].filter((line) => line !== null) };
}

async function create(host: Host, path: string, text: string): Promise<void> {
  await host.files.makeDirectory(dirname(path));
  const file = await host.files.create(path, 0o644).catch(async (error: unknown) => {
    throw (await host.files.stat(path)) === null ? error : taken(path);
  });
  try {
    await file.write(Buffer.from(text, 'utf8'));
    await file.sync();
  } finally {
    await file.close();
  }
  await host.files.syncDirectory(dirname(path));
}

function taken(path: string): TidemarkError {
  return new TidemarkError('config', `${path} exists already, and nothing was written`, {
    where: path,
    hint: 'edit it, or name another file: tidemark init FILE',
  });
}

/** What was seen, or why it was not, in words; an interruption is neither. */
async function orWhy<T>(promise: Promise<T>): Promise<T | string> {
  return promise.catch((error: unknown) => {
    if (isTidemarkError(error, 'interrupted') || !isTidemarkError(error)) throw error;
    return printable(messageOf(error), 200);
  });
}

function rootOf(url: string): string {
  return url.replace(/\/+$/, '').replace(/\/v1$/, '');
}

function modelLine(shape: ModelConfig | string | null): string | null {
  if (shape === null || typeof shape === 'string') return shape;
  const { architecture, layerCount, hiddenSize, maxPositions } = shape;
  return `model: ${architecture}, ${counted(layerCount, 'layer')}, ${hiddenSize} wide${maxPositions === null ? '' : `, at most ${counted(maxPositions, 'token')}`}`;
}

function datasetLine(sample: DatasetSample | string | null): string {
  if (sample === null) return 'dataset: there is no such file yet';
  if (typeof sample === 'string') return `dataset: ${sample}`;
  const count = sample.counted ? counted(sample.rows, 'row') : `about ${counted(sample.rows, 'row')} (from the length of the first ones)`;
  const tokens =
    sample.longestTokens === 0
      ? ''
      : `; of the first ${sample.sampled} the longest has ${counted(sample.longestTokens, 'token')}, the mean is ${formatCount(sample.meanTokens)}`;
  const bad = sample.firstProblem === null ? '' : `; ${sample.problems} of them cannot be used, ${sample.firstProblem}`;
  return `dataset: ${count} with ${sample.forms.join(' or ') || 'nothing in them'}${tokens}${bad}`;
}

function serverLine(server: ServerFacts | null): string | null {
  if (server === null) return null;
  if (!server.reached) return `server: not reached when this was written (${server.why})`;
  const models = server.models.map(({ id, maxTokens }) => (maxTokens === null ? id : `${id} (at most ${counted(maxTokens, 'token')})`));
  return `server: ${server.version === null ? 'no version told' : `version ${server.version}`}, serves ${models.join(', ') || 'no model'}`;
}

/** Every token costs (auxiliary layers + 1) * width * 2 bytes: better read now than when the disk is full. */
function sizeLine(shape: ModelConfig | string | null, sample: DatasetSample | string | null): string | null {
  if (shape === null || typeof shape === 'string' || sample === null || typeof sample === 'string' || sample.meanTokens === 0) return null;
  const perToken = (defaultAuxiliaryLayers(shape.layerCount).length + 1) * shape.hiddenSize * 2;
  const total = perToken * sample.meanTokens * sample.rows;
  return `size: ${counted(perToken, 'byte')} a token, so about ${formatBytes(total)} in all`;
}

/** Beside or below the configuration a relative path moves with it; anything else is written in full. */
function fromConfig(path: string, folder: string): string {
  const short = relative(folder, path);
  return short === '' || short.startsWith('..') || isAbsolute(short) ? path : short;
}

interface ConfigText {
  readonly model: string | null;
  readonly dataset: string | null;
  readonly output: string | null;
  readonly url: string | null;
  readonly layers: number | null;
  readonly facts: Readonly<Record<'model' | 'dataset' | 'server' | 'size', string | null>>;
}

function configText({ model, dataset, output, url, layers, facts }: ConfigText): string {
  const key = (name: string, value: string | null, example: string): string =>
    value === null ? `# ${name}: ${example}   # needed` : `${name}: ${scalar(value)}`;
  const note = (text: string | null): string => (text === null ? '' : `   # ${text.replace(/^\w+: /, '')}`);
  const { engine, states, layout, limits } = DEFAULTS;
  const defaultLayers = layers === null ? '[2, N/2, N-3] of N layers' : `[${defaultAuxiliaryLayers(layers).join(', ')}]`;
  return `# tidemark: what to extract, from which server, into which folder. Written by tidemark init.
# Paths are taken from this file's folder. Flags of the same meaning stand over it.

# The run folder: one file a sample, and .tidemark/ with what a resume needs.
${key('output', output, './hidden_states')}${note(facts.size)}

# One row a line: input_ids with loss_mask, or messages, or conversations.
${key('dataset', dataset, 'merged.jsonl')}${note(facts.dataset)}

target:
  # The folder with config.json, the weights and the tokenizer.
  ${key('model', model, 'FOLDER')}${note(facts.model)}
  revision: null        # its name, for the record

engine:
  kind: ${engine.kind}
  # Several servers of the same model share the work.
  ${url === null ? '# urls: [http://127.0.0.1:8000]   # needed' : `urls: [${scalar(url)}]`}${note(facts.server)}
  # The folder that the server writes into (its shared_storage_path). What is kept is deleted there.
  staging: /dev/shm/tidemark
  inFlight: ${engine.inFlight}           # requests in flight per server
  timeout: ${formatDuration(engine.timeout)}

states:
  # Boundary numbers: k is the state after k layers. The last hidden state is always added.
  auxiliaryLayers: null # null is EAGLE-3's choice, ${defaultLayers}
  dtype: ${states.dtype}
  maxTokens: ${states.maxTokens}       # rows with more tokens are dropped and counted; null keeps all

layout: {name: ${layout.name}, extension: ${layout.extension}, groupSize: ${layout.groupSize}}

limits:
  attempts: ${limits.attempts}           # tries of one row before it counts as failed
  failureSamples: ${limits.failureSamples}    # failed rows that stop the run, or this share of all, whichever is more
  failureShare: ${limits.failureShare}
  consecutiveFailures: ${limits.consecutiveFailures}
  reserve: ${formatSize(limits.reserve)}         # space to leave free on the volume

fileMode: "0${DEFAULTS.fileMode.toString(8)}"
`;
}

/** Plain where YAML reads it as the same text anywhere, also inside [ ]; else quoted as JSON, which YAML reads too. */
function scalar(text: string): string {
  return /^[A-Za-z./][\w./:@+-]*$/.test(text) && !/^(true|false|null|\.(inf|nan))$/i.test(text) && !text.endsWith(':')
    ? text
    : JSON.stringify(text);
}
