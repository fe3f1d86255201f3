import { TidemarkError } from '../core/errors.ts';
import { writeSafetensors } from '../format/safetensors-writer.ts';
import type { Host } from '../host/host.ts';
import { type Capture, type CaptureFile, type PublishCapture, randomHex } from './capture.ts';

/**
 * Everything that the engine can do wrong on purpose, for the tests of those who talk to engines. Each word is something
 * that a real server has been seen or is able to do. Without `--misbehave` none of this runs.
 *
 *   word[=number][:by=N][,on=N][,every=N][,after=N]     several with `;` between them
 *
 * Requests for completions and chats are counted from 1 in their order of arrival. Without on, every or after a word
 * holds for each of them.
 */
const WORDS = {
  slow: { number: 500, by: null, help: 'milliseconds before the work begins' },
  hang: { number: null, by: null, help: 'no answer, ever; /health turns 503' },
  drop: { number: null, by: null, help: 'the connection is closed without an answer' },
  '400': { number: null, by: null, help: 'refused as too long' },
  '429': { number: null, by: null, help: 'too many requests' },
  '500': { number: null, by: null, help: 'internal error' },
  '503': { number: null, by: null, help: 'queue full' },
  die: { number: null, by: null, help: 'the process kills itself when the request arrives' },
  'wrong-ids': { number: null, by: null, help: 'the answer echoes other prompt ids' },
  'wrong-file-ids': { number: null, by: null, help: 'the file holds other token ids' },
  'no-path': { number: null, by: null, help: 'no kv_transfer_params' },
  'foreign-path': { number: null, by: null, help: 'a file outside the staging folder' },
  'link-path': { number: null, by: null, help: 'the path is a symbolic link' },
  short: { number: null, by: 16, help: 'fewer rows than ids' },
  nan: { number: null, by: 1, help: 'that many values are NaN' },
  inf: { number: null, by: 1, help: 'that many values are infinite' },
  'zero-states': { number: null, by: null, help: 'every value is 0' },
  'zero-tail': { number: null, by: 16, help: 'full size, but the last rows are 0' },
  'drop-last-layer': { number: null, by: null, help: 'one layer fewer' },
  'equal-layers': { number: null, by: null, help: 'every layer holds the first one' },
  late: { number: 2000, by: null, help: 'milliseconds from the answer to the file' },
  grows: { number: 1000, by: null, help: 'written under its final name over so many milliseconds' },
  'zeros-first': { number: 1000, by: null, help: 'full size and 0 for so many milliseconds' },
  'never-completes': { number: null, by: null, help: 'half a temporary file, no final name' },
  'lock-free-no-file': { number: null, by: null, help: 'a lock that nobody holds, and no file' },
  'cut-file': { number: null, by: 40, help: 'by percent too short, under its final name' },
  'torn-write-then-die': { number: null, by: null, help: 'half a file under its final name, then the process kills itself' },
  'mode-0600': { number: null, by: null, help: 'readable by its owner alone' },
  'no-lock': { number: null, by: null, help: 'no .lock file' },
  litter: { number: null, by: null, help: 'leftovers of a former run beside the file' },
  'health-lies': { number: null, by: null, help: '/health is 200 whatever happens' },
  'health-503': { number: null, by: null, help: '/health is 503 although all is well' },
} as const satisfies Record<string, { readonly number: number | null; readonly by: number | null; readonly help: string }>;

type Word = keyof typeof WORDS;

export interface Fault {
  readonly word: Word;
  readonly number: number;
  readonly by: number;
  readonly on: readonly number[];
  readonly every: number | null;
  readonly after: number | null;
}

export interface Misbehaviour {
  /** One for each request for a completion or chat, in the order of arrival. */
  next(): RequestMisbehaviour;
  /** What `/health` says, given the truth. */
  health(healthy: boolean): boolean;
}

/** The points at which the server asks. */
export interface RequestMisbehaviour {
  /** Before any work: waits, never returns, ends the process, or says what to do in place of the work. */
  arrive(signal: AbortSignal): Promise<{ readonly status: number } | 'drop' | null>;
  /** The prompt ids that the answer echoes. */
  echo(promptIds: readonly number[]): readonly number[];
  capture(capture: Capture): Capture;
  /** Where the file goes, and whether the client is told. */
  place(path: string): { readonly path: string; readonly told: boolean; readonly lock: boolean };
  publish(file: CaptureFile, signal: AbortSignal): Promise<void>;
}

export interface MisbehaviourTools {
  readonly host: Host;
  readonly publish: PublishCapture;
  readonly staging: string | null;
  /** Ends this process at once, as SIGKILL does. */
  kill(): void;
  /** `Host` makes no symbolic links, so `link-path` needs one who does. */
  readonly symlink: ((target: string, path: string) => Promise<void>) | null;
}

/** Reads the words of `--misbehave`; rejects what it does not know, naming what it does. */
export function parseMisbehaviour(specs: readonly string[]): readonly Fault[] {
  return specs
    .flatMap((spec) => spec.split(';'))
    .map((spec) => spec.trim())
    .filter((spec) => spec !== '')
    .map(parseFault);
}

function parseFault(spec: string): Fault {
  const colon = spec.indexOf(':');
  const [word = '', number, ...rest] = (colon < 0 ? spec : spec.slice(0, colon)).split('=');
  if (!isWord(word) || rest.length > 0) {
    throw refuse(spec, `unknown word "${word}"; the words are ${Object.keys(WORDS).join(', ')}`);
  }
  const defaults = WORDS[word];
  if (number !== undefined && defaults.number === null) throw refuse(spec, `${word} takes no number`);
  const on: number[] = [];
  const found = new Map<string, number>();
  for (const pair of colon < 0 ? [] : spec.slice(colon + 1).split(',')) {
    const [key = '', value, ...more] = pair.split('=');
    if (more.length > 0 || !['on', 'every', 'after', 'by'].includes(key)) {
      throw refuse(spec, `unknown key "${key}"; the keys are on, every, after and by`);
    }
    if (key === 'by' && defaults.by === null) throw refuse(spec, `${word} takes no "by"`);
    const parsed = parseNumber(spec, value, key === 'after' ? 0 : 1);
    if (key === 'on') on.push(parsed);
    else if (found.has(key)) throw refuse(spec, `"${key}" comes twice`);
    else found.set(key, parsed);
  }
  return {
    word,
    number: number === undefined ? (defaults.number ?? 0) : parseNumber(spec, number, 0),
    by: found.get('by') ?? defaults.by ?? 0,
    on,
    every: found.get('every') ?? null,
    after: found.get('after') ?? null,
  };
}

function isWord(word: string): word is Word {
  return Object.hasOwn(WORDS, word);
}

function parseNumber(spec: string, text: string | undefined, least: number): number {
  if (text === undefined || !/^\d{1,9}$/.test(text) || Number(text) < least) {
    throw refuse(spec, `"${text ?? ''}" is not a whole number of at least ${least}`);
  }
  return Number(text);
}

function refuse(spec: string, why: string): TidemarkError {
  return new TidemarkError('usage', `--misbehave ${JSON.stringify(spec)}: ${why}`, {
    hint: 'word[=number][:by=N][,on=N][,every=N][,after=N], for example short:by=16,on=3',
  });
}

function holds(fault: Fault, ordinal: number): boolean {
  if (fault.on.length > 0 && !fault.on.includes(ordinal)) return false;
  if (fault.every !== null && ordinal % fault.every !== 0) return false;
  return fault.after === null || ordinal > fault.after;
}

export function createMisbehaviour(faults: readonly Fault[], tools: MisbehaviourTools): Misbehaviour {
  if (tools.symlink === null && faults.some((fault) => fault.word === 'link-path')) {
    throw new TidemarkError('usage', '--misbehave link-path: no means to make a symbolic link was given');
  }
  let ordinal = 0;
  let hangingCount = 0;
  const always = (word: Word): boolean => faults.some((fault) => fault.word === word);
  return {
    next() {
      ordinal += 1;
      const now = ordinal;
      const active = (word: Word): Fault | undefined => faults.find((fault) => fault.word === word && holds(fault, now));
      return {
        async arrive(signal) {
          if (active('die')) tools.kill();
          if (tools.staging !== null && (active('foreign-path') || active('link-path'))) {
            await tools.host.files.makeDirectory(`${tools.staging}-elsewhere`);
          }
          const slow = active('slow');
          if (slow) await tools.host.clock.sleep(slow.number, signal);
          if (active('hang')) {
            hangingCount += 1;
            await untilAborted(signal).finally(() => {
              hangingCount -= 1;
            });
          }
          if (active('drop')) return 'drop';
          for (const word of ['400', '429', '500', '503'] as const) if (active(word)) return { status: Number(word) };
          return null;
        },
        echo: (promptIds) => (active('wrong-ids') ? otherIds(promptIds) : promptIds),
        capture: (capture) => spoil(capture, active),
        place(path) {
          const foreign = active('foreign-path') !== undefined;
          return { path: foreign ? elsewhere(path) : path, told: !active('no-path'), lock: !active('no-lock') };
        },
        publish: (file, signal) => publishWrongly(file, active, tools, signal),
      };
    },
    health: (healthy) => always('health-lies') || (healthy && hangingCount === 0 && !always('health-503')),
  };
}

/** For a server that behaves: every point answers with what it was given. */
export function createHonesty(publish: PublishCapture): Misbehaviour {
  const request: RequestMisbehaviour = {
    arrive: () => Promise.resolve(null),
    echo: (promptIds) => promptIds,
    capture: (capture) => capture,
    place: (path) => ({ path, told: true, lock: true }),
    publish,
  };
  return { next: () => request, health: (healthy) => healthy };
}

type Active = (word: Word) => Fault | undefined;

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    if (signal.aborted) reject(signal.reason);
  });
}

function otherIds(tokenIds: readonly number[]): readonly number[] {
  return tokenIds.map((id, index) => (index === tokenIds.length - 1 ? (id === 0 ? 1 : id - 1) : id));
}

function spoil(honest: Capture, active: Active): Capture {
  let capture = honest;
  if (active('drop-last-layer')) {
    const kept = capture.layerCount - 1;
    capture = { ...capture, layerCount: kept, values: mapRows(capture, kept, (row) => row.subarray(0, kept * honest.hiddenSize)) };
  }
  if (active('equal-layers')) {
    const { hiddenSize, layerCount } = capture;
    capture = { ...capture, values: mapRows(capture, layerCount, (row) => row.map((_, at) => row[at % hiddenSize] ?? 0)) };
  }
  const rowLength = capture.layerCount * capture.hiddenSize;
  const values = capture.values.slice();
  if (active('zero-states')) values.fill(0);
  const tail = active('zero-tail');
  if (tail) values.fill(0, Math.max(0, values.length - tail.by * rowLength));
  const middle = Math.floor(values.length / 2);
  const nan = active('nan');
  if (nan) values.fill(Number.NaN, middle, middle + nan.by);
  const infinite = active('inf');
  if (infinite) values.fill(Number.POSITIVE_INFINITY, middle, middle + infinite.by);
  const short = active('short');
  return {
    ...capture,
    tokenIds: active('wrong-file-ids') ? otherIds(capture.tokenIds) : capture.tokenIds,
    values: short ? values.subarray(0, Math.max(0, values.length - short.by * rowLength)) : values,
  };
}

function mapRows(capture: Capture, layerCount: number, map: (row: Float32Array) => Float32Array): Float32Array {
  const from = capture.layerCount * capture.hiddenSize;
  const to = layerCount * capture.hiddenSize;
  const rowCount = capture.values.length / from;
  const values = new Float32Array(rowCount * to);
  for (let row = 0; row < rowCount; row++) values.set(map(capture.values.subarray(row * from, (row + 1) * from)), row * to);
  return values;
}

function elsewhere(path: string): string {
  const slash = path.lastIndexOf('/');
  return `${path.slice(0, slash)}-elsewhere${path.slice(slash)}`;
}

async function publishWrongly(file: CaptureFile, active: Active, tools: MisbehaviourTools, signal: AbortSignal): Promise<void> {
  const { host } = tools;
  const late = active('late');
  if (late) await host.clock.sleep(late.number, signal);
  if (active('litter')) {
    await writeBytes(host, `${file.path}.${randomHex(host, 4)}.tmp`, [new Uint8Array(100)]);
    await writeBytes(host, `${file.path.replace(/[^/]*$/, `cmpl-gone-0-${randomHex(host, 4)}`)}.safetensors.lock`, []);
  }
  if (active('lock-free-no-file')) return;
  const never = active('never-completes');
  const cut = active('cut-file');
  const torn = active('torn-write-then-die');
  const grows = active('grows');
  const zeros = active('zeros-first');
  if (never || cut || torn || grows || zeros) {
    const bytes = await wholeFile(file);
    const half = bytes.subarray(0, Math.floor(bytes.length / 2));
    if (never) return writeBytes(host, `${file.path}.${randomHex(host, 4)}.tmp`, [half]);
    if (cut) return writeBytes(host, file.path, [bytes.subarray(0, Math.floor((bytes.length * (100 - cut.by)) / 100))]);
    if (torn) {
      await writeBytes(host, file.path, [half]);
      return tools.kill();
    }
    if (grows) {
      return writeBytes(host, file.path, [half, bytes.subarray(half.length)], () => host.clock.sleep(grows.number, signal));
    }
    if (zeros) {
      await writeBytes(host, file.path, [new Uint8Array(bytes.length)]);
      await host.clock.sleep(zeros.number, signal);
    }
  }
  const mode = active('mode-0600') ? 0o600 : file.mode;
  if (!active('link-path') || tools.symlink === null) return tools.publish({ ...file, mode });
  await tools.publish({ ...file, mode, path: elsewhere(file.path) });
  await tools.symlink(elsewhere(file.path), file.path);
}

async function wholeFile(file: CaptureFile): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of writeSafetensors(file.tensors)) pieces.push(piece.slice());
  return new Uint8Array(Buffer.concat(pieces));
}

async function writeBytes(host: Host, path: string, pieces: readonly Uint8Array[], between?: () => Promise<void>): Promise<void> {
  const file = await host.files.create(path, 0o644);
  try {
    for (const [index, piece] of pieces.entries()) {
      if (index > 0) await between?.();
      await file.write(piece);
    }
  } finally {
    await file.close();
  }
}
