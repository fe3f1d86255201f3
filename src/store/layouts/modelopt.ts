import type { Family } from '../family.ts';

/**
 * NVIDIA Model-Optimizer (a2fbac7bad8a): `<conversation_id>.pt`, where the id is the dataset's own and no row number. Here
 * `hidden_states` [T, H] is the last state and `aux_hidden_states` [T, 3H] the others; the vLLM dump may lack the mask. Its Hugging
 * Face dump leaves the last state behind the norm, its vLLM dump before it.
 */
export const modelOpt: Family = {
  name: 'modelopt',
  patterns: ['{id}', '{dir}/{id}'],
  extensions: ['pt'],
  numbering: 'none',
  groupSize: 2000,
  lastState: null,
  form: [
    { name: 'input_ids', role: 'ids', axes: ['tokens'] },
    { name: 'loss_mask', role: 'mask', axes: ['tokens'], optional: true },
    { name: 'hidden_states', role: 'last', axes: ['tokens', 'width'] },
    { name: 'aux_hidden_states', role: 'auxiliary', axes: ['tokens', 'layers x width'] },
  ],
};
