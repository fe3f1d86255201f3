import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bf16ToFloat32, roundToBf16 } from '../../src/format/bf16.ts';
import { readSafetensors } from '../../src/format/safetensors.ts';
import { createLocalHost } from '../../src/host/local.ts';
import { type EngineOptions, type RunningEngine, runEngine } from '../../src/serve/engine-command.ts';
import { type EngineModel, loadModel } from '../../src/serve/model.ts';

const directory = new URL('../../models/tide-5m', import.meta.url).pathname;
const host = createLocalHost();
let root: string;
let model: EngineModel;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'tidemark-engine-'));
  model = await loadModel(host, { directory, threadCount: 2 });
});

afterAll(async () => {
  await model.release();
  await host.http.close();
  await rm(root, { recursive: true, force: true });
});

/** Runs the real server on a real port for the length of `use`. */
async function withEngine<T>(options: Partial<EngineOptions>, use: (engine: Engine) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const log: string[] = [];
  const running = await runEngine(
    { modelDirectory: directory, staging: `${root}/staging`, version: '0.1.0', log: (line) => log.push(line), ...options },
    host,
    stop.signal,
  );
  try {
    return await use(createEngine(running, log));
  } finally {
    stop.abort();
    await running.closed;
  }
}

type Engine = ReturnType<typeof createEngine>;

interface Choice {
  readonly message: { readonly content: string };
  readonly delta: { readonly role?: string; readonly content?: string };
  readonly finish_reason: string | null;
  readonly stop_reason: string | null;
  readonly token_ids: readonly number[];
  readonly prompt_token_ids: readonly number[];
}

/** The fields that these tests look at, as they should be; a missing one fails the comparison that follows. */
interface Json {
  readonly id: string;
  readonly choices: readonly [Choice, ...Choice[]];
  readonly prompt_token_ids: readonly number[];
  readonly usage: { readonly prompt_tokens: number };
  readonly kv_transfer_params: { readonly hidden_states_path: string };
  readonly error: { readonly type: string; readonly message: string; readonly code: number };
  readonly tokens: readonly number[];
  readonly prompt: string;
}

function createEngine(running: RunningEngine, log: readonly string[]) {
  const send = async (
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<{ status: number; json: Json }> => {
    const answer = await fetch(running.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    return { status: answer.status, json: JSON.parse(await answer.text()) };
  };
  const get = async (path: string): Promise<{ status: number; text: string }> => {
    const answer = await fetch(running.url + path);
    return { status: answer.status, text: await answer.text() };
  };
  return {
    url: running.url,
    log,
    send,
    get,
    chat: (content: string, more: object = {}) =>
      send('/v1/chat/completions', { messages: [{ role: 'user', content }], temperature: 0, return_token_ids: true, ...more }),
    extract: (prompt: readonly number[], more: object = {}) =>
      send('/v1/completions', { prompt, max_tokens: 1, temperature: 0, return_token_ids: true, ...more }),
  };
}

async function waitForFile(path: string): Promise<Buffer> {
  for (let i = 0; i < 500; i++) {
    if ((await host.files.stat(path)) !== null) return readFile(path);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`${path} never appeared`);
}

/** The capture that an answer points to. */
async function readCapture(path: string) {
  const bytes = await waitForFile(path);
  const parsed = await readSafetensors({ size: bytes.length, read: async (offset, length) => bytes.subarray(offset, offset + length) });
  if (!parsed.ok) throw new Error(parsed.damage.detail);
  const states = parsed.value.tensors.get('hidden_states');
  const ids = parsed.value.tensors.get('token_ids');
  if (states === undefined || ids === undefined) throw new Error('a tensor is missing');
  const part = (at: number, length: number): ArrayBuffer => new Uint8Array(bytes.subarray(at, at + length)).buffer;
  return {
    bytes,
    dtype: states.dtype,
    shape: states.shape,
    raw: part(states.fileOffset, states.bytes),
    tokenIds: Array.from(new BigInt64Array(part(ids.fileOffset, ids.bytes)), Number),
    idsDtype: ids.dtype,
  };
}

/** What the model says when it is asked directly, as [token][layer][hidden]. */
async function direct(prompt: readonly number[], layerIds: readonly number[]): Promise<Float32Array> {
  const [result] = await model.prefill([prompt], { states: true, cache: false });
  const hiddenSize = model.facts.hiddenSize;
  return Float32Array.from({ length: prompt.length * layerIds.length * hiddenSize }, (_, at) => {
    const token = Math.floor(at / (layerIds.length * hiddenSize));
    const layer = layerIds[Math.floor(at / hiddenSize) % layerIds.length] ?? 0;
    return result?.states?.layer(layer)[token * hiddenSize + (at % hiddenSize)] ?? Number.NaN;
  });
}

function prompt(length: number, seed: number): readonly number[] {
  return Array.from({ length }, (_, index) => 5 + ((index * 31 + seed * 97 + index * index * 7) % 1339));
}

const sameBits = (a: ArrayBufferLike, b: ArrayBufferLike): boolean => Buffer.from(new Uint8Array(a)).equals(Buffer.from(new Uint8Array(b)));

describe('extraction', () => {
  test('answers in the vLLM dialect and leaves the prompt’s states, exactly as the model computes them', async () => {
    await withEngine({}, async (engine) => {
      const ids = prompt(37, 1);
      const { status, json } = await engine.extract(ids, { request_id: 'row-17', model: 'tide-5m' });
      expect(status).toBe(200);
      expect(json.id).toBe('cmpl-row-17');
      expect(json.choices).toHaveLength(1);
      expect(json.choices[0].prompt_token_ids).toEqual(ids);
      expect(json.choices[0].token_ids).toHaveLength(1);
      expect(json.choices[0].finish_reason).toBe('length');
      expect(json.usage).toEqual({ prompt_tokens: 37, completion_tokens: 1, total_tokens: 38 });
      const path: string = json.kv_transfer_params.hidden_states_path;
      expect(path).toMatch(new RegExp(`^${root}/staging/cmpl-row-17-0-[0-9a-f]{8}\\.safetensors$`));
      expect(await host.files.stat(`${path}.lock`)).toMatchObject({ bytes: 0, mode: 0o644 });
      const capture = await readCapture(path);
      expect(capture).toMatchObject({ dtype: 'F32', shape: [37, 4, 256], idsDtype: 'I64', tokenIds: ids });
      expect(sameBits(capture.raw, (await direct(ids, [2, 4, 5, 8])).buffer)).toBe(true);
      expect((await host.files.stat(path))?.mode).toBe(0o644);
      expect((await host.files.list(`${root}/staging`))?.filter((entry) => entry.name.endsWith('.tmp'))).toEqual([]);
      // Last, because it is the canary's test: rows do not depend on what follows them.
      const longer = await readCapture((await engine.extract([...ids, ...prompt(20, 2)])).json.kv_transfer_params.hidden_states_path);
      const [short, long] = [new Float32Array(capture.raw), new Float32Array(longer.raw)];
      expect(short.every((value, at) => Math.abs(value - (long[at] ?? Number.NaN)) <= 1e-3 + 1e-4 * Math.abs(value))).toBe(true);
    });
  });

  test('takes other layers and bfloat16, rounded to nearest', async () => {
    await withEngine({ layerIds: [0, 3, 8], dtype: 'bfloat16' }, async (engine) => {
      const ids = prompt(12, 4);
      const capture = await readCapture((await engine.extract(ids)).json.kv_transfer_params.hidden_states_path);
      expect(capture).toMatchObject({ dtype: 'BF16', shape: [12, 3, 256] });
      const exact = await direct(ids, [0, 3, 8]);
      const rounded = new Uint16Array(exact.length);
      roundToBf16(exact, rounded);
      expect(sameBits(capture.raw, rounded.buffer)).toBe(true);
      const widened = new Float32Array(exact.length);
      bf16ToFloat32(new Uint16Array(capture.raw), widened);
      expect(widened.every((value, at) => Math.abs(value - (exact[at] ?? Number.NaN)) <= Math.abs(value) / 256)).toBe(true);
    });
  });

  test('gives the same files for 16 requests of mixed lengths at once as one after the other', async () => {
    await withEngine({}, async (engine) => {
      const prompts = Array.from({ length: 48 }, (_, index) => prompt([40, 61, 61, 150, 7, 40][index % 6] ?? 1, index));
      const files = async (concurrency: number): Promise<readonly Buffer[]> => {
        const found: Buffer[] = [];
        const waiting = [...prompts.entries()];
        const worker = async (): Promise<void> => {
          for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
            const { json } = await engine.extract(next[1], { max_tokens: 1 + (next[0] % 3) });
            found[next[0]] = (await readCapture(json.kv_transfer_params.hidden_states_path)).bytes;
          }
        };
        await Promise.all(Array.from({ length: concurrency }, worker));
        return found;
      };
      const oneByOne = await files(1);
      const together = await files(16);
      expect(oneByOne).toHaveLength(48);
      for (const [index, bytes] of oneByOne.entries()) expect(together[index]?.equals(bytes)).toBe(true);
    });
  });

  test('writes nothing without a staging folder', async () => {
    await withEngine({ staging: null }, async (engine) => {
      const { status, json } = await engine.extract([1, 2, 3]);
      expect([status, json.kv_transfer_params]).toEqual([200, null]);
    });
  });

  test('gives a repeated request id a second file, and takes the id from the header first', async () => {
    await withEngine({}, async (engine) => {
      const paths = [];
      for (let i = 0; i < 2; i++) {
        const { json } = await engine.send(
          '/v1/completions',
          { prompt: [5, 6], max_tokens: 1, request_id: 'body' },
          { 'x-request-id': 'header' },
        );
        paths.push(json.kv_transfer_params.hidden_states_path);
      }
      expect(new Set(paths).size).toBe(2);
      for (const path of paths) expect(path).toContain('/cmpl-header-0-');
    });
  });
});

describe('chat', () => {
  test('gives the answers that the training report shows, alone and 8 at once', async () => {
    const report: { evaluation: { examples: readonly (readonly [string, string])[] } } = JSON.parse(
      await readFile(`${directory}/report.json`, 'utf8'),
    );
    await withEngine({}, async (engine) => {
      const ask = async ([question]: readonly [string, string]): Promise<string> =>
        (await engine.chat(question)).json.choices[0].message.content;
      const wanted = report.evaluation.examples.map(([, answer]) => answer);
      expect(await Promise.all(report.evaluation.examples.map(ask))).toEqual(wanted);
      expect(await ask(['What is 43 plus 7?', ''])).toBe('43 plus 7 is 50.');
    });
  });

  test('answers with the ids of the prompt and of the answer, its end token included', async () => {
    await withEngine({}, async (engine) => {
      const { json } = await engine.chat('What is 43 plus 7?');
      expect(json.prompt_token_ids).toEqual([1, 2, 330, 272, 225, 24, 23, 563, 225, 27, 35, 4, 3]);
      const choice = json.choices[0];
      expect([choice.finish_reason, choice.token_ids.at(-1)]).toEqual(['stop', 4]);
      expect(json.usage).toEqual({
        prompt_tokens: 13,
        completion_tokens: choice.token_ids.length,
        total_tokens: 13 + choice.token_ids.length,
      });
      const { json: back } = await engine.send('/detokenize', { tokens: choice.token_ids });
      expect(back.prompt).toBe('43 plus 7 is 50.<|end|>');
      // The next turn's prompt begins with the same ids: stage 2 can extract what stage 1 generated.
      const messages = [
        { role: 'user', content: 'What is 43 plus 7?' },
        { role: 'assistant', content: choice.message.content },
      ];
      const { json: whole } = await engine.send('/tokenize', { messages, add_generation_prompt: false });
      expect(whole.tokens).toEqual([...json.prompt_token_ids, ...choice.token_ids]);
      expect(whole).toMatchObject({ count: whole.tokens.length, max_model_len: 1024 });
      const { json: plain } = await engine.send('/tokenize', { prompt: 'What is' });
      expect(plain.tokens).toEqual([330, 272]);
    });
  });

  test('is cut at max_tokens and at a stop string, which it leaves out', async () => {
    await withEngine({}, async (engine) => {
      const cut = (await engine.chat('What is a retry?', { max_tokens: 3 })).json.choices[0];
      expect([cut.finish_reason, cut.token_ids.length, cut.message.content]).toEqual(['length', 3, 'A retry is']);
      const stopped = (await engine.chat('What is a retry?', { stop: ['never', ' little'] })).json.choices[0];
      expect([stopped.finish_reason, stopped.stop_reason]).toEqual(['stop', ' little']);
      expect(stopped.message.content).toBe('A retry is a second try after a failure. It should wait a');
    });
  });

  test('draws the same tokens for the same seed, alone and in company', async () => {
    await withEngine({}, async (engine) => {
      const ask = async (seed: number): Promise<string> =>
        (await engine.chat('Give me advice.', { temperature: 2, seed, max_tokens: 40 })).json.choices[0].message.content;
      const alone = await ask(11);
      const company = await Promise.all([11, 12, 11, 13, 14, 15, 16, 11].map(ask));
      expect([company[0], company[2], company[7]]).toEqual([alone, alone, alone]);
      expect(new Set(company).size).toBeGreaterThan(2);
    });
  });

  test('streams the same answer piece by piece', async () => {
    await withEngine({}, async (engine) => {
      const answer = await fetch(`${engine.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          messages: [{ role: 'user', content: 'What is 43 plus 7?' }],
          temperature: 0,
          stream: true,
          return_token_ids: true,
          stream_options: { include_usage: true },
        }),
      });
      expect(answer.headers.get('content-type')).toContain('text/event-stream');
      const lines = (await answer.text()).split('\n\n').filter((line) => line !== '');
      expect(lines.at(-1)).toBe('data: [DONE]');
      const chunks: Json[] = lines.slice(0, -1).map((line) => JSON.parse(line.replace(/^data: /, '')));
      expect(chunks[0]?.choices[0].delta).toEqual({ role: 'assistant', content: '' });
      expect(chunks[0]?.prompt_token_ids).toHaveLength(13);
      const choices = chunks.flatMap((chunk) => chunk.choices);
      expect(choices.map((choice) => choice.delta.content ?? '').join('')).toBe('43 plus 7 is 50.');
      expect(choices.flatMap((choice) => choice.token_ids).at(-1)).toBe(4);
      expect(choices.at(-1)?.finish_reason).toBe('stop');
      expect(chunks.at(-1)?.usage.prompt_tokens).toBe(13);
    });
  });
});

describe('refusals', () => {
  test('have vLLM’s form and status', async () => {
    await withEngine({ contextLength: 64 }, async (engine) => {
      const refused = async (path: string, body: unknown): Promise<readonly [number, string, string]> => {
        const { status, json } = await engine.send(path, body);
        expect(json.error.code).toBe(status);
        return [status, json.error.type, json.error.message];
      };
      const long = await refused('/v1/completions', { prompt: prompt(64, 1), max_tokens: 1 });
      expect(long).toEqual([400, 'BadRequestError', expect.stringContaining('maximum context length is 64 tokens')]);
      expect((await engine.extract(prompt(63, 1))).status).toBe(200);
      for (const [body, message] of [
        [{ prompt: [] }, 'no token'],
        [{ prompt: [1344] }, 'out of vocabulary'],
        [{ prompt: [1.5] }, 'prompt'],
        [{ prompt: [[1, 2], [3]] }, 'one prompt for each request'],
        [{ prompt: [1], max_tokens: 0 }, 'max_tokens'],
        [{ prompt: [1], temperature: -1 }, 'temperature'],
        [{ prompt: [1], n: 2 }, 'n:'],
        [{ prompt: [1], request_id: '../../etc' }, 'request id'],
        ['{"prompt": [1', 'not JSON'],
      ] as const) {
        expect(await refused('/v1/completions', body)).toEqual([400, 'BadRequestError', expect.stringContaining(message)]);
      }
      expect(await refused('/v1/chat/completions', { messages: [] })).toEqual([
        400,
        'BadRequestError',
        expect.stringContaining('messages'),
      ]);
      expect(await refused('/v1/completions', { prompt: [1], model: 'gpt' })).toEqual([
        404,
        'NotFoundError',
        expect.stringContaining('`gpt`'),
      ]);
      expect((await refused('/v2', {}))[0]).toBe(404);
      expect((await refused('/v1/completions', { prompt: 'x'.repeat(1_100_000) }))[0]).toBe(413);
      expect(engine.log).toEqual([]);
    });
  });

  test('503 when the queue is full, and the rest is served', async () => {
    await withEngine({ runningMost: 2, queuedMost: 6 }, async (engine) => {
      const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => engine.extract(prompt(200, index))));
      const statuses = answers.map((answer) => answer.status);
      expect(new Set(statuses)).toEqual(new Set([200, 503]));
      expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(6);
      const refused = answers.find((answer) => answer.status === 503);
      expect(refused?.json.error).toMatchObject({ type: 'ServiceUnavailableError', code: 503 });
      expect((await engine.extract([5, 6])).status).toBe(200);
    });
  });

  test('a page of another name cannot reach the engine through a browser', async () => {
    await withEngine({}, async (engine) => {
      const { request } = await import('node:http');
      const status = await new Promise((resolve, reject) => {
        const sent = request(`${engine.url}/v1/models`, { headers: { host: 'evil.example' } }, (answer) =>
          resolve(answer.resume().statusCode),
        );
        sent.on('error', reject).end();
      });
      expect(status).toBe(403);
    });
    await expect(withEngine({ address: '0.0.0.0' }, async () => undefined)).rejects.toMatchObject({ code: 'usage' });
  });
});

describe('the server', () => {
  test('names its model, its health and its counters', async () => {
    await withEngine({}, async (engine) => {
      await engine.extract(prompt(30, 1));
      const models = JSON.parse((await engine.get('/v1/models')).text);
      expect(models.data).toMatchObject([{ id: 'tide-5m', object: 'model', max_model_len: 1024 }]);
      expect((await engine.get('/health')).status).toBe(200);
      expect(JSON.parse((await engine.get('/version')).text)).toEqual({ version: '0.1.0' });
      const metrics = (await engine.get('/metrics')).text;
      expect(metrics).toContain('vllm:prompt_tokens_total{engine="0",model_name="tide-5m"} 30\n');
      expect(metrics).toContain('vllm:generation_tokens_total{engine="0",model_name="tide-5m"} 1\n');
      expect(metrics).toContain('vllm:prefix_cache_queries{engine="0",model_name="tide-5m"} 0\n');
      expect(metrics).toMatch(/vllm:num_requests_running\{.*\} [01]\n/);
    });
  });

  test('outlives clients that go away, in the queue and at work', async () => {
    await withEngine({ runningMost: 2 }, async (engine) => {
      const gone = Array.from({ length: 8 }, (_, index) => {
        const body = JSON.stringify({
          messages: [{ role: 'user', content: `Count from 1 to ${20 + index}.` }],
          temperature: 2,
          max_tokens: 900,
          stream: index % 2 === 0,
        });
        return fetch(`${engine.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body,
          signal: AbortSignal.timeout(150),
        }).then((answer) => answer.text());
      });
      await Promise.allSettled(gone);
      expect((await engine.chat('What is 43 plus 7?')).json.choices[0].message.content).toBe('43 plus 7 is 50.');
      expect((await engine.get('/metrics')).text).toMatch(/vllm:num_requests_waiting\{.*\} 0\n/);
      expect(engine.log).toEqual([]);
    });
  });

  test('finishes what runs when it is told to stop, files included', async () => {
    const answers = await withEngine({}, async (engine) => {
      const started = Array.from({ length: 6 }, (_, index) => engine.extract(prompt(300, index)));
      await Promise.race(started);
      return started;
    });
    for (const answer of await Promise.all(answers)) {
      expect([200, 503]).toContain(answer.status);
      if (answer.status === 200) await expect(host.files.stat(answer.json.kv_transfer_params.hidden_states_path)).resolves.not.toBeNull();
    }
  });

  test('refuses options that do not fit, before it listens', async () => {
    for (const options of [
      { layerIds: [5, 2] },
      { layerIds: [9] },
      { contextLength: 5000 },
      { misbehave: ['nonsense'] },
      { staging: 'here' },
    ]) {
      await expect(withEngine(options, async () => undefined)).rejects.toMatchObject({ code: 'usage' });
    }
    await expect(withEngine({ modelDirectory: `${root}/none` }, async () => undefined)).rejects.toMatchObject({ code: 'model' });
  });
});
