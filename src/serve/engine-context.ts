import type { LayerBoundary } from '../core/layers.ts';
import type { Host } from '../host/host.ts';
import type { Admission } from './admission.ts';
import type { CaptureDtype } from './capture.ts';
import type { Inference } from './inference.ts';
import type { Counters } from './metrics.ts';
import type { Misbehaviour } from './misbehaviour.ts';
import type { ModelFacts } from './model-facts.ts';
import { refuse } from './refusal.ts';
import type { SamplingOptions } from './sampling.ts';
import type { EngineText } from './text.ts';

export interface EngineServerOptions {
  /** The name under `/v1/models`; another name in a request is a 404. */
  readonly servedName: string;
  /** What `/version` says. */
  readonly version: string;
  /** Prompt and answer together; at most what the model was made for. */
  readonly contextLength: number;
  /** Boundaries to capture, ascending; N is the state before the final norm. */
  readonly layerIds: readonly LayerBoundary[];
  readonly dtype: CaptureDtype;
  /** Rows of one step. The bits do not depend on it. */
  readonly batchMost: number;
  /** Requests that run at once; each holds its cache and its capture. */
  readonly runningMost: number;
  /** Running and waiting; one more is answered with 503. */
  readonly queuedMost: number;
  /** Accept only a `Host` header that names this machine, so that no web page can talk to the engine through a browser. */
  readonly loopbackOnly: boolean;
  /** One line about something that a client is not told. */
  log(line: string): void;
}

/** What a route's handler works with. */
export interface EngineContext {
  readonly host: Host;
  readonly facts: ModelFacts;
  readonly text: EngineText;
  readonly inference: Inference;
  readonly admission: Admission;
  readonly counters: Counters;
  readonly misbehaviour: Misbehaviour;
  /** Where captures go; null: this server extracts nothing. */
  readonly staging: string | null;
  readonly options: EngineServerOptions;
  /** Aborts when the server gives up waiting for what still runs. */
  readonly stopping: AbortSignal;
}

export function checkModelName(context: EngineContext, name: string | null | undefined): void {
  const { servedName } = context.options;
  if (name != null && name !== servedName) refuse(404, `The model \`${name}\` does not exist; this server has \`${servedName}\`.`, 'model');
}

/** The prompt as it will run, or a 400. Says how many tokens the answer may have. */
export function checkPrompt(context: EngineContext, promptIds: readonly number[], tokensMost: number | null): number {
  if (promptIds.length === 0) refuse(400, 'The prompt holds no token.', 'prompt');
  const highest = context.facts.vocabularySize;
  const foreign = promptIds.find((id) => id >= highest);
  if (foreign !== undefined) refuse(400, `Token id ${foreign} is out of vocabulary (${highest} tokens).`, 'prompt');
  const most = context.options.contextLength;
  const wanted = tokensMost ?? Math.max(1, most - promptIds.length);
  if (promptIds.length + wanted > most) {
    refuse(
      400,
      `This model's maximum context length is ${most} tokens. However, you requested ${promptIds.length + wanted} tokens ` +
        `(${promptIds.length} in the prompt, ${wanted} in the completion). Please reduce the length of the prompt or the completion.`,
      'input_tokens',
    );
  }
  return wanted;
}

/** OpenAI's defaults: temperature 1 and all tokens. Without a seed the host's generator gives one. */
export function samplingOf(
  host: Host,
  body: {
    readonly temperature?: number | null | undefined;
    readonly top_p?: number | null | undefined;
    readonly top_k?: number | null | undefined;
    readonly seed?: number | null | undefined;
  },
): SamplingOptions {
  return {
    temperature: body.temperature ?? 1,
    topP: body.top_p ?? 1,
    topK: Math.max(0, body.top_k ?? 0),
    seed: body.seed ?? Buffer.from(host.randomBytes(6)).readUIntBE(0, 6),
  };
}

export function usageOf(promptCount: number, completionCount: number): unknown {
  return { prompt_tokens: promptCount, total_tokens: promptCount + completionCount, completion_tokens: completionCount };
}

export function unixSeconds(host: Host): number {
  return Math.floor(host.clock.now() / 1000);
}
