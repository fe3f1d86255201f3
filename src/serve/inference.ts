import { assert } from '../core/assert.ts';
import type { TidemarkError } from '../core/errors.ts';
import { createBatcher } from './batcher.ts';
import { bucketOf } from './key-value-cache.ts';
import type { DecodeRow, EngineModel, PrefillWants, StepResult } from './model.ts';

/** The model behind its queue: what a request's handler calls. */
export interface Inference {
  prefill(tokenIds: readonly number[], wants: PrefillWants, signal: AbortSignal): Promise<StepResult>;
  decode(row: DecodeRow, signal: AbortSignal): Promise<StepResult>;
  readonly failure: TidemarkError | null;
}

type Step =
  | { readonly kind: 'prefill'; readonly tokenIds: readonly number[]; readonly wants: PrefillWants }
  | { readonly kind: 'decode'; readonly row: DecodeRow };

/** Tokens of one prefill batch: 4,096 take about 90 MB of logits and states for tide-5m. */
const BATCH_TOKENS_MOST = 4096;

export function createInference(model: EngineModel, options: { readonly batchMost: number }): Inference {
  const batcher = createBatcher<Step, StepResult>({
    jobsMost: options.batchMost,
    costMost: BATCH_TOKENS_MOST,
    costOf: (step) => (step.kind === 'prefill' ? step.tokenIds.length : 1),
    keyOf(step) {
      if (step.kind === 'decode') return `decode ${bucketOf(step.row.cache.length)}`;
      return `prefill ${step.tokenIds.length} states=${step.wants.states} cache=${step.wants.cache}`;
    },
    run(steps) {
      const first = steps[0];
      assert(first !== undefined, 'a batch holds a step');
      if (first.kind === 'decode') return model.decode(steps.flatMap((step) => (step.kind === 'decode' ? [step.row] : [])));
      return model.prefill(
        steps.flatMap((step) => (step.kind === 'prefill' ? [step.tokenIds] : [])),
        first.wants,
      );
    },
  });
  return {
    prefill: (tokenIds, wants, signal) => batcher.submit({ kind: 'prefill', tokenIds, wants }, signal),
    decode: (row, signal) => batcher.submit({ kind: 'decode', row }, signal),
    get failure() {
      return batcher.failure;
    },
  };
}
