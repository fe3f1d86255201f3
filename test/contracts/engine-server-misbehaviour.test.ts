import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readSafetensors } from '../../src/format/safetensors.ts';
import { createLocalHost } from '../../src/host/local.ts';
import { runEngine } from '../../src/serve/engine-command.ts';

const directory = new URL('../../models/tide-5m', import.meta.url).pathname;
const host = createLocalHost();
let root: string;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'tidemark-misbehave-'));
});

afterAll(async () => {
  await host.http.close();
  await rm(root, { recursive: true, force: true });
});

const PROMPT: readonly number[] = Array.from({ length: 40 }, (_, index) => 5 + ((index * 37) % 1300));

interface Answer {
  readonly status: number;
  readonly path: string | null;
  readonly echoed: readonly number[];
}

async function extract(url: string, signal: AbortSignal = AbortSignal.timeout(20_000)): Promise<Answer> {
  const answer = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: PROMPT, max_tokens: 1, temperature: 0, return_token_ids: true }),
    signal,
  });
  const json: {
    choices?: { prompt_token_ids: number[] }[];
    kv_transfer_params?: { hidden_states_path: string } | null;
  } = JSON.parse(await answer.text());
  return {
    status: answer.status,
    path: json.kv_transfer_params?.hidden_states_path ?? null,
    echoed: json.choices?.[0]?.prompt_token_ids ?? [],
  };
}

let stagingCount = 0;

async function misbehaving<T>(spec: string, use: (url: string, staging: string) => Promise<T>): Promise<T> {
  stagingCount += 1;
  const staging = `${root}/staging-${stagingCount}`;
  const stop = new AbortController();
  const running = await runEngine(
    { modelDirectory: directory, staging, version: '0.1.0', misbehave: [spec], symlink, drainMs: 200, log: () => undefined },
    host,
    stop.signal,
  );
  try {
    return await use(running.url, staging);
  } finally {
    stop.abort();
    await running.closed;
  }
}

const sleep = (ms: number): Promise<void> => host.clock.sleep(ms);

async function appears(path: string | null, withinMs = 3000): Promise<boolean> {
  for (let waited = 0; waited <= withinMs; waited += 20) {
    if (path !== null && (await host.files.stat(path)) !== null) return true;
    await sleep(20);
  }
  return false;
}

async function parse(path: string) {
  const bytes = await readFile(path);
  const opened = await readSafetensors({ size: bytes.length, read: async (at, length) => bytes.subarray(at, at + length) });
  if (!opened.ok) return { bytes, damage: opened.damage, shape: [], states: new Float32Array(0), ids: [] };
  const bytesOf = (name: string): ArrayBuffer => {
    const tensor = opened.value.tensors.get(name);
    return tensor === undefined
      ? new ArrayBuffer(0)
      : new Uint8Array(bytes.subarray(tensor.fileOffset, tensor.fileOffset + tensor.bytes)).buffer;
  };
  return {
    bytes,
    damage: null,
    shape: opened.value.tensors.get('hidden_states')?.shape ?? [],
    states: new Float32Array(bytesOf('hidden_states')),
    ids: Array.from(new BigInt64Array(bytesOf('token_ids')), Number),
  };
}

async function capture(url: string) {
  const answer = await extract(url);
  expect(answer.status).toBe(200);
  expect(await appears(answer.path)).toBe(true);
  return parse(answer.path ?? '');
}

const ROW = 4 * 256;

describe('what is wrong inside a whole file', () => {
  test('short: fewer rows than ids, on the request that was named', async () => {
    await misbehaving('short:by=16,on=2', async (url) => {
      expect((await capture(url)).shape).toEqual([40, 4, 256]);
      const short = await capture(url);
      expect([short.shape, short.ids]).toEqual([[24, 4, 256], PROMPT]);
      expect((await capture(url)).shape).toEqual([40, 4, 256]);
    });
  });

  test('nan, inf, zero-states, zero-tail, drop-last-layer, equal-layers, wrong-file-ids', async () => {
    await misbehaving(
      'nan:on=1;inf:on=2;zero-states:on=3;zero-tail:by=8,on=4;drop-last-layer:on=5;equal-layers:on=6;wrong-file-ids:on=7',
      async (url) => {
        expect((await capture(url)).states.filter(Number.isNaN)).toHaveLength(1);
        expect((await capture(url)).states.filter((value) => value === Number.POSITIVE_INFINITY)).toHaveLength(1);
        expect((await capture(url)).states.every((value) => value === 0)).toBe(true);
        const tail = await capture(url);
        expect(tail.shape).toEqual([40, 4, 256]);
        expect(tail.states.subarray(32 * ROW).every((value) => value === 0)).toBe(true);
        expect(tail.states.subarray(0, 32 * ROW).some((value) => value === 0)).toBe(false);
        expect((await capture(url)).shape).toEqual([40, 3, 256]);
        const equal = await capture(url);
        expect(equal.states.subarray(0, 256)).toEqual(equal.states.subarray(256, 512));
        expect((await capture(url)).ids).not.toEqual(PROMPT);
        const honest = await capture(url);
        expect([honest.ids, honest.states.every(Number.isFinite)]).toEqual([PROMPT, true]);
      },
    );
  });
});

describe('what is wrong with the answer', () => {
  test('wrong-ids, no-path', async () => {
    await misbehaving('wrong-ids:on=1;no-path:on=2', async (url) => {
      const wrong = await extract(url);
      expect(wrong.echoed).toHaveLength(40);
      expect(wrong.echoed).not.toEqual(PROMPT);
      expect(await extract(url)).toMatchObject({ status: 200, path: null, echoed: PROMPT });
    });
  });

  test('foreign-path, link-path: the file is there, but not a plain file in the folder', async () => {
    await misbehaving('foreign-path:on=1;link-path:on=2', async (url, staging) => {
      const foreign = await extract(url);
      expect(foreign.path?.startsWith(`${staging}/`)).toBe(false);
      expect(await appears(foreign.path)).toBe(true);
      const link = await extract(url);
      expect(link.path?.startsWith(`${staging}/`)).toBe(true);
      expect(await appears(link.path)).toBe(true);
      expect((await host.files.stat(link.path ?? ''))?.kind).toBe('link');
      expect((await host.files.realPath(link.path ?? ''))?.startsWith(`${staging}/`)).toBe(false);
    });
  });

  test('503, 429, 500, 400, drop', async () => {
    await misbehaving('503:on=1;429:on=2;500:on=3;400:on=4;drop:on=5', async (url) => {
      for (const status of [503, 429, 500, 400]) expect((await extract(url)).status).toBe(status);
      await expect(extract(url)).rejects.toThrow();
      expect((await extract(url)).status).toBe(200);
    });
  });

  test('slow answers late, hang never, and health can lie about it', async () => {
    await misbehaving('slow=400:on=1;hang:after=1', async (url) => {
      const started = host.clock.monotonicMs();
      expect((await extract(url)).status).toBe(200);
      expect(host.clock.monotonicMs() - started).toBeGreaterThanOrEqual(400);
      const health = sleep(300).then(async () => (await fetch(`${url}/health`)).status);
      await expect(extract(url, AbortSignal.timeout(800))).rejects.toThrow();
      expect(await health).toBe(503);
      await sleep(100);
      expect((await fetch(`${url}/health`)).status).toBe(200);
    });
    await misbehaving('hang;health-lies', async (url) => {
      const health = sleep(300).then(async () => (await fetch(`${url}/health`)).status);
      await expect(extract(url, AbortSignal.timeout(800))).rejects.toThrow();
      expect(await health).toBe(200);
    });
    await misbehaving('health-503', async (url) => {
      expect((await fetch(`${url}/health`)).status).toBe(503);
    });
  });
});

describe('what is wrong with the way to the file', () => {
  test('late, lock-free-no-file, never-completes, no-lock', async () => {
    await misbehaving('late=700:on=1;lock-free-no-file:on=2;never-completes:on=3;no-lock:on=4', async (url, staging) => {
      const late = await extract(url);
      expect(await host.files.stat(`${late.path}.lock`)).not.toBeNull();
      expect(await appears(late.path, 300)).toBe(false);
      expect(await appears(late.path)).toBe(true);
      const none = await extract(url);
      expect(await host.files.stat(`${none.path}.lock`)).not.toBeNull();
      expect(await appears(none.path, 500)).toBe(false);
      const half = await extract(url);
      expect(await appears(half.path, 500)).toBe(false);
      expect((await readdir(staging)).filter((name) => name.endsWith('.tmp'))).toHaveLength(1);
      const free = await extract(url);
      expect(await appears(free.path)).toBe(true);
      expect(await host.files.stat(`${free.path}.lock`)).toBeNull();
    });
  });

  test('cut-file, grows, zeros-first, mode-0600, litter', async () => {
    // Long enough that a slow machine sees the file before it is whole; its end is waited for, not guessed.
    const whole = async (path: string) => {
      while ((await parse(path)).damage !== null) await sleep(100);
    };
    await misbehaving('cut-file:on=1;grows=5000:on=2;zeros-first=5000:on=3;mode-0600:on=4;litter:on=5', async (url, staging) => {
      const cut = await capture(url);
      expect(cut.damage).toMatchObject({ kind: 'torn', reason: 'truncated' });
      const growing = await extract(url);
      expect(await appears(growing.path)).toBe(true);
      expect((await parse(growing.path ?? '')).damage).toMatchObject({ kind: 'torn' });
      await whole(growing.path ?? '');
      expect(await parse(growing.path ?? '')).toMatchObject({ damage: null, ids: PROMPT });
      const zeros = await extract(url);
      expect(await appears(zeros.path)).toBe(true);
      const before = (await parse(zeros.path ?? '')).bytes;
      expect(before.every((byte) => byte === 0)).toBe(true);
      await whole(zeros.path ?? '');
      const after = await parse(zeros.path ?? '');
      expect([after.bytes.length, after.damage]).toEqual([before.length, null]);
      const closed = await extract(url);
      expect(await appears(closed.path)).toBe(true);
      expect((await host.files.stat(closed.path ?? ''))?.mode).toBe(0o600);
      expect((await capture(url)).damage).toBeNull();
      const names = await readdir(staging);
      expect(names.filter((name) => name.endsWith('.tmp'))).toHaveLength(1);
      expect(names.filter((name) => name.startsWith('cmpl-gone-') && name.endsWith('.lock'))).toHaveLength(1);
    });
  });
});

describe('a process that dies', () => {
  /** A process of its own, for it will be killed by its own hand. */
  async function startProcess(spec: string, staging: string): Promise<{ child: ChildProcess; url: string }> {
    const code = `
      import { createLocalHost } from ${JSON.stringify(new URL('../../src/host/local.ts', import.meta.url).href)};
      import { runEngine } from ${JSON.stringify(new URL('../../src/serve/engine-command.ts', import.meta.url).href)};
      const options = ${JSON.stringify({ modelDirectory: directory, staging, version: '0.1.0', misbehave: [spec] })};
      const engine = await runEngine({ ...options, log: (line) => console.error(line) }, createLocalHost(), new AbortController().signal);
      console.log(engine.url);
    `;
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = await once(child.stdout, 'data');
    return { child, url: String(line).trim() };
  }

  test('die: the request that was named gets no answer', async () => {
    const { child, url } = await startProcess('die:after=1', `${root}/die`);
    const exit = once(child, 'exit');
    expect((await extract(url)).status).toBe(200);
    await expect(extract(url)).rejects.toThrow();
    expect(await exit).toEqual([null, 'SIGKILL']);
  });

  test('torn-write-then-die: the answer is out, half a file stands under its final name', async () => {
    const { child, url } = await startProcess('torn-write-then-die', `${root}/torn`);
    const exit = once(child, 'exit');
    const answer = await extract(url);
    expect(await exit).toEqual([null, 'SIGKILL']);
    expect((await parse(answer.path ?? '')).damage).toMatchObject({ kind: 'torn', reason: 'truncated' });
  });
});
