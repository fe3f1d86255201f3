import type { Family } from '../family.ts';

/**
 * EAGLE-1 and 2 (SafeAILab/EAGLE 79d6f7900b, ge_data): `sharegpt_S_E_mufp16/GPU/data_K.ckpt`. K is the count of files already
 * in that folder, so it tells no row and a second run appends copies. One state, the last one.
 */
export const eagle: Family = {
  name: 'eagle',
  patterns: ['{dir}/{rank}/data_{index}', '{rank}/data_{index}', 'data_{index}'],
  extensions: ['ckpt'],
  numbering: 'local',
  groupSize: 2000,
  lastState: 'post-norm',
  form: [
    { name: 'input_ids', role: 'ids', axes: ['tokens'] },
    { name: 'loss_mask', role: 'mask', axes: ['tokens'] },
    { name: 'hidden_state', role: 'last', axes: ['tokens', 'width'] },
  ],
};
