import fastify, { type FastifyInstance } from 'fastify';
import { messageOf } from '../core/errors.ts';
import type { Host } from '../host/host.ts';
import { createAdmission } from './admission.ts';
import { detokenizeBody, type TokenizeBody, tokenizeBody } from './bodies.ts';
import { chat } from './chat.ts';
import { complete } from './completions.ts';
import type { EngineContext, EngineServerOptions } from './engine-context.ts';
import { unixSeconds } from './engine-context.ts';
import { createInference } from './inference.ts';
import { createCounters, renderMetrics } from './metrics.ts';
import type { Misbehaviour } from './misbehaviour.ts';
import type { EngineModel } from './model.ts';
import { errorBody, parseBody, RefusalError, refusal, refusalOf, refuse } from './refusal.ts';
import type { EngineText } from './text.ts';
import { takeTurn } from './turn.ts';

export interface EngineServer {
  readonly app: FastifyInstance;
  /** Refuses newcomers, lets those inside finish for up to `withinMs`, then closes. Resolves `false` when some were cut off. */
  drain(withinMs: number): Promise<boolean>;
}

export interface EngineServerParts {
  readonly host: Host;
  readonly model: EngineModel;
  readonly text: EngineText;
  /** An existing folder; null: completions answer without `kv_transfer_params`. */
  readonly staging: string | null;
  readonly options: EngineServerOptions;
  readonly misbehaviour: Misbehaviour;
}

const BODY_BYTES_MAX = 1024 * 1024;
const LOOPBACK_NAMES: readonly string[] = ['localhost', '127.0.0.1', '[::1]', '::1'];

/** The vLLM dialect over one model. Routes only; nothing listens until `app.listen`. */
export function createEngineServer(parts: EngineServerParts): EngineServer {
  const { host, model, text, staging, options, misbehaviour } = parts;
  const stop = new AbortController();
  const context: EngineContext = {
    host,
    facts: model.facts,
    text,
    inference: createInference(model, options),
    admission: createAdmission(options),
    counters: createCounters(),
    misbehaviour,
    staging,
    options,
    stopping: stop.signal,
  };
  const app = fastify({ logger: false, bodyLimit: BODY_BYTES_MAX, forceCloseConnections: true });
  const startedAt = unixSeconds(host);

  app.addHook('onRequest', async (request) => {
    if (options.loopbackOnly && !LOOPBACK_NAMES.includes(request.hostname)) refuse(403, 'this engine answers its own machine only');
  });
  app.setNotFoundHandler((_, reply) => reply.status(404).send(errorBody(refusal(404, 'there is no such route'))));
  app.setErrorHandler((error, _, reply) => {
    const refused = refusalOf(error);
    if (refused.status >= 500 && !(error instanceof RefusalError)) options.log(`${refused.status}: ${messageOf(error)}`);
    return reply.status(refused.status).send(errorBody(refused));
  });

  app.post('/v1/completions', (request, reply) => {
    const header = request.headers['x-request-id'];
    return takeTurn(context, reply, (turn) => complete(context, request.body, typeof header === 'string' ? header : undefined, turn));
  });
  app.post('/v1/chat/completions', (request, reply) => takeTurn(context, reply, (turn) => chat(context, request.body, reply, turn)));
  app.post('/tokenize', async (request) => {
    const body = parseBody(tokenizeBody, request.body);
    const tokens = tokenize(text, body);
    return { count: tokens.length, max_model_len: options.contextLength, tokens, token_strs: null };
  });
  app.post('/detokenize', async (request) => {
    const { tokens } = parseBody(detokenizeBody, request.body);
    const foreign = tokens.find((id) => id >= model.facts.vocabularySize);
    if (foreign !== undefined) refuse(400, `Token id ${foreign} is out of vocabulary.`, 'tokens');
    return { prompt: text.decode(tokens, { keepSpecialTokens: true }) };
  });
  app.get('/v1/models', async () => ({
    object: 'list',
    data: [
      {
        id: options.servedName,
        object: 'model',
        created: startedAt,
        owned_by: 'tidemark',
        root: options.servedName,
        parent: null,
        max_model_len: options.contextLength,
        permission: [],
      },
    ],
  }));
  app.get('/health', (_, reply) => reply.status(misbehaviour.health(context.inference.failure === null) ? 200 : 503).send());
  app.get('/version', async () => ({ version: options.version }));
  app.get('/metrics', (_, reply) =>
    reply.type('text/plain; version=0.0.4; charset=utf-8').send(
      renderMetrics(options.servedName, context.counters, {
        running: context.admission.runningCount,
        waiting: context.admission.waitingCount,
      }),
    ),
  );

  return {
    app,
    async drain(withinMs) {
      const patience = new AbortController();
      const drained = context.admission.drain().then(() => true);
      const late = host.clock.sleep(withinMs, patience.signal).then(
        () => false,
        () => true,
      );
      const inTime = await Promise.race([drained, late]);
      patience.abort();
      stop.abort(new Error('the engine stops'));
      await app.close();
      return inTime;
    },
  };
}

function tokenize(text: EngineText, body: TokenizeBody): readonly number[] {
  if (body.messages !== undefined) {
    return text.encode(text.renderChat(body.messages, { addGenerationPrompt: body.add_generation_prompt !== false }));
  }
  const prompt = body.prompt ?? '';
  return body.add_special_tokens === false ? text.encode(prompt) : text.encodeWithSpecialTokens(prompt);
}
