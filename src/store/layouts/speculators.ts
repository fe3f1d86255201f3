import type { Family } from '../family.ts';

/**
 * speculators (vllm-project/speculators c05b95b303f7): `hs_I.safetensors` in one flat folder, I the position in the dataset.
 * `hidden_states` [T, n + 1, H] holds the auxiliary layers and, in the last slot, the state before the final norm. The loss
 * mask stays in the Arrow dataset.
 */
export const speculators: Family = {
  name: 'speculators',
  patterns: ['hs_{index}', 'rows_{from}-{to}/hs_{index}'],
  extensions: ['safetensors'],
  numbering: 'row',
  groupSize: 2000,
  lastState: 'pre-norm',
  form: [
    { name: 'token_ids', role: 'ids', axes: ['tokens'] },
    { name: 'hidden_states', role: 'all', axes: ['tokens', 'layers', 'width'] },
  ],
};

/** What vLLM's connector itself leaves: the same tensors under the request's name. Its `.lock` files are no samples. */
export const vllmConnector: Family = {
  ...speculators,
  name: 'vllm-connector',
  patterns: ['{id}'],
  numbering: 'none',
};

const OLDER = { patterns: ['data_{index}', '{index}'], extensions: ['pt'], numbering: 'row', groupSize: 2000, lastState: null } as const;

/**
 * speculators' older files, one `.pt` a sample: "v0" has `hidden_state` [T, n·H] and mostly `target` [T, H]
 * (src/speculators/train/data.py, `standardize_data_v0`).
 */
export const speculatorsV0: Family = {
  ...OLDER,
  name: 'speculators-v0',
  form: [
    { name: 'input_ids', role: 'ids', axes: ['tokens'] },
    { name: 'loss_mask', role: 'mask', axes: ['tokens'] },
    { name: 'hidden_state', role: 'auxiliary', axes: ['tokens', 'layers x width'] },
    { name: 'target', role: 'last', axes: ['tokens', 'width'], optional: true },
  ],
};

/** "v1" keeps `hidden_states` as a list of [T, H], the last state at its end (`standardize_data_v1`); three auxiliary layers. */
export const speculatorsV1: Family = {
  ...OLDER,
  name: 'speculators-v1',
  form: [
    { name: 'input_ids', role: 'ids', axes: ['tokens'] },
    { name: 'loss_mask', role: 'mask', axes: ['tokens'] },
    { name: 'hidden_states/0', role: 'auxiliary', axes: ['tokens', 'width'] },
    { name: 'hidden_states/1', role: 'auxiliary', axes: ['tokens', 'width'] },
    { name: 'hidden_states/2', role: 'auxiliary', axes: ['tokens', 'width'] },
    { name: 'hidden_states/3', role: 'last', axes: ['tokens', 'width'] },
  ],
};
