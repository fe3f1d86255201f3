import { Agent, type Dispatcher, request as send } from 'undici';
import { TidemarkError } from '../core/errors.ts';
import type { Http, HttpRequest, HttpResponse } from './host.ts';
import { timerMsMost } from './local-clock.ts';

/** Where to begin when the answer does not say how long it is. */
const firstBytes = 64 * 1024;

export function createLocalHttp(): Http {
  // One pool per origin, as many connections as there are requests in flight, kept open between them. undici's own
  // timers are off: they are checked about once a second, while the deadline of a request is exact here.
  const agent = new Agent({
    connections: null,
    pipelining: 1,
    headersTimeout: 0,
    bodyTimeout: 0,
    connectTimeout: 10_000,
    keepAliveTimeout: 4_000,
    maxHeaderSize: 64 * 1024,
  });
  return {
    request: (request) => requestOnce(agent, request),
    // Not `close`, which would wait for an answer that may never come.
    close: () => agent.destroy(),
  };
}

async function requestOnce(agent: Agent, request: HttpRequest): Promise<HttpResponse> {
  const where = shownUrl(request.url);
  const { signal } = request;
  if (signal?.aborted) throw interrupted(request, where);
  const stop = new AbortController();
  let late = false;
  const timer = setTimeout(
    () => {
      late = true;
      stop.abort();
    },
    Math.min(request.timeoutMs, timerMsMost),
  );
  const forward = () => stop.abort();
  signal?.addEventListener('abort', forward, { once: true });
  try {
    const answer = await send(request.url, {
      dispatcher: agent,
      method: request.method,
      headers: { ...(request.body === undefined ? {} : { 'content-type': 'application/json' }), ...request.headers },
      body: request.body === undefined ? null : JSON.stringify(request.body),
      signal: stop.signal,
    });
    const body = await readBody(answer, request, where);
    return { status: answer.statusCode, headers: flat(answer.headers), body };
  } catch (error) {
    // Whatever undici made of it: the abort came from one of two places, and we know which.
    if (late) throw timedOut(request, where, error);
    if (signal?.aborted) throw interrupted(request, where);
    throw httpError(error, request, where);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', forward);
  }
}

/** Into one buffer: collecting chunks and joining them, as `arrayBuffer` does, holds the body twice and runs at a quarter of the speed. */
async function readBody(answer: Dispatcher.ResponseData, request: HttpRequest, where: string): Promise<Uint8Array> {
  const announced = Number(answer.headers['content-length'] ?? Number.NaN);
  if (announced > request.mostBytes) {
    // The connection is dropped: reading on only to keep it would cost as much as the refused body.
    answer.body.on('error', () => undefined).destroy();
    throw tooLong(request, where, `${announced} bytes`);
  }
  let bytes = room(Number.isNaN(announced) ? Math.min(firstBytes, request.mostBytes) : announced);
  let used = 0;
  for await (const piece of answer.body) {
    const chunk = piece as Uint8Array;
    const needed = used + chunk.length;
    // Leaving the loop destroys the body and with it the connection.
    if (needed > request.mostBytes) throw tooLong(request, where, `more than ${request.mostBytes} bytes`);
    if (needed > bytes.length) {
      const larger = room(Math.min(Math.max(bytes.length * 2, needed), request.mostBytes));
      larger.set(bytes.subarray(0, used));
      bytes = larger;
    }
    bytes.set(chunk, used);
    used = needed;
  }
  return bytes.subarray(0, used);
}

function room(length: number): Uint8Array {
  return new Uint8Array(Buffer.allocUnsafeSlow(length).buffer, 0, length);
}

function flat(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  const one: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) one[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return one;
}

/** Without a password or a key in the query: it ends up in messages. */
function shownUrl(url: string): string {
  if (!URL.canParse(url)) return url;
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

/** undici puts some causes one or two levels down, and `localhost` fails once for each of its addresses. */
function codesOf(error: unknown, depth = 0): readonly string[] {
  if (!(error instanceof Error) || depth > 4) return [];
  const { code } = error as { readonly code?: unknown };
  const inner = error instanceof AggregateError ? error.errors : [error.cause];
  return [...(typeof code === 'string' ? [code] : []), ...inner.flatMap((one: unknown) => codesOf(one, depth + 1))];
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was closed while the request was sent',
  UND_ERR_SOCKET: 'the connection was closed before the answer was complete',
  UND_ERR_CONNECT_TIMEOUT: 'no connection came about in time',
  ETIMEDOUT: 'no connection came about in time',
  ENOTFOUND: 'the host name is not known',
  EAI_AGAIN: 'the name server did not answer',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no route to the network',
  EMFILE: 'this process has too many files open',
};

function httpError(error: unknown, request: HttpRequest, where: string): TidemarkError {
  if (error instanceof TidemarkError) return error;
  const tried = `could not ${request.method} ${where}`;
  const codes = codesOf(error);
  const why = error instanceof Error ? error.message : String(error);
  const known = codes.find((code) => Object.hasOwn(reasons, code));
  const details = { where, cause: error, hint: `curl -sv -o /dev/null ${where}` };
  if (known !== undefined) {
    return new TidemarkError('engine-unreachable', `${tried}: ${reasons[known]} (${known})`, { ...details, retry: 'later' });
  }
  // The parser's own error has no code when the very first bytes are wrong.
  const parser = error instanceof Error && error.name === 'HTTPParserError';
  if (
    parser ||
    codes.some((code) => code.startsWith('HPE_') || code === 'UND_ERR_HEADERS_OVERFLOW' || code.includes('CONTENT_LENGTH_MISMATCH'))
  ) {
    return new TidemarkError('engine-protocol', `${tried}: the answer is not valid HTTP (${why})`, details);
  }
  if (codes.some((code) => code === 'UND_ERR_INVALID_ARG' || code === 'ERR_INVALID_URL')) {
    return new TidemarkError('usage', `${tried}: ${why}`, { where, cause: error });
  }
  // A certificate does not get better by waiting; anything else that is unknown may.
  const certificate = codes.some((code) => /CERT|^ERR_TLS|^ERR_SSL|SIGNATURE/.test(code));
  return new TidemarkError('engine-unreachable', `${tried}: ${why}`, { ...details, retry: certificate ? 'never' : 'later' });
}

function timedOut(request: HttpRequest, where: string, cause: unknown): TidemarkError {
  return new TidemarkError('engine-timeout', `could not ${request.method} ${where}: no complete answer within ${request.timeoutMs} ms`, {
    where,
    retry: 'later',
    cause,
  });
}

function interrupted(request: HttpRequest, where: string): TidemarkError {
  return new TidemarkError('interrupted', `did not finish ${request.method} ${where}: we were asked to stop`, {
    where,
    cause: request.signal?.reason,
  });
}

function tooLong(request: HttpRequest, where: string, length: string): TidemarkError {
  return new TidemarkError(
    'engine-protocol',
    `could not use the answer to ${request.method} ${where}: it has ${length}, and at most ${request.mostBytes} are accepted`,
    { where },
  );
}
