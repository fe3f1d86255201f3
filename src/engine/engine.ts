import type { LastStateNorm, LayerBoundary } from '../core/layers.ts';
import type { Dtype } from '../format/tensors.ts';

/** What an engine can and cannot do; each is stated by its adapter with a reason in its doc comment. */
export interface EngineCapabilities {
  /** States arrive in a file on a filesystem that we can see. Default true. */
  readonly stagedFiles: boolean;
  /** The server echoes the prompt's ids. Default true. */
  readonly echoesTokenIds: boolean;
  /** The server answers /health apart from doing work. It can lie; progress decides. Default true. */
  readonly health: boolean;
}

/** What a server says of itself; becomes a segment of the run. */
export interface EngineDescription {
  readonly engine: string;
  readonly model: string;
  /** Longest prompt in tokens that it takes, or null when it does not say. */
  readonly maxTokens: number | null;
  /** Everything that may change the numbers: version, dtype, parallelism … as the server tells it. */
  readonly state: Readonly<Record<string, string>>;
}

export interface CaptureRequest {
  readonly row: number;
  readonly attempt: number;
  readonly inputIds: Uint32Array;
}

/** One engine call's result: the residual stream of one sample at several layers, row-major [tokens, layers, width]. */
export interface Capture {
  readonly tokens: number;
  readonly width: number;
  readonly dtype: Dtype;
  /** Boundary numbers of axis 1, ascending; the last one is the last hidden state. */
  readonly layers: readonly LayerBoundary[];
  readonly lastStateNorm: LastStateNorm;
  /** Bytes of rows `[from, to)`: (to - from) * layers * width elements, little-endian. Valid until the next call. */
  readRows(from: number, to: number): Promise<Uint8Array>;
  /** Closes the capture and deletes what the server staged for it. Call once, after commit or after giving up. */
  release(): Promise<void>;
}

/**
 * A server that runs the target and yields hidden states.
 *
 * `capture` resolves when the states are complete and checked for form: echoed and stored ids equal
 * to those sent, one row a token, all layers there. It rejects with `engine-busy`, `engine-unreachable`, `engine-timeout` (try
 * again), `engine-refused` (never for this row), `engine-protocol` (never for this server) or `capture-bad`.
 * Values (finite, not all zero) are checked by the caller as they stream.
 */
export interface Engine {
  readonly capabilities: EngineCapabilities;
  describe(signal?: AbortSignal): Promise<EngineDescription>;
  healthy(signal?: AbortSignal): Promise<boolean>;
  capture(request: CaptureRequest, signal?: AbortSignal): Promise<Capture>;
  close(): Promise<void>;
}
