import { messageOf } from '../core/errors.ts';
import { completionBody, requestIdText } from './bodies.ts';
import { captureTensors, packCapture, randomHex } from './capture.ts';
import { checkModelName, checkPrompt, type EngineContext, samplingOf, unixSeconds, usageOf } from './engine-context.ts';
import { generate } from './generation.ts';
import type { LayerStates } from './model.ts';
import { parseBody } from './refusal.ts';
import { createSampler } from './sampling.ts';
import type { Turn } from './turn.ts';

const TOKENS_DEFAULT = 16;
const FILE_MODE = 0o644;

/**
 * `POST /v1/completions`. With a staging folder each request leaves the hidden states of its prompt there:
 *
 * 1. `<path>.lock` is created before the model runs. Like vLLM, the engine never deletes it, and an aborted request leaves it.
 * 2. The answer names the path. The file is not there yet.
 * 3. The file appears whole under its name (temporary sibling, rename, no sync).
 *
 * vLLM holds an flock on the lock file between 1 and 3. Node has no flock, so this engine does not: a free lock says nothing
 * here, and the appearance of the name is the signal. A client that waits for the lock must wait for the name as well, which
 * it has to do for a real server whose write failed.
 */
export async function complete(context: EngineContext, body: unknown, headerId: string | undefined, turn: Turn): Promise<unknown> {
  const request = parseBody(completionBody, body);
  checkModelName(context, request.model);
  const { host, staging, options, counters } = context;
  const base = headerId ?? request.request_id ?? randomHex(host, 8);
  parseBody(requestIdText, base);
  const promptIds = typeof request.prompt === 'string' ? context.text.encodeWithSpecialTokens(request.prompt) : request.prompt;
  const tokensMost = checkPrompt(context, promptIds, request.max_tokens ?? TOKENS_DEFAULT);
  // The suffix is random, as in vLLM: a repeated request id gets a second file, never the same name.
  const place = staging === null ? null : turn.faults.place(`${staging}/cmpl-${base}-0-${randomHex(host, 4)}.safetensors`);
  if (place?.lock === true) await (await host.files.create(`${place.path}.lock`, FILE_MODE)).close();

  const result = await generate(
    {
      promptIds,
      tokensMost,
      sampler: createSampler(samplingOf(host, request)),
      endTokenIds: context.facts.endTokenIds,
      stop: request.stop,
      wantStates: place !== null,
    },
    context,
    turn.signal,
  );
  counters.promptTokens += promptIds.length;
  counters.generatedTokens += result.tokenIds.length;
  if (place !== null && result.states !== null) {
    turn.afterAnswer(captureWriter(context, turn, { path: place.path, promptIds, states: result.states }));
  }
  const withIds = request.return_token_ids === true;
  return {
    id: `cmpl-${base}`,
    object: 'text_completion',
    created: unixSeconds(host),
    model: options.servedName,
    choices: [
      {
        index: 0,
        text: result.text,
        logprobs: null,
        finish_reason: result.finishReason,
        stop_reason: result.stopReason,
        token_ids: withIds ? result.tokenIds : null,
        prompt_token_ids: withIds ? turn.faults.echo(promptIds) : null,
        prompt_logprobs: null,
      },
    ],
    usage: usageOf(promptIds.length, result.tokenIds.length),
    kv_transfer_params: place?.told === true ? { hidden_states_path: place.path } : null,
  };
}

/** Copies the rows out of their batch now, and writes them when the answer is out. */
function captureWriter(
  context: EngineContext,
  turn: Turn,
  captured: { readonly path: string; readonly promptIds: readonly number[]; readonly states: LayerStates },
): () => Promise<void> {
  const { options, counters, facts, stopping } = context;
  const capture = turn.faults.capture(packCapture(captured.promptIds, captured.states, options.layerIds, facts.hiddenSize));
  return async () => {
    try {
      // A client that is gone does not stop the write: its connection may have ended because the answer was complete.
      await turn.faults.publish({ path: captured.path, mode: FILE_MODE, tensors: captureTensors(capture, options.dtype) }, stopping);
      counters.capturesWritten += 1;
    } catch (error) {
      counters.capturesFailed += 1;
      options.log(`Hidden-states write failed: ${captured.path}: ${messageOf(error)}`);
    }
  };
}
