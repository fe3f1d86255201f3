import { assert } from '../core/assert.ts';
import type { Inference } from './inference.ts';
import type { LayerStates } from './model.ts';
import type { Sampler } from './sampling.ts';
import type { EngineText } from './text.ts';
import { createTextStream } from './text-stream.ts';

export interface GenerationRequest {
  readonly promptIds: readonly number[];
  readonly tokensMost: number;
  readonly sampler: Sampler;
  /** Ids that end the answer; the one that came is part of `tokenIds`. */
  readonly endTokenIds: readonly number[];
  /** Strings that end the answer; they are left out of its text, as in vLLM. */
  readonly stop: readonly string[];
  /** Whether the residual streams of the prompt are wanted. */
  readonly wantStates: boolean;
  /** Gets each new piece of text and the ids since the last piece. */
  onPiece?(text: string, tokenIds: readonly number[]): Promise<void> | void;
}

export interface Generation {
  readonly text: string;
  readonly tokenIds: readonly number[];
  readonly finishReason: 'stop' | 'length';
  /** The stop string that ended it, if one did. */
  readonly stopReason: string | null;
  readonly states: LayerStates | null;
}

/** Prefill, then one token at a time until an end token, a stop string or the limit. */
export async function generate(
  request: GenerationRequest,
  engine: { readonly inference: Inference; readonly text: EngineText },
  signal: AbortSignal,
): Promise<Generation> {
  const needsCache = request.tokensMost > 1;
  const prefilled = await engine.inference.prefill(request.promptIds, { states: request.wantStates, cache: needsCache }, signal);
  const stream = createTextStream(engine.text, request.stop);
  const tokenIds: number[] = [];
  let sentCount = 0;
  let { logits } = prefilled;
  const send = async (text: string): Promise<void> => {
    if (request.onPiece === undefined) return;
    await request.onPiece(text, tokenIds.slice(sentCount));
    sentCount = tokenIds.length;
  };
  const done = async (finishReason: 'stop' | 'length'): Promise<Generation> => {
    const rest = stream.finish();
    if (rest !== '' || sentCount < tokenIds.length) await send(rest);
    const stopReason = stream.stoppedBy;
    return { text: stream.text, tokenIds, finishReason: stopReason === null ? finishReason : 'stop', stopReason, states: prefilled.states };
  };

  for (;;) {
    const tokenId = request.sampler(logits);
    tokenIds.push(tokenId);
    if (request.endTokenIds.includes(tokenId)) return done('stop');
    // Decoding text at each token is only worth its time where someone reads along.
    if (request.onPiece !== undefined || request.stop.length > 0) {
      const piece = stream.push(tokenIds);
      if (stream.stoppedBy !== null) return done('stop');
      if (piece !== '') await send(piece);
    } else {
      stream.keep(tokenIds);
    }
    if (tokenIds.length >= request.tokensMost) return done('length');
    assert(prefilled.cache !== null, 'an answer of several tokens has a cache');
    ({ logits } = await engine.inference.decode({ tokenId, cache: prefilled.cache }, signal));
  }
}
