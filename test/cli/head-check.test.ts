import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FolderHeadCheckReport, runHeadCheck } from '../../src/app/head-check-folder.ts';
import { headCheckLines } from '../../src/app/head-check-words.ts';
import { createHost } from '../../src/app/host.ts';
import { bf16ToFloat32, roundToBf16 } from '../../src/format/bf16.ts';
import { readSafetensors } from '../../src/format/safetensors.ts';
import { writeSafetensors } from '../../src/format/safetensors-writer.ts';
import type { Dtype, TensorSource } from '../../src/format/tensors.ts';
import { readTorchZip } from '../../src/format/torch-zip.ts';
import { writeTorchZip } from '../../src/format/torch-zip-writer.ts';
import { freePort, MODEL, ROOT, type Running, startEngine, tidemark } from '../support/processes.ts';
import { memoryFile } from '../support/scenes/emit.ts';
import { seededRandom } from '../support/seeded-random.ts';

// The shipped target's own states, extracted for real, and wrong ones planted from them: each is told.

const ROWS = 24;
const WIDTH = 256;
const host = createHost();
let place: string;
let engine: Running;
const rows: Stored[] = [];

interface Stored {
  readonly path: string;
  readonly tokens: number;
  readonly ids: Uint8Array;
  readonly mask: Uint8Array;
  /** [tokens, WIDTH] bf16 behind the norm, as `extract` stored it. */
  readonly last: Uint16Array;
  /** [tokens, WIDTH] bf16 before it, and the states after five and two layers, as the server gave them. */
  readonly before: Uint16Array;
  readonly lower: Uint16Array;
  readonly low: Uint16Array;
  /** [tokens, 4, WIDTH] float32, the server's own. */
  readonly captured: Float32Array;
}

beforeAll(async () => {
  place = mkdtempSync(join(tmpdir(), 'tidemark-head-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const staging = join(place, 'staging');
  engine = await startEngine(port, staging);
  const dataset = join(place, 'merged.jsonl');
  writeFileSync(dataset, readFileSync(join(ROOT, 'test/support/dialogues.jsonl'), 'utf8').split('\n').slice(0, ROWS).join('\n'));
  const folder = join(place, 'good');
  const flags = [
    '--output',
    folder,
    '--dataset',
    dataset,
    '--model',
    MODEL,
    '--url',
    url,
    '--staging',
    staging,
    '--group-size',
    '10',
    '--reserve',
    '1MB',
  ];
  const end = await tidemark(['extract', ...flags]);
  expect(end.code, end.stderr).toBe(0);
  for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ckpt'))) {
    rows.push(await load(folder, path, url));
  }
  expect(rows.length).toBe(ROWS);
});

afterAll(async () => {
  engine.kill('SIGKILL');
  await engine.finished;
  rmSync(place, { recursive: true });
});

async function load(folder: string, path: string, url: string): Promise<Stored> {
  const bytes = readFileSync(join(folder, path));
  const zip = await readTorchZip(memoryFile(bytes));
  if (!zip.ok) throw new Error(zip.damage.detail);
  const of = (name: string): Uint8Array => {
    const tensor = zip.value.tensors.get(name);
    return Uint8Array.from(bytes.subarray(tensor?.fileOffset ?? 0, (tensor?.fileOffset ?? 0) + (tensor?.bytes ?? 0)));
  };
  const ids = of('input_ids');
  const captured = await capture(url, Array.from(new BigInt64Array(ids.buffer), Number));
  const tokens = ids.length / 8;
  const slot = (at: number): Uint16Array => {
    const out = new Uint16Array(tokens * WIDTH);
    for (let token = 0; token < tokens; token += 1) {
      const from = (token * 4 + at) * WIDTH;
      roundToBf16(captured.slice(from, from + WIDTH), out.subarray(token * WIDTH, (token + 1) * WIDTH));
    }
    return out;
  };
  return {
    path,
    tokens,
    ids,
    mask: of('loss_mask'),
    last: new Uint16Array(of('hidden_state').buffer),
    before: slot(3),
    lower: slot(2),
    low: slot(0),
    captured,
  };
}

/** What the server itself gives for these ids: [tokens, 4, WIDTH] float32 at boundaries 2, 4, 5 and 8. */
async function capture(url: string, prompt: readonly number[]): Promise<Float32Array> {
  const models = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
  const body = { model: models.data[0]?.id, prompt, max_tokens: 1, temperature: 0, return_token_ids: true };
  const answer = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const { kv_transfer_params } = (await answer.json()) as { kv_transfer_params: { hidden_states_path: string } };
  for (let tries = 0; ; tries += 1) {
    const bytes = await host.files.readSmall(kv_transfer_params.hidden_states_path, 1 << 28);
    const read = bytes === null ? null : await readSafetensors(memoryFile(bytes));
    const tensor = read?.ok ? read.value.tensors.get('hidden_states') : undefined;
    if (bytes !== null && tensor !== undefined) {
      return new Float32Array(Uint8Array.from(bytes.subarray(tensor.fileOffset, tensor.fileOffset + tensor.bytes)).buffer);
    }
    if (tries > 100) throw new Error('the server wrote no states');
    await host.clock.sleep(50);
  }
}

function tensor(name: string, dtype: Dtype, shape: readonly number[], bytes: Uint8Array): TensorSource {
  return { name, dtype, shape, pieces: () => [bytes] };
}

async function save(path: string, pieces: AsyncIterable<Uint8Array>): Promise<void> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces) parts.push(Uint8Array.from(piece));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, Buffer.concat(parts));
}

/** A tree like the good one, with other last states. */
async function plant(name: string, change: (row: Stored, at: number) => Uint16Array): Promise<string> {
  const folder = join(place, name);
  for (const [at, row] of rows.entries()) {
    const last = change(row, at);
    const tensors = [
      tensor('input_ids', 'I64', [row.tokens], row.ids),
      tensor('loss_mask', 'I64', [row.tokens], row.mask),
      tensor('hidden_state', 'BF16', [1, row.tokens, WIDTH], new Uint8Array(last.buffer, last.byteOffset, last.byteLength)),
      tensor('aux_hidden_state', 'BF16', [1, row.tokens, WIDTH], new Uint8Array(row.lower.buffer)),
    ];
    await save(join(folder, row.path), writeTorchZip(tensors, { stem: 'data' }));
  }
  return folder;
}

const check = (folder: string, more: object = {}): Promise<FolderHeadCheckReport> =>
  runHeadCheck(host, folder, { model: MODEL, dataset: null, seed: 7, cwd: place, ...more });

/** States of place t + by at place t. */
function shifted({ last, tokens }: Stored, by: number): Uint16Array {
  const out = new Uint16Array(last.length);
  for (let token = 0; token < tokens; token += 1) {
    const from = Math.min(Math.max(token + by, 0), tokens - 1);
    out.set(last.subarray(from * WIDTH, (from + 1) * WIDTH), token * WIDTH);
  }
  return out;
}

function otherRow(at: number): Uint16Array {
  const row = rows[at];
  const other = rows[(at + 7) % rows.length];
  if (row === undefined || other === undefined) throw new Error('rows were loaded');
  return Uint16Array.from({ length: row.last.length }, (_, place) => other.last[place % other.last.length] ?? 0);
}

describe('the head check', () => {
  it('finds the extracted states to be what they are', async () => {
    const report = await check(join(place, 'good'));
    expect(report).toMatchObject({
      verdict: 'post-norm',
      shift: 0,
      positions: 192,
      files: ROWS,
      filesThere: ROWS,
      perFile: [],
      skipped: [],
    });
    expect(report.undoneRms).toBeCloseTo(1, 2);
    expect(report.meanLogProb.stored - report.meanLogProb.shuffled).toBeGreaterThan(5);
    expect(report.top1.stored).toBeGreaterThan(0.9);
    expect(await check(join(place, 'good'))).toEqual(report);
    const said = headCheckLines(report).join('\n');
    for (const words of [
      'head check: post-norm',
      '192 places in 24 of 24 files (seed 7)',
      'model.embed_tokens.weight, tied',
      '1.0000 (1 behind the norm)',
    ]) {
      expect(said).toContain(words);
    }
  });

  it('does so against the rows of the dataset too', async () => {
    expect(await check(join(place, 'good'), { dataset: 'merged.jsonl' })).toMatchObject({ verdict: 'post-norm', perFile: [] });
  });

  it('tells states before the norm, which may predict as well', async () => {
    const report = await check(await plant('before', (row) => row.before));
    expect(report).toMatchObject({ verdict: 'pre-norm', shift: 0, perFile: [] });
    expect(Math.abs((report.undoneRms ?? 1) - 1)).toBeGreaterThan(0.05);
  });

  it('tells states of another row', async () => {
    expect(await check(await plant('other', (_, at) => otherRow(at)))).toMatchObject({ verdict: 'does-not-predict' });
  });

  it('tells states that are all zero', async () => {
    const report = await check(await plant('zero', (row) => new Uint16Array(row.last.length)));
    expect(report).toMatchObject({ verdict: 'does-not-predict', zeroStates: 192 });
    expect(report.detail).toContain('192 states are all zero');
  });

  it.each([-2, -1, 1, 2])('tells states shifted by %i, and by how much', async (by) => {
    expect(await check(await plant(`shift${by}`, (row) => shifted(row, by)))).toMatchObject({ verdict: 'shifted', shift: by, perFile: [] });
  });

  it.each(['low', 'lower'] as const)('warns of states of a layer below the last (%s), which predict a little', async (layer) => {
    const report = await check(await plant(layer, (row) => row[layer]));
    // Nothing but the size of the loss tells them from a model on hard text.
    expect(report.meanLogProb.normed).toBeLessThan(-1.5);
    expect(report.detail).toContain('look for a layer below the last');
  });

  it('lets the rounding of another server pass', async () => {
    const random = seededRandom(3);
    const noisy = (row: Stored): Uint16Array => {
      const values = new Float32Array(row.last.length);
      bf16ToFloat32(row.last, values);
      const out = new Uint16Array(row.last.length);
      roundToBf16(
        values.map((value) => value * (1 + (random.fraction() - 0.5) / 64)),
        out,
      );
      return out;
    };
    expect(await check(await plant('noise', noisy))).toMatchObject({ verdict: 'post-norm', perFile: [] });
  });

  it('names the few files that differ from the others, and how', async () => {
    const folder = await plant('few', (row, at) => {
      if (at === 3) return row.before;
      if (at === 7) return otherRow(at);
      if (at === 11) return new Uint16Array(row.last.length);
      return at === 15 ? shifted(row, 1) : row.last;
    });
    const report = await check(folder);
    expect(report.verdict).toBe('post-norm');
    const told = Object.fromEntries(report.perFile.map((file) => [file.path, `${file.verdict} ${file.shift}`]));
    expect(told).toEqual({
      [rows[3]?.path ?? '']: 'pre-norm 0',
      [rows[7]?.path ?? '']: 'does-not-predict 0',
      [rows[11]?.path ?? '']: 'does-not-predict 0',
      [rows[15]?.path ?? '']: 'shifted 1',
    });
  });

  it('skips damaged files, and says so when too little is left', async () => {
    const folder = await plant('torn', (row) => row.last);
    for (const { path } of rows.slice(0, 4)) writeFileSync(join(folder, path), readFileSync(join(folder, path)).subarray(0, 5000));
    const report = await check(folder);
    expect(report.verdict).toBe('post-norm');
    expect(report.skipped.map(({ path }) => path).sort()).toEqual(
      rows
        .slice(0, 4)
        .map(({ path }) => path)
        .sort(),
    );
    for (const { path } of rows.slice(4, -2)) rmSync(join(folder, path));
    await expect(check(folder)).rejects.toMatchObject({ code: 'decision-needed' });
  });

  it('reads the last slot of files that hold all layers', async () => {
    const folder = join(place, 'speculators');
    for (const [at, row] of rows.entries()) {
      const states = tensor('hidden_states', 'F32', [row.tokens, 4, WIDTH], new Uint8Array(row.captured.buffer));
      await save(join(folder, `hs_${at}.safetensors`), writeSafetensors([states, tensor('token_ids', 'I64', [row.tokens], row.ids)]));
    }
    expect(await check(folder)).toMatchObject({ verdict: 'pre-norm', shift: 0, files: ROWS, perFile: [], skipped: [] });
  });
});
