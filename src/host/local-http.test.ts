import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import type { HttpRequest } from './host.ts';
import { createLocalHttp } from './local-http.ts';

const http = createLocalHttp();
const open: { close(): void }[] = [];

afterEach(() => {
  for (const server of open.splice(0)) server.close();
});
afterAll(() => http.close());

function listen(server: Server | ReturnType<typeof createTcpServer>): Promise<string> {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/x?key=secret`));
  });
}

function serve(handler: RequestListener): Promise<string> {
  const server = createServer(handler);
  open.push({
    close() {
      server.closeAllConnections();
      server.close();
    },
  });
  return listen(server);
}

/** A server of raw bytes, for what `node:http` would not send. */
function serveRaw(handler: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('data', () => handler(socket));
  });
  open.push({
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  });
  return listen(server);
}

const get = (url: string, more: Partial<HttpRequest> = {}) =>
  http.request({ method: 'GET', url, timeoutMs: 5000, mostBytes: 1 << 20, ...more });

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString();

test('sends JSON, gives status, headers and body back', async () => {
  const url = await serve((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      response.setHeader('set-cookie', ['a=1', 'b=2']);
      response.end(`${request.method} ${request.headers['content-type']} ${request.headers['x-one']} ${Buffer.concat(parts).toString()}`);
    });
  });
  const answer = await http.request({
    method: 'POST',
    url,
    headers: { 'x-one': '1' },
    body: { ids: [1, 2] },
    timeoutMs: 5000,
    mostBytes: 1000,
  });
  expect(answer.status).toBe(200);
  expect(answer.headers['set-cookie']).toBe('a=1, b=2');
  expect(text(answer.body)).toBe('POST application/json 1 {"ids":[1,2]}');
});

test.each([301, 400, 404, 429, 500, 503])('resolves for status %i', async (status) => {
  const url = await serve((_, response) => {
    response.writeHead(status, { location: '/elsewhere' }).end('why');
  });
  const answer = await get(url);
  expect(answer.status).toBe(status);
  expect(text(answer.body)).toBe('why');
});

describe('size of the answer', () => {
  const bytes = Buffer.alloc(300_000, 7);

  test.each([true, false])('exactly as long as allowed (length announced: %s)', async (announced) => {
    const url = await serve((_, response) => {
      if (announced) response.setHeader('content-length', bytes.length);
      response.write(bytes.subarray(0, 100_000));
      response.end(bytes.subarray(100_000));
    });
    const answer = await get(url, { mostBytes: bytes.length });
    expect(answer.body.length).toBe(bytes.length);
    expect(bytes.equals(answer.body)).toBe(true);
    await expect(get(url, { mostBytes: bytes.length - 1 })).rejects.toMatchObject({ code: 'engine-protocol', retry: 'never' });
    // The connection pool is none the worse for it.
    expect((await get(url)).status).toBe(200);
  });

  test('an empty one', async () => {
    const url = await serve((_, response) => {
      response.writeHead(204).end();
    });
    expect((await get(url, { mostBytes: 0 })).body.length).toBe(0);
  });

  test('one that never ends', async () => {
    const url = await serveRaw((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      const timer = setInterval(() => socket.write(Buffer.alloc(65536)), 1);
      socket.on('close', () => clearInterval(timer));
    });
    await expect(get(url)).rejects.toMatchObject({ code: 'engine-protocol' });
  });
});

describe('trouble', () => {
  test('nothing listens', async () => {
    const url = await serve(() => undefined);
    for (const server of open.splice(0)) server.close();
    const error = await get(url).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'engine-unreachable', retry: 'later' });
    expect(String(error)).toContain('nothing listens there (ECONNREFUSED)');
    expect(String(error)).not.toContain('secret');
  });

  test('a name with several addresses and nobody at any', async () => {
    const url = await serve(() => undefined);
    for (const server of open.splice(0)) server.close();
    await expect(get(url.replace('127.0.0.1', 'localhost'))).rejects.toMatchObject({ code: 'engine-unreachable', retry: 'later' });
  });

  test('closed without an answer', async () => {
    await expect(get(await serveRaw((socket) => socket.end()))).rejects.toMatchObject({ code: 'engine-unreachable', retry: 'later' });
  });

  test('reset', async () => {
    const url = await serveRaw((socket) => socket.resetAndDestroy());
    await expect(get(url)).rejects.toMatchObject({ code: 'engine-unreachable', retry: 'later' });
  });

  test.each(['content-length: 100\r\n\r\nshort', 'transfer-encoding: chunked\r\n\r\n64\r\nshort'])('cut short: %j', async (rest) => {
    const url = await serveRaw((socket) => socket.end(`HTTP/1.1 200 OK\r\n${rest}`));
    await expect(get(url)).rejects.toMatchObject({ code: 'engine-unreachable', retry: 'later' });
  });

  test('not HTTP', async () => {
    const url = await serveRaw((socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'));
    await expect(get(url)).rejects.toMatchObject({ code: 'engine-protocol', retry: 'never' });
  });

  test('not a URL, and a scheme we do not speak', async () => {
    await expect(get('nonsense')).rejects.toMatchObject({ code: 'usage' });
    await expect(get('ftp://127.0.0.1/')).rejects.toMatchObject({ code: 'usage' });
  });
});

describe('time', () => {
  const silent = () => serve(() => undefined);
  const stalling = () =>
    serve((_, response) => {
      response.writeHead(200).write('some');
    });

  test.each([
    ['before the answer', silent],
    ['inside the body', stalling],
  ])('own deadline, %s, is exact', async (_, start) => {
    const url = await start();
    const before = performance.now();
    await expect(get(url, { timeoutMs: 200 })).rejects.toMatchObject({ code: 'engine-timeout', retry: 'later' });
    const tookMs = performance.now() - before;
    expect(tookMs).toBeGreaterThan(150);
    expect(tookMs).toBeLessThan(2000);
  });

  test.each([
    ['before the answer', silent],
    ['inside the body', stalling],
  ])('stopped by the caller, %s', async (_, start) => {
    const controller = new AbortController();
    const pending = get(await start(), { signal: controller.signal });
    setTimeout(() => controller.abort(new Error('enough')), 50);
    await expect(pending).rejects.toMatchObject({ code: 'interrupted' });
  });

  test('stopped by the caller before it began', async () => {
    await expect(get(await silent(), { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'interrupted' });
  });

  test('a deadline longer than a timer can be does not fire at once', async () => {
    const url = await serve((_, response) => {
      setTimeout(() => response.end('ok'), 50);
    });
    expect((await get(url, { timeoutMs: 1e12 })).status).toBe(200);
  });
});

test('64 requests are in flight together, and connections are used again', async () => {
  let waiting: (() => void)[] = [];
  let connections = 0;
  const server = createServer((_, response) => {
    waiting.push(() => response.end('ok'));
    if (waiting.length < 64) return;
    for (const answer of waiting) answer();
    waiting = [];
  });
  server.on('connection', () => {
    connections += 1;
  });
  open.push({
    close() {
      server.closeAllConnections();
      server.close();
    },
  });
  const url = await listen(server);
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all(Array.from({ length: 64 }, () => get(url)));
    expect(answers.every((answer) => answer.status === 200)).toBe(true);
    // A connection is free again one turn after its answer was read.
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  expect(connections).toBe(64);
});
