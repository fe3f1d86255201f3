import type { Sampling } from './sampling.ts';

export interface GenerateOptions {
  /** The file to make, absolute; answers are kept in `OUTPUT.tidemark/` until it can be published whole. */
  readonly output: string;
  /** Servers of one model, without `/v1`. */
  readonly urls: readonly string[];
  /** Null takes the one that the servers name. */
  readonly model: string | null;
  readonly sampling: Sampling;
  /** For a server that wants a key. Not on record. Default none. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Conversations in flight per server. */
  readonly inFlight: number;
  /** Of one request. */
  readonly timeoutMs: number;
  /** Tries of one request. */
  readonly attempts: number;
  /** The first pause between tries. Default one second. */
  readonly retryMs?: number;
  /** Failed conversations in a row that stop the work: the servers are sick. */
  readonly consecutiveFailures: number;
  /** Publish without the prompts that failed, and never try those again. */
  readonly acceptFailures: boolean;
  /** A person says that the holder on another machine is dead. */
  readonly takeOver: boolean;
  /** How long conversations in flight may go on once `signal` says stop; what is not done by then is asked again. */
  readonly drainMs: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: GenerateProgress) => void;
}

export interface GenerateProgress {
  readonly prompts: number;
  readonly answered: number;
  readonly failed: number;
  readonly inFlight: number;
  readonly completionTokens: number;
}
