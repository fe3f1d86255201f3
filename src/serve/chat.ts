import type { FastifyReply } from 'fastify';
import { type ChatBody, chatBody } from './bodies.ts';
import { randomHex } from './capture.ts';
import { checkModelName, checkPrompt, type EngineContext, samplingOf, unixSeconds, usageOf } from './engine-context.ts';
import { type Generation, type GenerationRequest, generate } from './generation.ts';
import { errorBody, parseBody, refusalOf } from './refusal.ts';
import { createSampler } from './sampling.ts';
import { createServerEvents } from './server-events.ts';
import type { Turn } from './turn.ts';

interface Chat {
  readonly id: string;
  readonly created: number;
  readonly body: ChatBody;
  readonly promptIds: readonly number[];
  readonly request: GenerationRequest;
}

/** `POST /v1/chat/completions`. It captures nothing: responses are generated first and extracted later, from their token ids. */
export async function chat(context: EngineContext, body: unknown, reply: FastifyReply, turn: Turn): Promise<unknown> {
  const opened = openChat(context, parseBody(chatBody, body));
  if (opened.body.stream === true) {
    await streamChat(context, opened, reply, turn);
    return undefined;
  }
  const result = await generate(opened.request, context, turn.signal);
  count(context, opened, result);
  const withIds = opened.body.return_token_ids === true;
  return {
    id: opened.id,
    object: 'chat.completion',
    created: opened.created,
    model: context.options.servedName,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: result.text, refusal: null, tool_calls: [] },
        logprobs: null,
        finish_reason: result.finishReason,
        stop_reason: result.stopReason,
        token_ids: withIds ? result.tokenIds : null,
      },
    ],
    usage: usageOf(opened.promptIds.length, result.tokenIds.length),
    prompt_token_ids: withIds ? turn.faults.echo(opened.promptIds) : null,
    kv_transfer_params: null,
  };
}

function openChat(context: EngineContext, body: ChatBody): Chat {
  checkModelName(context, body.model);
  const promptIds = context.text.encode(
    context.text.renderChat(body.messages, { addGenerationPrompt: body.add_generation_prompt ?? true }),
  );
  const tokensMost = checkPrompt(context, promptIds, body.max_completion_tokens ?? body.max_tokens ?? null);
  return {
    id: `chatcmpl-${randomHex(context.host, 8)}`,
    created: unixSeconds(context.host),
    body,
    promptIds,
    request: {
      promptIds,
      tokensMost,
      sampler: createSampler(samplingOf(context.host, body)),
      endTokenIds: context.facts.endTokenIds,
      stop: body.stop,
      wantStates: false,
    },
  };
}

async function streamChat(context: EngineContext, opened: Chat, reply: FastifyReply, turn: Turn): Promise<void> {
  const withIds = opened.body.return_token_ids === true;
  const frame = (choices: readonly unknown[], more: Readonly<Record<string, unknown>> = {}): unknown => ({
    id: opened.id,
    object: 'chat.completion.chunk',
    created: opened.created,
    model: context.options.servedName,
    choices,
    ...more,
  });
  const choice = (
    delta: unknown,
    tokenIds: readonly number[],
    finish: Pick<Generation, 'finishReason' | 'stopReason'> | null,
  ): unknown => ({
    index: 0,
    delta,
    logprobs: null,
    finish_reason: finish?.finishReason ?? null,
    stop_reason: finish?.stopReason ?? null,
    token_ids: withIds ? tokenIds : null,
  });
  const events = createServerEvents(reply, turn.signal);
  try {
    await events.send(
      frame(
        [choice({ role: 'assistant', content: '' }, [], null)],
        withIds ? { prompt_token_ids: turn.faults.echo(opened.promptIds) } : {},
      ),
    );
    const request: GenerationRequest = {
      ...opened.request,
      onPiece: (text, tokenIds) => events.send(frame([choice({ content: text }, tokenIds, null)])),
    };
    const result = await generate(request, context, turn.signal);
    count(context, opened, result);
    await events.send(frame([choice({}, [], result)]));
    if (opened.body.stream_options?.include_usage === true) {
      await events.send(frame([], { usage: usageOf(opened.promptIds.length, result.tokenIds.length) }));
    }
  } catch (error) {
    // The status is out already: an error can only be one more event.
    if (!turn.signal.aborted) await events.send(errorBody(refusalOf(error)));
  }
  events.end();
}

function count(context: EngineContext, opened: Chat, result: Generation): void {
  context.counters.promptTokens += opened.promptIds.length;
  context.counters.generatedTokens += result.tokenIds.length;
}
