import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isTidemarkError, type TidemarkError } from '../core/errors.ts';
import { createLocalHost } from '../host/local.ts';
import { type ConfigOverrides, loadConfig, overlaySettings, resolveLayers } from './config.ts';
import { editDistance, nearestKey } from './config-problems.ts';
import { CONFIG_KEYS } from './config-schema.ts';
import { parseSettings, settingsDocument } from './config-settings.ts';
import { formatDuration, formatSize, parseBytes, parseDurationMs, parseFileMode } from './config-units.ts';

const { files } = createLocalHost();
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-config-'));
});
afterAll(() => rm(folder, { recursive: true }));

const FULL = `output: ./hidden_states
dataset: merged.jsonl
target:
  model: models/tide-5m
  revision: null
engine:
  kind: vllm
  urls: [http://127.0.0.1:8000]
  staging: /dev/shm/tidemark
  inFlight: 8
  timeout: 120s
states:
  auxiliaryLayers: [2, 4, 5]   # optional
  dtype: bfloat16
  maxTokens: null
layout: {name: specforge, extension: ckpt, groupSize: 2000}
limits: {attempts: 3, failureSamples: 10, failureShare: 0.001, consecutiveFailures: 16, reserve: 1GiB}
fileMode: "0644"
`;

async function load(text: string | Uint8Array, overrides: ConfigOverrides = {}) {
  const at = await mkdtemp(join(folder, 'c-'));
  await writeFile(join(at, 'tidemark.yaml'), text);
  return { at, settings: await loadConfig(files, null, overrides, at) };
}

async function problemsOf(text: string | Uint8Array, overrides: ConfigOverrides = {}): Promise<TidemarkError> {
  try {
    await load(text, overrides);
  } catch (error) {
    if (isTidemarkError(error)) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

describe('loadConfig', () => {
  it('reads every key, with units, paths absolute from the file', async () => {
    const { at, settings } = await load(FULL);
    expect(settings).toEqual({
      output: join(at, 'hidden_states'),
      dataset: { path: join(at, 'merged.jsonl') },
      target: { model: join(at, 'models/tide-5m'), revision: null },
      engine: { kind: 'vllm', urls: ['http://127.0.0.1:8000'], staging: '/dev/shm/tidemark', inFlight: 8, timeoutMs: 120_000 },
      states: { auxiliaryLayers: [2, 4, 5], dtype: 'BF16', lastState: 'post-norm', maxTokens: null },
      layout: { name: 'specforge', extension: 'ckpt', groupSize: 2000 },
      limits: { attempts: 3, failureSamples: 10, failureShare: 0.001, consecutiveFailures: 16, reserveBytes: 2 ** 30 },
      fileMode: 0o644,
    });
  });

  it('needs only five keys; the rest has the defaults of the full example, layers wait for the model', async () => {
    const short = 'output: o\ndataset: d\ntarget: {model: m}\nengine: {urls: [http://h:1], staging: /s}\n';
    const { settings } = await load(short);
    const { settings: full } = await load(FULL);
    expect(settings.states).toEqual({ ...full.states, auxiliaryLayers: null });
    expect([settings.layout, settings.limits, settings.fileMode, settings.engine.inFlight, settings.engine.timeoutMs]).toEqual([
      full.layout,
      full.limits,
      full.fileMode,
      8,
      120_000,
    ]);
  });

  it('lets flags stand over the file, their paths from the working folder', async () => {
    const at = await mkdtemp(join(folder, 'c-'));
    await mkdir(join(at, 'conf'));
    await writeFile(join(at, 'conf/t.yaml'), FULL);
    const overrides: ConfigOverrides = {
      output: 'out',
      url: ['http://a:1/v1', 'http://b:2/'],
      inFlight: '2',
      layers: '1,3',
      maxTokens: '512',
      reserve: '0B',
      fileMode: '600',
      timeout: '2m',
      extension: 'pt',
    };
    const settings = await loadConfig(files, 'conf/t.yaml', overrides, at);
    expect(settings).toMatchObject({
      output: join(at, 'out'),
      dataset: { path: join(at, 'conf/merged.jsonl') },
      engine: { urls: ['http://a:1', 'http://b:2'], inFlight: 2, timeoutMs: 120_000, staging: '/dev/shm/tidemark' },
      states: { auxiliaryLayers: [1, 3], maxTokens: 512 },
      layout: { extension: 'pt', groupSize: 2000 },
      limits: { reserveBytes: 0, attempts: 3 },
      fileMode: 0o600,
    });
    const reset = await loadConfig(files, 'conf/t.yaml', { layers: 'default', maxTokens: 'none' }, at);
    expect(reset.states).toEqual({ auxiliaryLayers: null, dtype: 'BF16', lastState: 'post-norm', maxTokens: null });
  });

  it('works from flags alone, and from a link', async () => {
    const at = await mkdtemp(join(folder, 'c-'));
    const flags = { output: 'o', dataset: 'd', model: 'm', url: ['http://h:1'], staging: '/s' };
    expect(await loadConfig(files, null, flags, at)).toMatchObject({ output: join(at, 'o'), target: { model: join(at, 'm') } });
    await writeFile(join(at, 'real.yaml'), FULL);
    await symlink('real.yaml', join(at, 'tidemark.yaml'));
    expect((await loadConfig(files, null, {}, at)).engine.inFlight).toBe(8);
  });
});

describe('a configuration that does not fit', () => {
  it('names every problem with its line, its whole key and the nearest key', async () => {
    const text = FULL.replace('inFlight: 8', 'in_flight: 8')
      .replace('timeout: 120s', 'timeout: 120')
      .replace('attempts: 3', 'attempts: three')
      .replace('fileMode: "0644"', 'filemode: 0644');
    const error = await problemsOf(text);
    expect(error.code).toBe('config');
    expect(error.where).toBe('tidemark.yaml:10');
    expect(error.message.split('\n')).toEqual([
      'tidemark.yaml has 4 problems',
      '  tidemark.yaml:10: engine.in_flight is not a key; did you mean engine.inFlight?',
      '  tidemark.yaml:11: engine.timeout must be a duration with its unit, such as 120s or 2m, and is 120',
      '  tidemark.yaml:17: limits.attempts must be a whole number from 1 to 100, and is "three"',
      '  tidemark.yaml:18: filemode is not a key; did you mean fileMode?',
    ]);
  });

  it.each([
    ['urls: [http://a]\n', 'tidemark.yaml:1: urls is not a key; did you mean engine.urls?'],
    ['engine: {url: x}\n', 'tidemark.yaml:1: engine.url is not a key; did you mean engine.urls?'],
    [
      'engine:\n  flavour: x\n',
      'tidemark.yaml:2: engine.flavour is not a key; the keys of engine are kind, urls, staging, inFlight, timeout',
    ],
    ['engine: vllm\n', 'tidemark.yaml:1: engine must be a section with keys of its own, and is "vllm"'],
    ['\nengine:\n', 'tidemark.yaml:2: engine must be a section with keys of its own, and is empty'],
    ['dataset:\n', 'tidemark.yaml:1: dataset must be a path, written out (~ is not expanded), and is empty'],
    ['output: ~/x\n', 'tidemark.yaml:1: output must be a path, written out (~ is not expanded), and is "~/x"'],
    ['- a\n', 'tidemark.yaml:1: the configuration must be a section with keys of its own, and is ["a"]'],
    ['engine:\n  urls:\n    - http://a\n    - ftp://b\n', 'tidemark.yaml:4: engine.urls[1] must be a URL such as'],
    ['engine: {urls: [http://a, http://a/]}\n', 'tidemark.yaml:1: engine.urls must be a list of URLs, each once'],
    ['states: {auxiliaryLayers: [4, 2]}\n', 'must be a list of boundary numbers, ascending and each once'],
    ['layout: {extension: safetensors}\n', 'layout.extension must be one of ckpt, pt, and is "safetensors"'],
    ['engine: {kind: sglang}\n', 'engine.kind must be vllm, the only one there is so far, and is "sglang"'],
    ['fileMode: 0644\n', 'fileMode must be permission bits in quotes, such as "0644", with the owner allowed to read, and is 644'],
    ['fileMode: "0044"\n', 'fileMode must be permission bits'],
    ['limits: {failureShare: 2}\n', 'limits.failureShare must be a share from 0 to 1'],
    ['limits: {reserve: 5}\n', 'limits.reserve must be a size with its unit'],
    ['output: a\noutput: b\n', 'tidemark.yaml:2: the key "output" stands twice'],
    ['engine:\n\tkind: vllm\n', 'tidemark.yaml:2: Tabs are not allowed as indentation'],
    ['output: [a\n', 'tidemark.yaml:'],
    ['a: 1\n---\nb: 2\n', 'tidemark.yaml:'],
    ['output: !secret x\n', 'tidemark.yaml:1: Unresolved tag: !secret'],
    ['__proto__: {x: 1}\n', '__proto__ is not a key'],
  ])('%j', async (text, message) => {
    const error = await problemsOf(text);
    expect(error.code).toBe('config');
    expect(error.message).toContain(message);
    expect(error.hint).toBeTruthy();
  });

  it('in another encoding names the line', async () => {
    const error = await problemsOf(Buffer.concat([Buffer.from('output: a\ndataset: '), Buffer.from([0xe9, 0x0a])]));
    expect(error.message).toBe('tidemark.yaml:2: this line is not UTF-8 text');
  });

  it('with an alias bomb is refused', async () => {
    const bomb = ['a: &a [x,x,x,x,x,x,x,x,x]'];
    for (const [at, name] of [...'bcdefghi'].entries()) bomb.push(`${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[at]}`).join(',')}]`);
    expect((await problemsOf(bomb.join('\n'))).message).toContain('alias');
  });

  it('says what is still needed, and how to give it', async () => {
    const error = await problemsOf('output: o\nengine: {urls: [http://h]}\n');
    expect(error.message).toBe('tidemark.yaml: still needed: dataset (--dataset), target.model (--model), engine.staging (--staging)');
    await expect(loadConfig(files, null, {}, folder)).rejects.toMatchObject({
      message: expect.stringContaining('without a tidemark.yaml: still needed: output'),
    });
    await expect(loadConfig(files, 'no.yaml', {}, folder)).rejects.toMatchObject({ code: 'config', hint: expect.stringContaining('init') });
  });

  it('names flags by their names', async () => {
    const error = await problemsOf(FULL, { inFlight: 'many', url: ['nope'] });
    expect(error.code).toBe('usage');
    expect(error.message.split('\n')).toEqual([
      '2 flags cannot be used',
      expect.stringContaining('--url must be a URL'),
      '  --in-flight must be a whole number from 1 to 1024',
    ]);
  });

  it.each(['.', 'hidden_states', './hidden_states/staging'])(
    'with staging at %s inside or around the output is refused',
    async (staging) => {
      expect((await problemsOf(FULL.replace('/dev/shm/tidemark', staging))).message).toContain('must be apart');
    },
  );

  it('never fails in another way, whatever the text', async () => {
    const piece = fc.constantFrom(
      'output',
      'engine',
      ':',
      ' ',
      '\n',
      '  ',
      '- ',
      '[',
      ']',
      '{',
      '}',
      '"',
      "'",
      '&a',
      '*a',
      '!x',
      '#',
      '|',
      '>',
      '? ',
      '\t',
      '1',
      'null',
      '~',
      '%',
      '@',
      '---',
      'é',
      '<<',
      ',',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 25 }), async (pieces) => {
        const error = await problemsOf(pieces.join(''));
        expect(['config']).toContain(error.code);
      }),
      { numRuns: 150 },
    );
  });
});

describe('resolveLayers', () => {
  it("takes EAGLE-3's default, or what was asked for where it fits", async () => {
    const { settings: asked } = await load(FULL);
    const unset = { ...asked, states: { ...asked.states, auxiliaryLayers: null } };
    expect(resolveLayers(unset, 8).states.auxiliaryLayers).toEqual([2, 4, 5]);
    expect(resolveLayers(unset, 61).states.auxiliaryLayers).toEqual([2, 30, 58]);
    expect(resolveLayers(asked, 6).states.auxiliaryLayers).toEqual([2, 4, 5]);
    expect(() => resolveLayers(asked, 5)).toThrow('they do not fit a model of 5 layers');
    expect(() => resolveLayers(unset, 4)).toThrow('too shallow for the default');
  });
});

describe('overlaySettings', () => {
  it('changes what flags say and nothing else', async () => {
    const { at, settings } = await load(FULL);
    const resolved = resolveLayers(settings, 8);
    expect(overlaySettings(resolved, {}, at)).toEqual(resolved);
    expect(overlaySettings(resolved, { layers: 'default' }, at)).toEqual(resolved);
    expect(overlaySettings(resolved, { url: ['http://b:2'], dataset: 'x.jsonl', timeout: '5s', reserve: '1MB' }, '/w')).toEqual({
      ...resolved,
      dataset: { path: '/w/x.jsonl' },
      engine: { ...resolved.engine, urls: ['http://b:2'], timeoutMs: 5000 },
      limits: { ...resolved.limits, reserveBytes: 1e6 },
    });
    expect(() => overlaySettings(resolved, { inFlight: '0' }, at)).toThrow('--in-flight must be');
  });
});

describe('settings.json', () => {
  it('comes back as it was', async () => {
    const { settings } = await load(FULL);
    const resolved = resolveLayers(settings, 8);
    expect(parseSettings(JSON.parse(JSON.stringify(settingsDocument(resolved))), 'x')).toEqual(resolved);
  });

  it('of another version, or changed, is refused', async () => {
    const { settings } = await load(FULL);
    const good = settingsDocument(resolveLayers(settings, 8));
    const bad: unknown[] = [
      null,
      1,
      {},
      { ...good, format: 'tidemark.settings/2' },
      { ...good, output: 'relative' },
      { ...good, extra: 1 },
      { ...good, engine: { ...good.engine, staging: '../x' } },
    ];
    for (const value of bad)
      expect(() => parseSettings(value, '/x/settings.json')).toThrow(expect.objectContaining({ code: 'format-refused' }));
    expect(() => parseSettings({ format: 'tidemark.settings/2' }, 'x')).toThrow(
      '"tidemark.settings/2", and this tidemark reads tidemark.settings/1',
    );
  });
});

describe('units and names', () => {
  it('are read and written', () => {
    expect(['120s', '2m', '1.5h', '500ms', '1 d'].map(parseDurationMs)).toEqual([120_000, 120_000, 5_400_000, 500, 86_400_000]);
    expect(['1GiB', '500MB', '0B', '1.5KiB', '2 TB'].map(parseBytes)).toEqual([2 ** 30, 5e8, 0, 1536, 2e12]);
    expect(['', '5', 's', '-1s', '1e3s', '1 parsec', '99999999999TiB'].map((text) => parseDurationMs(text) ?? parseBytes(text))).toEqual(
      Array(7).fill(null),
    );
    expect(['0644', '644', '0600', '0888', '0044', '00644', ''].map(parseFileMode)).toEqual([0o644, 0o644, 0o600, null, null, null, null]);
    fc.assert(
      fc.property(
        fc.nat(2 ** 31 - 1),
        (value) => parseDurationMs(formatDuration(value)) === value && parseBytes(formatSize(value)) === value,
      ),
    );
  });

  it('are near by how many letters differ', () => {
    expect([editDistance('kitten', 'sitting'), editDistance('', 'abc'), editDistance('abc', 'abc')]).toEqual([3, 3, 0]);
    expect(nearestKey('engine.', 'stageing')).toBe('engine.staging');
    expect(nearestKey('', 'colour')).toBeNull();
    for (const key of CONFIG_KEYS)
      expect(nearestKey(key.slice(0, key.lastIndexOf('.') + 1), key.slice(key.lastIndexOf('.') + 1))).toBe(key);
  });
});
