import type { LayerBoundary } from './layers.ts';
import type { RunLayout, StatesDtype } from './run-layout.ts';

/** How the last state is stored: before or behind the target's final norm, or not at all. */
export type StoredLastState = 'pre-norm' | 'post-norm' | 'none';

/**
 * Everything that a start needs, resolved: paths absolute, defaults filled in. Written to
 * `.tidemark/settings.json`, so that `resume FOLDER` needs nothing else.
 */
export interface Settings {
  readonly output: string;
  readonly dataset: { readonly path: string };
  readonly target: {
    /** Folder with config.json, the weights (for the final norm) and the tokenizer. */
    readonly model: string;
    readonly revision: string | null;
  };
  readonly engine: {
    readonly kind: 'vllm';
    readonly urls: readonly string[];
    /** The folder under which the server names its files; only paths below it are read or deleted. */
    readonly staging: string;
    /** Requests in flight per endpoint. */
    readonly inFlight: number;
    /** From request to complete states. */
    readonly timeoutMs: number;
  };
  readonly states: {
    /** Boundary numbers, ascending; the last hidden state is always added. */
    readonly auxiliaryLayers: readonly LayerBoundary[];
    readonly dtype: StatesDtype;
    readonly lastState: StoredLastState;
    /** Rows with more tokens are dropped and counted; null keeps all. */
    readonly maxTokens: number | null;
  };
  readonly layout: RunLayout;
  readonly limits: {
    /** Tries of one row before it counts as failed. */
    readonly attempts: number;
    /** Final failures that stop the run: the larger of `samples` and `share` of all rows. */
    readonly failureSamples: number;
    readonly failureShare: number;
    /** Failures in a row, over all endpoints, that stop the run as `server sick`. */
    readonly consecutiveFailures: number;
    /** Bytes to leave free on the volume. */
    readonly reserveBytes: number;
  };
  /** Permission bits of sample files. */
  readonly fileMode: number;
}

/** What makes a run the same run: the preimage of its id (docs/on-disk.md). */
export interface RunIdentity {
  readonly dataset: { readonly rows: number; readonly root: string };
  readonly target: { readonly name: string; readonly revision: string | null; readonly digest: string };
  readonly tokenizer: { readonly tokenizer: string; readonly template: string } | null;
  readonly truncation: { readonly maxTokens: number | null; readonly policy: 'drop' };
  readonly layers: { readonly convention: 'boundary/1'; readonly auxiliary: readonly LayerBoundary[]; readonly last: LayerBoundary };
  readonly lastState: { readonly stored: StoredLastState; readonly norm: string };
  readonly dtype: string;
  readonly layout: RunLayout;
  readonly shardRows: number;
}
