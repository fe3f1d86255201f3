import { describe, expect, it } from 'vitest';
import { memoryHost } from '../../test/support/memory-host.ts';
import { TidemarkError } from '../core/errors.ts';
import type { HttpResponse } from '../host/host.ts';
import { Servers, type ServersOptions } from './servers.ts';

const good = { choices: [{ message: { content: 'hi' }, finish_reason: 'stop', token_ids: [3, 4] }], prompt_token_ids: [1, 2] };
const options: ServersOptions = { urls: ['http://a', 'http://b'], headers: {}, timeoutMs: 1000, attempts: 3, retryMs: 1000 };
const signal = new AbortController().signal;

type Reply = { readonly status: number; readonly body?: unknown; readonly headers?: Record<string, string> } | TidemarkError;

/** Servers that answer by a script, the last line of it again and again; `asked` collects the URLs. */
function scripted(script: readonly Reply[], changes: Partial<ServersOptions> = {}) {
  const asked: { url: string; body: unknown; atMs: number }[] = [];
  const machine = memoryHost();
  const http = {
    async request({ url, body }: { url: string; body?: unknown }): Promise<HttpResponse> {
      asked.push({ url, body, atMs: machine.clock.monotonicMs() });
      const reply = script[Math.min(asked.length, script.length) - 1];
      if (reply === undefined) throw new Error('no script');
      if (reply instanceof TidemarkError) throw reply;
      return { status: reply.status, headers: reply.headers ?? {}, body: new Uint8Array(Buffer.from(JSON.stringify(reply.body ?? good))) };
    },
    close: async () => undefined,
  };
  const servers = new Servers({ ...machine, http }, { ...options, ...changes });
  return {
    asked,
    servers,
    chat: () => servers.chat({ messages: [{ role: 'user', content: 'x' }], fields: { seed: 5, stream: true } }, signal),
  };
}

describe('Servers.chat', () => {
  it('asks for token ids and takes them', async () => {
    const { chat, asked } = scripted([{ status: 200 }]);
    expect(await chat()).toEqual({ content: 'hi', reasoning: null, promptIds: [1, 2], tokenIds: [3, 4], finishReason: 'stop' });
    expect(asked[0]).toMatchObject({
      url: 'http://a/v1/chat/completions',
      body: { seed: 5, stream: false, return_token_ids: true, messages: [{ role: 'user', content: 'x' }] },
    });
  });

  it.each([408, 409, 425, 429, 500, 503])('tries again after %d, at another server, with growing pauses', async (status) => {
    const { chat, asked } = scripted([{ status }, { status }, { status: 200 }]);
    expect((await chat()).content).toBe('hi');
    expect(asked.map(({ url }) => url.slice(0, 8))).toEqual(['http://a', 'http://b', 'http://a']);
    const [first = 0, second = 0] = [(asked[1]?.atMs ?? 0) - (asked[0]?.atMs ?? 0), (asked[2]?.atMs ?? 0) - (asked[1]?.atMs ?? 0)];
    expect(first).toBeGreaterThanOrEqual(500);
    expect(first).toBeLessThanOrEqual(1000);
    expect(second).toBeGreaterThanOrEqual(1000);
    expect(second).toBeLessThanOrEqual(2000);
  });

  it('waits as long as a busy server asks', async () => {
    const { chat, asked } = scripted([{ status: 429, headers: { 'retry-after': '20' } }, { status: 200 }]);
    await chat();
    expect(asked[1]?.atMs).toBeGreaterThanOrEqual(20_000);
  });

  it('gives up after its tries, with the last reason', async () => {
    const gone = new TidemarkError('engine-unreachable', 'nothing listens', { retry: 'never' });
    const { chat, asked } = scripted([gone]);
    await expect(chat()).rejects.toMatchObject({ code: 'engine-unreachable', retry: 'later' });
    expect(asked).toHaveLength(3);
    const aborted = scripted([{ status: 200, body: { ...good, choices: [{ ...good.choices[0], finish_reason: 'abort' }] } }]);
    await expect(aborted.chat()).rejects.toMatchObject({ code: 'engine-busy' });
    expect(aborted.asked).toHaveLength(3);
  });

  it.each([
    [{ status: 400, body: { error: { message: 'too\u001b[31m long' } } }, 'engine-refused', 'the server answered 400: too [31m long'],
    [{ status: 422, body: { message: 'no' } }, 'engine-refused', 'the server answered 422: no'],
    [{ status: 404, body: { error: { message: 'no model' } } }, 'engine-protocol', 'it would say so to every prompt'],
    [{ status: 401, body: {} }, 'engine-protocol', 'it would say so to every prompt'],
    [{ status: 200, body: { choices: [] } }, 'engine-protocol', 'no chat completion'],
    [{ status: 200, body: { ...good, prompt_token_ids: null } }, 'engine-protocol', 'return_token_ids'],
  ] as const)('does not try again after %j', async (reply, code, message) => {
    const { chat, asked } = scripted([reply]);
    await expect(chat()).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
    expect(asked).toHaveLength(1);
  });

  it('leaves a server that failed alone for a while', async () => {
    const { servers, asked } = scripted([new TidemarkError('engine-unreachable', 'nothing listens'), { status: 200 }]);
    const ask = () => servers.chat({ messages: [], fields: {} }, signal);
    for (let at = 0; at < 4; at += 1) await ask();
    expect(asked.map(({ url }) => url.slice(0, 8))).toEqual(['http://a', 'http://b', 'http://b', 'http://b', 'http://b']);
  });
});

describe('Servers.modelName', () => {
  const list = (id: string): Reply => ({ status: 200, body: { data: [{ id }] } });

  it('is what all servers that answer serve', async () => {
    expect(await scripted([list('m')]).servers.modelName(signal)).toBe('m');
    expect(await scripted([new TidemarkError('engine-unreachable', 'x'), list('m')]).servers.modelName(signal)).toBe('m');
    await expect(scripted([list('m'), list('n')]).servers.modelName(signal)).rejects.toMatchObject({
      code: 'usage',
      message: expect.stringContaining('m and n'),
    });
    await expect(scripted([new TidemarkError('engine-unreachable', 'x')]).servers.modelName(signal)).rejects.toMatchObject({
      code: 'engine-unreachable',
    });
  });
});
