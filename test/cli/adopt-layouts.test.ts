import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { adopt, type Inferred } from '../../src/app/adopt.ts';
import { assessAt, exitOf } from '../../src/app/assessment.ts';
import { runExtraction } from '../../src/app/extraction.ts';
import { createHost } from '../../src/app/host.ts';
import { encoderIfAny } from '../../src/app/run-inputs.ts';
import { settingsForResume } from '../../src/app/start-settings.ts';
import type { Report } from '../../src/core/report.ts';
import { openDataset } from '../../src/dataset/open-dataset.ts';
import { readTargetModel } from '../../src/engine/model-files.ts';
import { createVllmEngine } from '../../src/engine/vllm.ts';
import { applyFinalNorm } from '../../src/format/norm.ts';
import { freePort, MODEL, ROOT, type Running, startEngine, tidemark } from '../support/processes.ts';

// Trees as other tools make them, written by real torch from the shipped target's own states; some rows are taken away, the tree is adopted
// and resumed against the real engine, and what comes is what torch would have written.

const ROWS = 16;
const WIDTH = 256;
const AUXILIARY = [2, 4, 5];
/** Rows that every tree lacks: one inside, two at the end. */
const HELD = [5, 14, 15];
// Debian's own Python: the one that its package python3-torch is for.
const PYTHON = '/usr/bin/python3';
const SCRIPT = fileURLToPath(new URL('../support/layout_trees.py', import.meta.url));

const host = createHost();
let place: string;
let engine: Running;
let url: string;
let teller: { child: ChildProcess; lines: Interface; asked: ((line: string) => void)[] };

interface Case {
  readonly name: string;
  readonly layout: string;
  readonly dtype: 'BF16' | 'F16' | 'F32';
  readonly mask?: string;
  readonly pathOf: (row: number) => string;
  readonly option?: string;
  readonly lastState?: 'pre-norm' | 'post-norm';
  readonly held?: readonly number[];
  readonly inferred: { readonly lastState: string; readonly family: string; readonly names: RegExp };
}

const group = (row: number, size: number): string => `rows_${Math.floor(row / size) * size}-${(Math.floor(row / size) + 1) * size}`;
const odd = (row: number): string => (row < 3 ? 'rows_0-3' : row < 10 ? 'rows_3-10' : 'rows_10-16');
/** SpecForge's sampler and start-index rule, on two ranks. */
const dealt = (row: number): number => (row % 2) * (ROWS / 2) + Math.floor(row / 2);
const byRow = /by the row: /;

const CASES: readonly Case[] = [
  {
    name: 'SpecForge, gzip',
    layout: 'specforge',
    dtype: 'BF16',
    pathOf: (row) => `${group(row, 8)}/data_${row}.ckpt.gz`,
    inferred: { lastState: 'post-norm', family: 'specforge', names: byRow },
  },
  {
    name: 'SpecForge, folders of odd sizes, bool masks',
    layout: 'specforge',
    dtype: 'BF16',
    mask: 'BOOL',
    pathOf: (row) => `${odd(row)}/data_${row}.pt`,
    inferred: { lastState: 'post-norm', family: 'specforge', names: byRow },
  },
  {
    name: 'SpecForge, rows dealt to two ranks',
    layout: 'specforge',
    dtype: 'BF16',
    pathOf: (row) => `${group(dealt(row), 8)}/data_${dealt(row)}.ckpt`,
    inferred: { lastState: 'post-norm', family: 'specforge', names: /dealt in turn to 2 ranks/ },
  },
  {
    name: "somebody's patch: other order, no leading axis, before the norm",
    layout: 'patched',
    dtype: 'F32',
    pathOf: (row) => `${group(row, 8)}/data_${row}.ckpt`,
    inferred: { lastState: 'pre-norm', family: 'specforge', names: byRow },
  },
  {
    name: 'DFlash',
    layout: 'dflash',
    dtype: 'BF16',
    pathOf: (row) => `${group(row, 8)}/data_${row}.ckpt`,
    inferred: { lastState: 'none', family: 'specforge-dflash', names: byRow },
  },
  {
    name: 'DSpark, float16, gzip',
    layout: 'dspark',
    dtype: 'F16',
    pathOf: (row) => `${group(row, 8)}/data_${row}.pt.gz`,
    inferred: { lastState: 'post-norm', family: 'specforge-dspark', names: byRow },
  },
  {
    name: 'speculators',
    layout: 'speculators',
    dtype: 'BF16',
    pathOf: (row) => `hs_${row}.safetensors`,
    inferred: { lastState: 'pre-norm', family: 'speculators', names: byRow },
  },
  {
    name: "speculators' first form, float16",
    layout: 'v0',
    dtype: 'F16',
    pathOf: (row) => `data_${row}.pt`,
    inferred: { lastState: 'pre-norm', family: 'speculators-v0', names: byRow },
  },
  {
    name: "speculators' second form, a list",
    layout: 'v1',
    dtype: 'BF16',
    pathOf: (row) => `${row}.pt`,
    inferred: { lastState: 'pre-norm', family: 'speculators-v1', names: byRow },
  },
  {
    name: 'ModelOpt, by conversation id',
    layout: 'modelopt',
    dtype: 'BF16',
    pathOf: (row) => `${idOf(row)}.pt`,
    inferred: { lastState: 'post-norm', family: 'modelopt', names: /by the row's own id/ },
  },
  {
    name: 'EAGLE, float16',
    layout: 'eagle',
    dtype: 'F16',
    mask: 'BOOL',
    pathOf: (row) => `sharegpt_0_16_mufp16/${Math.floor(row / 8)}/data_${row % 8}.ckpt`,
    inferred: { lastState: 'post-norm', family: 'eagle', names: /2 writers has one stretch/ },
  },
  {
    name: 'AngelSlim, two ranks',
    layout: 'angelslim',
    dtype: 'BF16',
    pathOf: (row) => `rank_${row % 2}/rows_0-5000/data_${Math.floor(row / 2)}.ckpt`,
    inferred: { lastState: 'post-norm', family: 'angelslim', names: /dealt in turn to 2 writers/ },
  },
  {
    name: "a pattern of the user's own",
    layout: 'specforge',
    dtype: 'F32',
    pathOf: (row) => `part-${row % 3}/${String(row).padStart(6, '0')}.pt`,
    option: 'part-{dir}/{index:06d}.pt',
    inferred: { lastState: 'post-norm', family: 'specforge', names: /dealt in turn to 3 folders/ },
  },
];

function idOf(row: number): string {
  return `c-${((row * 7919) % 65_536).toString(16)}`;
}

const folderOf = (name: string): string => join(place, 'trees', name.replaceAll(/[^a-z0-9]+/gi, '-'));
const heldOf = (name: string): string => join(place, 'held', name.replaceAll(/[^a-z0-9]+/gi, '-'));

/** What the engine gives for each row, as raw float32, and every tree from it by torch. */
async function makeTrees(): Promise<void> {
  const { encoder } = await encoderIfAny(host.files, MODEL);
  const dialogues = join(place, 'dialogues.jsonl');
  writeFileSync(dialogues, readFileSync(join(ROOT, 'test/support/dialogues.jsonl'), 'utf8').split('\n').slice(0, ROWS).join('\n'));
  const chats = await openDataset(host.files, dialogues, { encoder, maxTokens: null });
  const model = await readTargetModel(host.files, MODEL);
  const staging = join(place, 'staging');
  const capturer = createVllmEngine(host, {
    url,
    staging,
    timeoutMs: 300_000,
    auxiliaryLayers: AUXILIARY,
    lastLayer: 8,
    width: WIDTH,
    owner: 'trees',
  });
  await capturer.describe();
  const rows: object[] = [];
  const lines: string[] = [];
  for (let row = 0; row < ROWS; row += 1) {
    const { inputIds, lossMask } = await chats.read(row);
    const capture = await capturer.capture({ row, attempt: 1, inputIds });
    expect(capture).toMatchObject({ dtype: 'F32', lastStateNorm: 'pre-norm' });
    const slots = Float32Array.from(new Float32Array(Uint8Array.from(await capture.readRows(0, capture.tokens)).buffer));
    await capture.release();
    const last = new Float32Array(capture.tokens * WIDTH);
    for (let at = 0; at < capture.tokens; at += 1) last.set(slots.subarray((at * 4 + 3) * WIDTH, (at * 4 + 4) * WIDTH), at * WIDTH);
    applyFinalNorm(model.norm, last, WIDTH);
    const raw = (name: string, values: Float32Array): string => {
      const path = join(place, `${row}.${name}`);
      writeFileSync(path, values);
      return path;
    };
    const [ids, mask] = [Array.from(inputIds), Array.from(lossMask)];
    rows.push({ ids, mask, id: idOf(row), width: WIDTH, slots: raw('slots', slots), last: raw('last', last) });
    lines.push(JSON.stringify({ conversation_id: idOf(row), input_ids: ids, loss_mask: mask }));
  }
  await capturer.close();
  await chats.close();
  writeFileSync(join(place, 'rows.jsonl'), `${lines.join('\n')}\n`);
  const trees = CASES.map(({ name, layout, dtype, mask, pathOf }) => ({
    ...{ layout, dtype, mask },
    paths: [...Array(ROWS).keys()].map((row) => join(folderOf(name), pathOf(row))),
  }));
  const extra = {
    layout: 'extra',
    dtype: 'BF16',
    paths: [...Array(ROWS).keys()].map((row) => join(folderOf('extra'), `rows_0-16/data_${row}.ckpt`)),
  };
  writeFileSync(join(place, 'plan.json'), JSON.stringify({ rows, trees: [...trees, extra] }));
  execFileSync(PYTHON, ['-B', SCRIPT, 'make', join(place, 'plan.json')]);
}

beforeAll(async () => {
  place = mkdtempSync(join(tmpdir(), 'tidemark-adopt-'));
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  engine = await startEngine(port, join(place, 'staging'));
  await makeTrees();
  const child = spawn(PYTHON, ['-B', SCRIPT, 'tell'], { stdio: ['pipe', 'pipe', 'inherit'] });
  if (child.stdout === null) throw new Error('pipes were asked for');
  teller = { child, lines: createInterface({ input: child.stdout }), asked: [] };
  teller.lines.on('line', (line) => teller.asked.shift()?.(line));
});

afterAll(async () => {
  teller.child.kill('SIGKILL');
  engine.kill('SIGKILL');
  await engine.finished;
  await host.http.close();
  rmSync(place, { recursive: true });
});

/** What real torch, or the plainest reader of safetensors, finds in a file: keys in order, dtypes, shapes, digests. */
function told(path: string): Promise<unknown> {
  return new Promise((found) => {
    teller.asked.push((line) => found(JSON.parse(line)));
    teller.child.stdin?.write(`${path}\n`);
  });
}

function snapshot(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => !name.startsWith('.tidemark') && statSync(join(folder, name)).isFile())
    .sort()
    .map((name) => {
      const { ino, size, mtimeMs, ctimeMs } = statSync(join(folder, name));
      return `${name} ${ino} ${size} ${mtimeMs} ${ctimeMs}`;
    });
}

const overrides = () => ({
  ...{ dataset: join(place, 'rows.jsonl'), model: MODEL, url: [url], staging: join(place, 'staging'), reserve: '1MB' },
  ...{ layers: AUXILIARY.join(',') },
});

const never = new AbortController().signal;

async function adoptTree(folder: string, more: { option?: string; lastState?: 'pre-norm' | 'post-norm'; dataset?: string } = {}) {
  let seen: Inferred | null = null;
  const { report } = await adopt(host, folder, {
    config: null,
    overrides: { ...overrides(), ...(more.dataset === undefined ? {} : { dataset: more.dataset }) },
    layout: more.option ?? null,
    lastState: more.lastState ?? null,
    confirmed: true,
    cache: 'off',
    cwd: place,
    signal: never,
    onInferred: (inferred) => {
      seen = inferred;
    },
    onAdopted: () => undefined,
  });
  return { inferred: seen as Inferred | null, report };
}

const assess = (folder: string): Promise<Report> => assessAt(host, folder, { dataset: null, model: null, level: 'content', cwd: place });

function takeAway(one: Case): void {
  for (const row of one.held ?? HELD) {
    const to = join(heldOf(one.name), one.pathOf(row));
    mkdirSync(dirname(to), { recursive: true });
    renameSync(join(folderOf(one.name), one.pathOf(row)), to);
  }
}

describe('a tree of another tool is adopted and filled with files of the very same form', () => {
  for (const one of CASES) {
    it(one.name, async () => {
      const folder = folderOf(one.name);
      takeAway(one);
      const before = snapshot(folder);
      const { inferred, report } = await adoptTree(folder, one);
      expect(inferred).toMatchObject({
        layout: { name: one.inferred.family },
        form: { width: WIDTH, dtype: one.dtype, auxiliaryLayers: one.layout === 'eagle' ? null : 3 },
        lastState: { stored: one.inferred.lastState },
        names: expect.stringMatching(one.inferred.names),
      });
      expect(report?.totals).toMatchObject({ rows: ROWS, sound: ROWS - HELD.length, missing: HELD.length });
      expect(snapshot(folder)).toEqual(before);
      const settings = await settingsForResume(host, folder, {}, place);
      const resume = {
        argv: [],
        takeOver: false,
        retryFailed: false,
        signals: { drain: never, abort: never },
        onPhase: () => undefined,
        onEvent: () => undefined,
      };
      const { outcome } = await runExtraction(host, settings, resume);
      expect(outcome).toMatchObject({ committed: HELD.length, adopted: 0, failed: 0, left: 0, stopped: null });
      const after = await assess(folder);
      expect({ exit: exitOf(after), totals: after.totals, extras: after.extras }).toMatchObject({
        exit: 0,
        totals: { sound: ROWS, files: ROWS },
        extras: [],
      });
      const there = snapshot(folder);
      expect(there.filter((line) => before.includes(line))).toEqual(before);
      expect(there).toHaveLength(ROWS);
      for (const row of HELD) {
        expect(await told(join(folder, one.pathOf(row))), `row ${row}`).toEqual(await told(join(heldOf(one.name), one.pathOf(row))));
      }
    });
  }
});

describe('what cannot be told is asked for by name, and nothing is written', () => {
  const untouched = async (folder: string, more: Parameters<typeof adoptTree>[1], message: string): Promise<void> => {
    await expect(adoptTree(folder, more)).rejects.toMatchObject({ code: 'decision-needed', message: expect.stringContaining(message) });
    expect(readdirSync(folder)).not.toContain('.tidemark');
  };
  const copyOf = (name: string, to: string, nameOf: (path: string) => string): string => {
    const folder = join(place, 'trees', to);
    const from = folderOf(name);
    for (const path of readdirSync(from, { recursive: true, encoding: 'utf8' })) {
      if (path.startsWith('.tidemark') || !statSync(join(from, path)).isFile()) continue;
      const target = join(folder, nameOf(path));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, readFileSync(join(from, path)));
    }
    return folder;
  };

  it('ids that the dataset does not have', async () => {
    const bare = join(place, 'bare.jsonl');
    const lines = readFileSync(join(place, 'rows.jsonl'), 'utf8').trimEnd().split('\n');
    writeFileSync(bare, lines.map((line) => JSON.stringify({ ...JSON.parse(line), conversation_id: null })).join('\n'));
    const folder = copyOf('ModelOpt, by conversation id', 'no-ids', (path) => path);
    rmSync(join(folder, `${idOf(3)}.pt`));
    await untouched(folder, { dataset: bare }, 'row 0 of the dataset has none (conversation_id, id or uuid)');
  });

  it('names of requests', async () => {
    const folder = copyOf('speculators', 'requests', (path) => `cmpl-${path.replace(/\D/g, '')}77-0.safetensors`);
    rmSync(join(folder, 'cmpl-377-0.safetensors'));
    await untouched(folder, {}, 'files are named by an id that the dataset does not have');
  });

  it('numbers without a rule, unless no row lacks its file', async () => {
    const shuffled = (row: number): number => (row * 5 + 3) % ROWS;
    const renamed = (path: string): string => `rows_0-16/data_${shuffled(Number(/data_(\d+)/.exec(path)?.[1]))}.pt`;
    const folder = copyOf('SpecForge, folders of odd sizes, bool masks', 'shuffled', renamed);
    const lacking = copyOf('SpecForge, folders of odd sizes, bool masks', 'shuffled-holes', renamed);
    const { report } = await adoptTree(folder);
    expect(report?.totals).toMatchObject({ sound: ROWS, missing: 0 });
    expect(exitOf(await assess(folder))).toBe(0);
    rmSync(join(lacking, `rows_0-16/data_${shuffled(7)}.pt`));
    await untouched(lacking, {}, 'no rule was found that gives a row its number');
  });

  it('tensors that no engine gives', async () => {
    await untouched(folderOf('extra'), {}, 'holds the tensor inputs_embeds');
  });

  it('a last state that is said to be another', async () => {
    await untouched(
      copyOf('DSpark, float16, gzip', 'said', (path) => path),
      { lastState: 'pre-norm' },
      '--last-state says pre-norm, and the files are post-norm',
    );
  });

  it('goes on with an adopted run whose settings are lost, once they are named again', async () => {
    const folder = folderOf('AngelSlim, two ranks');
    rmSync(join(folder, '.tidemark/settings.json'));
    await expect(settingsForResume(host, folder, {}, place)).rejects.toMatchObject({ hint: expect.stringContaining('tidemark adopt') });
    const { inferred, report } = await adoptTree(folder);
    expect(inferred).toBeNull();
    expect(report?.totals).toMatchObject({ sound: ROWS });
    expect((await settingsForResume(host, folder, {}, place)).layout.tree?.paths).toMatch(/^[0-9a-f]{64}$/);
  });

  it('rows that were appended to a dataset whose rows were dealt to ranks', async () => {
    const folder = folderOf('SpecForge, rows dealt to two ranks');
    const grown = join(place, 'grown.jsonl');
    writeFileSync(grown, `${readFileSync(join(place, 'rows.jsonl'), 'utf8')}{"input_ids":[5,6,7]}\n`);
    const end = await tidemark(['resume', folder, '--dataset', grown]);
    expect(end.code).toBe(4);
    expect(end.stderr).toContain('the dataset has grown from 16 to 17 rows');
  });
});

it('shows what it found, and says the command that records it', async () => {
  const folder = folderOf('shown');
  for (const row of [...Array(12).keys()]) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `hs_${row}.safetensors`), readFileSync(join(folderOf('speculators'), `hs_${row}.safetensors`)));
  }
  const argv = [
    'adopt',
    folder,
    '--dataset',
    join(place, 'rows.jsonl'),
    '--model',
    MODEL,
    '--url',
    url,
    '--staging',
    join(place, 'staging'),
  ];
  const end = await tidemark(argv);
  expect(end.code, end.stderr).toBe(4);
  for (const words of [
    'speculators: hs_{index}.safetensors; safetensors',
    'token_ids I64 [tokens], hidden_states BF16 [tokens, layers, width]',
    '256 wide, 3 auxiliary layers, BF16',
    'last state  pre-norm (the target',
  ]) {
    expect(end.stderr).toContain(words);
  }
  expect(end.stdout).toMatch(/next: tidemark adopt .* --layers 2,4,5 --yes\n$/);
  expect(readdirSync(folder)).toHaveLength(12);
});
