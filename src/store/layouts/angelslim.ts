import type { Family } from '../family.ts';

/**
 * AngelSlim (Tencent/AngelSlim 67394ce55f6b): `rank_R/rows_A-B/data_I.ckpt`, 5000 rows a folder. `I` counts inside the rank, so the
 * name alone tells no row. Everything has a leading batch axis; `hidden_states` are the auxiliary layers. The vLLM
 * backend adds `inputs_embeds` and `position_ids`, which may be None.
 */
export const angelSlim: Family = {
  name: 'angelslim',
  patterns: ['rank_{rank}/rows_{from}-{to}/data_{index}', 'rows_{from}-{to}/data_{index}'],
  extensions: ['ckpt'],
  numbering: 'local',
  groupSize: 5000,
  lastState: 'post-norm',
  form: [
    { name: 'input_ids', role: 'ids', axes: ['1', 'tokens'] },
    { name: 'loss_mask', role: 'mask', axes: ['1', 'tokens'] },
    { name: 'hidden_states', role: 'auxiliary', axes: ['1', 'tokens', 'layers x width'] },
    { name: 'target_hiddens', role: 'last', axes: ['1', 'tokens', 'width'] },
  ],
};
