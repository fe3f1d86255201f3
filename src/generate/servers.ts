import { z } from 'zod';
import { isTidemarkError, messageOf, TidemarkError } from '../core/errors.ts';
import type { Message } from '../dataset/dataset.ts';
import type { Host, HttpResponse } from '../host/host.ts';
import type { Answer } from './conversation.ts';

const ANSWER_BYTES_MOST = 64 * 1024 * 1024;
const LIST_BYTES_MOST = 1024 * 1024;
const LIST_TIMEOUT_MS = 10_000;
const RETRY_MS_MOST = 30_000;
/** A server may ask for a longer pause than ours, within reason. */
const RETRY_AFTER_MS_MOST = 120_000;

export interface ServersOptions {
  /** Roots, without `/v1`. */
  readonly urls: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  /** Of one request, from its first byte to the last of its answer. */
  readonly timeoutMs: number;
  /** Tries of one request. */
  readonly attempts: number;
  /** The pause after the first failed try; each further one doubles, up to half a minute. */
  readonly retryMs: number;
}

export interface ChatRequest {
  readonly messages: readonly Message[];
  /** All other fields of the body. */
  readonly fields: Readonly<Record<string, unknown>>;
}

interface Server {
  readonly url: string;
  inFlight: number;
  failures: number;
  /** Until then others are asked first. */
  restsUntilMs: number;
}

const ids = z.array(z.number().int().min(0).max(0xffffffff));
const answerSchema = z.looseObject({
  choices: z.tuple(
    [
      z.looseObject({
        message: z.looseObject({
          content: z.string().nullish(),
          reasoning_content: z.string().nullish(),
          reasoning: z.string().nullish(),
        }),
        finish_reason: z.string().nullish(),
        token_ids: ids.nullish(),
        prompt_token_ids: ids.nullish(),
      }),
    ],
    z.unknown(),
  ),
  prompt_token_ids: ids.nullish(),
});

/** Servers of one model behind OpenAI's chat route: each request goes to the one with the least to do. */
export class Servers {
  readonly #host: Host;
  readonly #options: ServersOptions;
  readonly #servers: readonly Server[];

  constructor(host: Host, options: ServersOptions) {
    this.#host = host;
    this.#options = options;
    this.#servers = options.urls.map((url) => ({ url, inFlight: 0, failures: 0, restsUntilMs: 0 }));
  }

  /** The one model that all servers serve; those that do not answer are passed over, unless none does. */
  async modelName(signal: AbortSignal): Promise<string> {
    const asked = await Promise.all(this.#servers.map(({ url }) => this.#modelOf(url, signal).catch((error: unknown) => orThrow(error))));
    const names = asked.filter((name) => typeof name === 'string');
    const [first] = names;
    if (first === undefined) throw asked[0];
    const other = names.find((name) => name !== first);
    if (other === undefined) return first;
    throw new TidemarkError('usage', `the servers serve different models: ${first} and ${other}`, { hint: 'name one with --served-model' });
  }

  async #modelOf(url: string, signal: AbortSignal): Promise<string> {
    const where = `${url}/v1/models`;
    const { headers } = this.#options;
    const answer = await this.#host.http.request({
      method: 'GET',
      url: where,
      headers,
      timeoutMs: LIST_TIMEOUT_MS,
      mostBytes: LIST_BYTES_MOST,
      signal,
    });
    const parsed = z.looseObject({ data: z.tuple([z.looseObject({ id: z.string() })], z.unknown()) }).safeParse(jsonOf(answer.body));
    if (answer.status === 200 && parsed.success) return parsed.data.data[0].id;
    throw new TidemarkError('engine-protocol', `${where} was answered with ${answer.status} and no model list`, {
      where,
      hint: 'give the URL of an OpenAI-compatible server, or the name with --served-model',
    });
  }

  /**
   * One answer. Trouble that may pass (no connection, 408, 409, 425, 429, 5xx, an aborted generation) is tried again; then it rejects with
   * that trouble's code. `engine-refused` is the server's no to this request for good, `engine-protocol` one to every request.
   */
  async chat(request: ChatRequest, signal: AbortSignal): Promise<Answer> {
    const { attempts, retryMs } = this.#options;
    for (let attempt = 1; ; attempt += 1) {
      const server = this.#least();
      server.inFlight += 1;
      try {
        const answer = await this.#ask(server, request, signal);
        server.failures = 0;
        server.restsUntilMs = 0;
        return answer;
      } catch (error) {
        if (!isTidemarkError(error) || error.retry !== 'later' || attempt >= attempts || signal.aborted) throw error;
        this.#rest(server);
        const pauseMs = Math.min(RETRY_MS_MOST, retryMs * 2 ** (attempt - 1));
        const asked = error instanceof BusyAnswer ? Math.min(RETRY_AFTER_MS_MOST, error.afterMs) : 0;
        // Half of it by chance, so that requests that failed together do not come back together.
        await this.#host.clock.sleep(Math.max(asked, pauseMs * (0.5 + this.#chance() / 2)), signal).catch(() => {
          throw error;
        });
      } finally {
        server.inFlight -= 1;
      }
    }
  }

  #least(): Server {
    const now = this.#host.clock.monotonicMs();
    const rank = (server: Server): number => (server.restsUntilMs > now ? 1e9 + server.restsUntilMs - now : server.inFlight);
    return this.#servers.reduce((best, server) => (rank(server) < rank(best) ? server : best));
  }

  /** A dead server has the least to do: without a rest it would draw every request. */
  #rest(server: Server): void {
    server.failures += 1;
    const restMs = Math.min(RETRY_MS_MOST, this.#options.retryMs * 2 ** Math.min(20, server.failures));
    server.restsUntilMs = this.#host.clock.monotonicMs() + restMs;
  }

  #chance(): number {
    return (this.#host.randomBytes(1)[0] ?? 0) / 255;
  }

  async #ask(server: Server, { messages, fields }: ChatRequest, signal: AbortSignal): Promise<Answer> {
    const url = `${server.url}/v1/chat/completions`;
    const response = await this.#host.http
      .request({
        method: 'POST',
        url,
        headers: this.#options.headers,
        body: { ...fields, messages, stream: false, return_token_ids: true },
        timeoutMs: this.#options.timeoutMs,
        mostBytes: ANSWER_BYTES_MOST,
        signal,
      })
      .catch((error: unknown) => {
        throw isTidemarkError(error, 'engine-unreachable', 'engine-timeout') ? passing(error) : error;
      });
    if (response.status !== 200) throw refusal(response, url);
    return answerOf(response, url);
  }
}

/** 429 and 503 may say how long to wait. */
class BusyAnswer extends TidemarkError {
  readonly afterMs: number;

  constructor(message: string, where: string, afterMs: number) {
    super('engine-busy', message, { where, retry: 'later' });
    this.afterMs = afterMs;
  }
}

function passing(error: TidemarkError): TidemarkError {
  if (error.retry === 'later') return error;
  return new TidemarkError(error.code, error.message, {
    ...(error.where === undefined ? {} : { where: error.where }),
    retry: 'later',
    cause: error,
  });
}

function orThrow(error: unknown): unknown {
  if (isTidemarkError(error) && error.code !== 'interrupted') return error;
  throw error;
}

function refusal(response: HttpResponse, where: string): TidemarkError {
  const { status } = response;
  const why = `the server answered ${status}: ${reasonOf(response.body)}`;
  if ([408, 409, 425, 429].includes(status) || status >= 500) {
    const seconds = Number(response.headers['retry-after']);
    return new BusyAnswer(why, where, seconds > 0 ? seconds * 1000 : 0);
  }
  if ([401, 403, 404, 405].includes(status)) {
    return new TidemarkError('engine-protocol', `${why}; it would say so to every prompt`, {
      where,
      hint: status === 404 ? 'check the URL and the model name: curl URL/v1/models' : 'check the API key',
    });
  }
  return new TidemarkError('engine-refused', why, { where });
}

function answerOf(response: HttpResponse, where: string): Answer {
  const parsed = answerSchema.safeParse(jsonOf(response.body));
  if (!parsed.success) {
    throw new TidemarkError(
      'engine-protocol',
      `the answer is no chat completion: ${parsed.error.issues[0]?.path.join('.')} ${parsed.error.issues[0]?.message}`,
      { where },
    );
  }
  const [choice] = parsed.data.choices;
  const finishReason = choice.finish_reason ?? 'unknown';
  if (finishReason === 'abort' || finishReason === 'error')
    throw new BusyAnswer(`the server gave up in the middle of an answer (${finishReason})`, where, 0);
  const promptIds = parsed.data.prompt_token_ids ?? choice.prompt_token_ids;
  const tokenIds = choice.token_ids;
  if (promptIds === null || promptIds === undefined || tokenIds === null || tokenIds === undefined) {
    throw new TidemarkError('engine-protocol', 'the server did not return the token ids that were asked for (return_token_ids)', {
      where,
      hint: 'use vLLM 0.10.2 or later, or tidemark engine: text alone does not say which tokens the target wrote',
    });
  }
  return {
    content: choice.message.content ?? '',
    reasoning: choice.message.reasoning_content ?? choice.message.reasoning ?? null,
    promptIds,
    tokenIds,
    finishReason,
  };
}

function jsonOf(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8'));
  } catch {
    return null;
  }
}

/** The server's own words, in either of the two forms that vLLM has had, without control characters. */
function reasonOf(body: Uint8Array): string {
  const parsed = z
    .union([
      z.looseObject({ error: z.looseObject({ message: z.string() }) }).transform(({ error }) => error.message),
      z.looseObject({ message: z.string() }).transform(({ message }) => message),
    ])
    .safeParse(jsonOf(body));
  const text = parsed.success ? parsed.data : Buffer.from(body.subarray(0, 300)).toString('utf8');
  return text.replaceAll(/[\p{Cc}\p{Cf}]/gu, ' ').slice(0, 300) || 'nothing';
}

export function failureText(error: unknown): string {
  return messageOf(error)
    .replaceAll(/[\p{Cc}\p{Cf}]/gu, ' ')
    .slice(0, 500);
}
