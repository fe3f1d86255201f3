/**
 * Flags that stand over the configuration file. All values are as typed: they are read by the same rules as the file's,
 * and a problem names the flag.
 */
export interface ConfigOverrides {
  readonly output?: string | undefined;
  readonly dataset?: string | undefined;
  readonly model?: string | undefined;
  readonly revision?: string | undefined;
  /** Replace the file's list. */
  readonly url?: readonly string[] | undefined;
  readonly staging?: string | undefined;
  readonly inFlight?: string | undefined;
  readonly timeout?: string | undefined;
  /** `2,4,5`, or `default`. */
  readonly layers?: string | undefined;
  /** A count, or `none`. */
  readonly maxTokens?: string | undefined;
  readonly extension?: string | undefined;
  readonly groupSize?: string | undefined;
  readonly attempts?: string | undefined;
  readonly failureSamples?: string | undefined;
  readonly failureShare?: string | undefined;
  readonly consecutiveFailures?: string | undefined;
  readonly reserve?: string | undefined;
  readonly fileMode?: string | undefined;
}

type Kind = 'text' | 'texts' | 'number' | 'numbers';

interface ConfigFlag {
  readonly flag: string;
  readonly value: string;
  readonly path: readonly [string, ...string[]];
  readonly kind: Kind;
  /** The word that stands for null. */
  readonly none?: string;
  readonly about: string;
}

/** One row a flag: for the command line's help, and for reading it. */
export const CONFIG_FLAGS = {
  output: { flag: '--output', value: 'FOLDER', path: ['output'], kind: 'text', about: 'the run folder' },
  dataset: { flag: '--dataset', value: 'FILE', path: ['dataset'], kind: 'text', about: 'the JSONL file with one row a line' },
  model: { flag: '--model', value: 'FOLDER', path: ['target', 'model'], kind: 'text', about: "the target model's folder" },
  revision: {
    flag: '--revision',
    value: 'NAME',
    path: ['target', 'revision'],
    kind: 'text',
    none: 'none',
    about: 'its revision, for the record',
  },
  url: { flag: '--url', value: 'URL', path: ['engine', 'urls'], kind: 'texts', about: 'a server; may be given several times' },
  staging: {
    flag: '--staging',
    value: 'FOLDER',
    path: ['engine', 'staging'],
    kind: 'text',
    about: 'the folder that the server writes into',
  },
  inFlight: { flag: '--in-flight', value: 'COUNT', path: ['engine', 'inFlight'], kind: 'number', about: 'requests in flight per server' },
  timeout: { flag: '--timeout', value: 'DURATION', path: ['engine', 'timeout'], kind: 'text', about: 'from request to complete states' },
  layers: {
    flag: '--layers',
    value: 'LIST',
    path: ['states', 'auxiliaryLayers'],
    kind: 'numbers',
    none: 'default',
    about: 'auxiliary layers as boundary numbers, such as 2,4,5',
  },
  maxTokens: {
    flag: '--max-tokens',
    value: 'COUNT',
    path: ['states', 'maxTokens'],
    kind: 'number',
    none: 'none',
    about: 'drop longer rows',
  },
  extension: { flag: '--extension', value: 'NAME', path: ['layout', 'extension'], kind: 'text', about: 'ckpt or pt' },
  groupSize: { flag: '--group-size', value: 'COUNT', path: ['layout', 'groupSize'], kind: 'number', about: 'samples per folder' },
  attempts: { flag: '--attempts', value: 'COUNT', path: ['limits', 'attempts'], kind: 'number', about: 'tries of one row' },
  failureSamples: {
    flag: '--failure-samples',
    value: 'COUNT',
    path: ['limits', 'failureSamples'],
    kind: 'number',
    about: 'failed rows that stop the run',
  },
  failureShare: {
    flag: '--failure-share',
    value: 'SHARE',
    path: ['limits', 'failureShare'],
    kind: 'number',
    about: 'failed share that stops the run',
  },
  consecutiveFailures: {
    flag: '--consecutive-failures',
    value: 'COUNT',
    path: ['limits', 'consecutiveFailures'],
    kind: 'number',
    about: 'failures in a row that stop the run',
  },
  reserve: { flag: '--reserve', value: 'SIZE', path: ['limits', 'reserve'], kind: 'text', about: 'space to leave free' },
  fileMode: { flag: '--file-mode', value: 'MODE', path: ['fileMode'], kind: 'text', about: 'permission bits of sample files' },
} as const satisfies Record<keyof ConfigOverrides, ConfigFlag>;

/** The flags in the shape of the file. */
export function documentOfOverrides(overrides: ConfigOverrides): Record<string, unknown> {
  const document: Record<string, unknown> = {};
  for (const [name, entry] of Object.entries(CONFIG_FLAGS) as [keyof ConfigOverrides, ConfigFlag][]) {
    const typed = overrides[name];
    if (typed === undefined) continue;
    const value = typed === entry.none ? null : readAs(entry.kind, typed);
    const [first, second] = entry.path;
    if (second === undefined) document[first] = value;
    else document[first] = { ...(document[first] as Record<string, unknown> | undefined), [second]: value };
  }
  return document;
}

/** The flag that gives a key, for messages. */
export function flagOf(path: readonly PropertyKey[]): string {
  const found = Object.values(CONFIG_FLAGS).find((entry) => entry.path.every((key, at) => path[at] === key));
  return found?.flag ?? path.map(String).join('.');
}

function readAs(kind: Kind, typed: string | readonly string[]): unknown {
  if (typeof typed !== 'string') return typed;
  switch (kind) {
    case 'text':
      return typed;
    case 'texts':
      return [typed];
    case 'number':
      return numberOr(typed);
    case 'numbers':
      return typed.split(',').map((part) => numberOr(part.trim()));
  }
}

/** What is no number stays text, which the schema then refuses in its own words. */
function numberOr(typed: string): number | string {
  return /^\d+(\.\d+)?$/.test(typed) ? Number(typed) : typed;
}
