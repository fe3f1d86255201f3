import { isUtf8 } from 'node:buffer';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { LineCounter, parseDocument, type YAMLError, type YAMLWarning } from 'yaml';
import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import { defaultAuxiliaryLayers, type LayerBoundary } from '../core/layers.ts';
import type { Settings } from '../core/settings.ts';
import type { FileReader } from '../host/host.ts';
import { type ConfigOverrides, documentOfOverrides, flagOf } from './config-flags.ts';
import { type ConfigProblem, nameOf, problemsOf } from './config-problems.ts';
import { type ConfigDocument, configSchema } from './config-schema.ts';

export type { ConfigOverrides } from './config-flags.ts';

/** The file that is read when none is named. */
export const CONFIG_NAME = 'tidemark.yaml';
const CONFIG_BYTES_MOST = 1024 * 1024;

/** Settings whose layers may still wait for the model's layer count: null means the default of `resolveLayers`. */
export type UnresolvedSettings = Omit<Settings, 'states'> & {
  readonly states: Omit<Settings['states'], 'auxiliaryLayers'> & { readonly auxiliaryLayers: readonly LayerBoundary[] | null };
};

/** Names of a configuration in those of the files. */
const DTYPES = { bfloat16: 'BF16', float16: 'F16', float32: 'F32' } as const;

/** What a configuration need not say. */
export const DEFAULTS = {
  target: { revision: null },
  engine: { kind: 'vllm', inFlight: 8, timeout: 120_000 },
  states: { auxiliaryLayers: null, dtype: 'bfloat16', maxTokens: null },
  layout: { name: 'specforge', extension: 'ckpt', groupSize: 2000 },
  limits: { attempts: 3, failureSamples: 10, failureShare: 0.001, consecutiveFailures: 16, reserve: 2 ** 30 },
  fileMode: 0o644,
} as const satisfies ConfigDocument;

/**
 * The configuration file, overlaid by flags, with defaults filled in and paths absolute (those of the file from its own folder,
 * those of flags from `cwd`). Rejects with `config`, naming every problem with its line and key.
 * @param path null takes `tidemark.yaml` in `cwd` where there is one, and flags alone where there is none
 */
export async function loadConfig(
  files: FileReader,
  path: string | null,
  overrides: ConfigOverrides,
  cwd: string,
): Promise<UnresolvedSettings> {
  const file = resolve(cwd, path ?? CONFIG_NAME);
  const bytes = await readConfig(files, file, path !== null);
  const shown = shownPath(file, cwd);
  const fromFile = bytes === null ? {} : withPaths(parseConfig(bytes, shown), dirname(file));
  const fromFlags = withPaths(parseOverrides(overrides), cwd);
  return settingsOf(overlaid(fromFile, fromFlags), bytes === null ? null : shown);
}

/** Layers for a model of `layerCount` layers: those that were asked for, checked, or EAGLE-3's default. */
export function resolveLayers(settings: UnresolvedSettings, layerCount: number): Settings {
  const asked = settings.states.auxiliaryLayers;
  const auxiliaryLayers = asked ?? defaultAuxiliaryLayers(layerCount);
  const ascending = auxiliaryLayers.every((layer, at) => layer > (at === 0 ? -1 : (auxiliaryLayers[at - 1] ?? 0)));
  if (!ascending || auxiliaryLayers.some((layer) => layer >= layerCount)) {
    const what =
      asked === null ? `a model of ${layerCount} layers is too shallow for the default` : `they do not fit a model of ${layerCount} layers`;
    throw new TidemarkError('config', `states.auxiliaryLayers [${auxiliaryLayers.join(', ')}] cannot be used: ${what}`, {
      where: 'states.auxiliaryLayers',
      hint: `give ascending boundaries from 0 to ${layerCount - 1} with --layers; ${layerCount}, the last hidden state, is always added`,
    });
  }
  return { ...settings, states: { ...settings.states, auxiliaryLayers } };
}

async function readConfig(files: FileReader, file: string, named: boolean): Promise<Uint8Array | null> {
  let bytes: Uint8Array | null;
  try {
    const real = await files.realPath(file);
    bytes = real === null ? null : await files.readSmall(real, CONFIG_BYTES_MOST);
  } catch (error) {
    if (!isTidemarkError(error)) throw error;
    throw new TidemarkError('config', `the configuration ${file} cannot be read: ${error.message}`, {
      where: file,
      hint: 'give --config a text file of a few kilobytes; tidemark init writes one',
      cause: error,
    });
  }
  if (bytes === null && named) {
    throw new TidemarkError('config', `there is no configuration file ${file}`, { where: file, hint: 'tidemark init writes one' });
  }
  return bytes;
}

function parseConfig(bytes: Uint8Array, shown: string): ConfigDocument {
  if (!isUtf8(bytes)) {
    // Each line by itself: a line feed is never part of a longer UTF-8 character.
    const lines = Buffer.from(bytes).toString('latin1').split('\n');
    const line = lines.findIndex((text) => !isUtf8(Buffer.from(text, 'latin1'))) + 1;
    throw refused(shown, [{ line, text: 'this line is not UTF-8 text' }], 'file and iconv tell and change the encoding');
  }
  const lines = new LineCounter();
  const source = Buffer.from(bytes).toString('utf8');
  // Its warnings are problems here; what it would print by itself has neither place nor remedy.
  const document = parseDocument(source, { lineCounter: lines, prettyErrors: false, uniqueKeys: true, logLevel: 'silent' });
  const broken = [...document.errors, ...document.warnings].map((error) => ({
    line: lines.linePos(error.pos[0]).line,
    text: yamlProblem(error, source),
  }));
  if (broken.length > 0) throw refused(shown, broken);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: 50 }) ?? {};
  } catch (error) {
    throw refused(shown, [{ line: 0, text: error instanceof Error ? error.message : String(error) }]);
  }
  const parsed = configSchema.safeParse(value);
  if (!parsed.success) throw refused(shown, problemsOf(parsed.error.issues, document, lines));
  return parsed.data;
}

/** The library's words are for programmers; the two slips that operators make get words of our own. */
function yamlProblem(error: YAMLError | YAMLWarning, source: string): string {
  if (error.code === 'DUPLICATE_KEY') {
    const key = /^[^:\n]*/.exec(source.slice(error.pos[0]))?.[0].trim() ?? '';
    return `the key ${JSON.stringify(key)} stands twice in one section`;
  }
  if (error.code === 'MULTIPLE_DOCS') return 'a second document begins here (---); one file holds one configuration';
  return sentence(error.message);
}

function sentence(message: string): string {
  return message.replace(/[.\s]+$/, '').replaceAll('\n', ' ');
}

/** A file that is no configuration at all may have thousands. */
const PROBLEMS_SHOWN = 20;
const PROBLEM_CHARACTERS = 300;

function cut(text: string): string {
  return text.length > PROBLEM_CHARACTERS ? `${text.slice(0, PROBLEM_CHARACTERS)}…` : text;
}

function refused(
  shown: string,
  problems: readonly ConfigProblem[],
  hint = 'tidemark init writes a configuration with every key',
): TidemarkError {
  const lines = problems.slice(0, PROBLEMS_SHOWN).map(({ line, text }) => `${shown}${line > 0 ? `:${line}` : ''}: ${cut(text)}`);
  const more = problems.length > lines.length ? [`and ${problems.length - lines.length} more`] : [];
  const where = lines[0]?.slice(0, lines[0].indexOf(': ')) ?? shown;
  const message =
    problems.length === 1
      ? `${lines[0]}`
      : `${shown} has ${problems.length} problems\n${[...lines, ...more].map((line) => `  ${line}`).join('\n')}`;
  return new TidemarkError('config', message, { where, hint });
}

function parseOverrides(overrides: ConfigOverrides): ConfigDocument {
  const parsed = configSchema.safeParse(documentOfOverrides(overrides));
  if (parsed.success) return parsed.data;
  const lines = new Map(parsed.error.issues.map((issue) => [flagOf(issue.path), `${flagOf(issue.path)} must be ${issue.message}`]));
  const all = [...lines.values()];
  throw new TidemarkError(
    'usage',
    all.length === 1 ? `${all[0]}` : `${all.length} flags cannot be used\n${all.map((line) => `  ${line}`).join('\n')}`,
    {
      hint: 'tidemark help extract',
    },
  );
}

function withPaths(document: ConfigDocument, folder: string): ConfigDocument {
  const absolute = (path: string): string => resolve(folder, path);
  return {
    ...document,
    ...(document.output === undefined ? {} : { output: absolute(document.output) }),
    ...(document.dataset === undefined ? {} : { dataset: absolute(document.dataset) }),
    ...(document.target?.model === undefined ? {} : { target: { ...document.target, model: absolute(document.target.model) } }),
    ...(document.engine?.staging === undefined ? {} : { engine: { ...document.engine, staging: absolute(document.engine.staging) } }),
  };
}

/** Section by section, key by key; a list replaces a list. */
function overlaid(base: ConfigDocument, over: ConfigDocument): ConfigDocument {
  return {
    ...base,
    ...over,
    target: { ...base.target, ...over.target },
    engine: { ...base.engine, ...over.engine },
    states: { ...base.states, ...over.states },
    layout: { ...base.layout, ...over.layout },
    limits: { ...base.limits, ...over.limits },
  };
}

function settingsOf(document: ConfigDocument, shown: string | null): UnresolvedSettings {
  const { output, dataset } = document;
  const model = document.target?.model;
  const urls = document.engine?.urls;
  const staging = document.engine?.staging;
  if (output === undefined || dataset === undefined || model === undefined || urls === undefined || staging === undefined) {
    const needed = [['output'], ['dataset'], ['target', 'model'], ['engine', 'urls'], ['engine', 'staging']];
    const values = [output, dataset, model, urls, staging];
    const missing = needed.filter((_, at) => values[at] === undefined).map((path) => `${nameOf(path)} (${flagOf(path)})`);
    throw new TidemarkError('config', `${shown ?? `without a ${CONFIG_NAME}`}: still needed: ${missing.join(', ')}`, {
      ...(shown === null ? {} : { where: shown }),
      hint: shown === null ? 'tidemark init writes a configuration; or give the flags' : 'add the keys, or give the flags',
    });
  }
  refuseOverlap(output, staging);
  const { revision } = { ...DEFAULTS.target, ...document.target };
  const { kind, inFlight, timeout } = { ...DEFAULTS.engine, ...document.engine };
  const { auxiliaryLayers, dtype, maxTokens } = { ...DEFAULTS.states, ...document.states };
  const { reserve, ...limits } = { ...DEFAULTS.limits, ...document.limits };
  return {
    output,
    dataset: { path: dataset },
    target: { model, revision },
    engine: { kind, urls, staging, inFlight, timeoutMs: timeout },
    states: { auxiliaryLayers, dtype: DTYPES[dtype], lastState: 'post-norm', maxTokens },
    layout: { ...DEFAULTS.layout, ...document.layout },
    limits: { ...limits, reserveBytes: reserve },
    fileMode: document.fileMode ?? DEFAULTS.fileMode,
  };
}

/** Files below `staging` are deleted once they are kept, and nothing of the server's may look like ours. */
function refuseOverlap(output: string, staging: string): void {
  const within = (inner: string, outer: string): boolean => inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep);
  if (!within(output, staging) && !within(staging, output)) return;
  throw new TidemarkError(
    'config',
    `engine.staging ${staging} and output ${output} must be apart: what lies below staging is deleted once it is kept`,
    {
      where: 'engine.staging',
      hint: 'give the server a folder of its own, such as /dev/shm/tidemark',
    },
  );
}

function shownPath(file: string, cwd: string): string {
  const short = relative(cwd, file);
  return short === '' || short.startsWith('..') ? file : join(short);
}

/** Settings of a run under the flags of another start. Relative paths are those of `cwd`. Rejects with `usage`. */
export function overlaySettings(settings: Settings, overrides: ConfigOverrides, cwd: string): Settings {
  const flags = withPaths(parseOverrides(overrides), cwd);
  const { timeout, ...engine } = flags.engine ?? {};
  const { reserve, ...limits } = flags.limits ?? {};
  const overlay: Settings = {
    ...settings,
    dataset: { path: flags.dataset ?? settings.dataset.path },
    target: { ...settings.target, ...(flags.target?.model === undefined ? {} : { model: flags.target.model }) },
    engine: { ...settings.engine, ...engine, ...(timeout === undefined ? {} : { timeoutMs: timeout }) },
    limits: { ...settings.limits, ...limits, ...(reserve === undefined ? {} : { reserveBytes: reserve }) },
    fileMode: flags.fileMode ?? settings.fileMode,
  };
  refuseOverlap(overlay.output, overlay.engine.staging);
  return overlay;
}
