import { describe, expect, test } from 'vitest';
import type { Host } from '../host/host.ts';
import { createHonesty } from './misbehaviour.ts';
import type { EngineModel } from './model.ts';
import { createEngineServer } from './server.ts';
import type { EngineText } from './text.ts';

const unused = (): never => {
  throw new Error('/home/secret/not-used-in-this-test.ts');
};

const host: Host = {
  get files() {
    return unused();
  },
  get http() {
    return unused();
  },
  clock: { now: () => 1_700_000_000_000, monotonicMs: () => 0, sleep: () => new Promise(() => undefined) },
  get machine() {
    return unused();
  },
  randomBytes: (length) => new Uint8Array(length),
};

/** Says `c` after everything; token ids are character codes. */
const text: EngineText = {
  encode: (words) => Array.from(words, (letter) => letter.charCodeAt(0)),
  encodeWithSpecialTokens: (words) => Array.from(words, (letter) => letter.charCodeAt(0)),
  decode: (ids) => String.fromCharCode(...ids),
  renderChat: () => unused(),
};

function model(prefill: EngineModel['prefill']): EngineModel {
  const facts = {
    layerCount: 2,
    hiddenSize: 4,
    vocabularySize: 128,
    contextLength: 16,
    keyValueHeadCount: 1,
    headSize: 2,
    endTokenIds: [0],
  };
  return { facts, prefill, decode: unused, release: () => Promise.resolve() };
}

function server(prefill: EngineModel['prefill']) {
  const log: string[] = [];
  const engine = createEngineServer({
    host,
    text,
    model: model(prefill),
    staging: null,
    misbehaviour: createHonesty(unused),
    options: {
      servedName: 'tiny',
      version: '1',
      contextLength: 16,
      layerIds: [1, 2],
      dtype: 'float32',
      batchMost: 4,
      runningMost: 4,
      queuedMost: 8,
      loopbackOnly: true,
      log: (line) => log.push(line),
    },
  });
  const post = (url: string, payload: object) => engine.app.inject({ method: 'POST', url, payload, headers: { host: 'localhost:1' } });
  const health = async () => (await engine.app.inject({ url: '/health', headers: { host: '127.0.0.1' } })).statusCode;
  return { engine, log, post, health };
}

const logitsOf = (id: number): Float32Array => Float32Array.from({ length: 128 }, (_, at) => (at === id ? 1 : 0));

describe('the server without a socket', () => {
  test('answers a string prompt', async () => {
    const { post, health } = server(async (rows) => rows.map(() => ({ logits: logitsOf(99), states: null, cache: null })));
    const answer = await post('/v1/completions', { prompt: 'ab', max_tokens: 1, temperature: 0 });
    expect([answer.statusCode, answer.json().choices[0].text, answer.json().choices[0].token_ids]).toEqual([200, 'c', null]);
    expect(await health()).toBe(200);
  });

  test('is dead after the model failed, and says so without saying where', async () => {
    const { post, health, log } = server(unused);
    for (let i = 0; i < 2; i++) {
      const answer = await post('/v1/completions', { prompt: [1, 2], max_tokens: 1 });
      expect(answer.statusCode).toBe(500);
      expect(answer.json().error).toEqual({
        message: 'the engine died; restart the server',
        type: 'EngineDeadError',
        param: null,
        code: 500,
      });
    }
    expect(await health()).toBe(503);
    expect(log.join()).toContain('not-used-in-this-test');
  });

  test('keeps an unexpected error to its log', async () => {
    const { post, log } = server(unused);
    const answer = await post('/tokenize', { messages: [{ role: 'user', content: 'hi' }] });
    expect(answer.statusCode).toBe(500);
    expect(answer.body).not.toMatch(/secret|at /);
    expect(log).toEqual(['500: /home/secret/not-used-in-this-test.ts']);
  });

  test('refuses newcomers while it drains', async () => {
    const { engine, post } = server(async (rows) => rows.map(() => ({ logits: logitsOf(99), states: null, cache: null })));
    expect(await engine.drain(1000)).toBe(true);
    await expect(post('/v1/completions', { prompt: [1], max_tokens: 1 })).rejects.toThrow(/closed/);
  });
});
