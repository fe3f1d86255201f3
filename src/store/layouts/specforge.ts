import { assert } from '../../core/assert.ts';
import type { Family } from '../family.ts';
import { formulaLayout } from '../layout.ts';
import type { Layout } from '../store.ts';

export interface SpecForgeOptions {
  readonly extension: 'ckpt' | 'pt';
  /** Rows a folder; SpecForge itself uses 2000. */
  readonly groupSize: number;
}

/** What all of SpecForge's methods share (sgl-project/SpecForge a6b6b0230009, scripts/prepare_hidden_states.py). */
const COMMON = {
  patterns: ['rows_{from}-{to}/data_{index}', 'data_{index}'],
  extensions: ['ckpt', 'ckpt.gz', 'pt', 'pt.gz'],
  numbering: 'row',
  groupSize: 2000,
  lastState: 'post-norm',
} as const;

const IDS_AND_MASK = [
  { name: 'input_ids', role: 'ids', axes: ['tokens'] },
  { name: 'loss_mask', role: 'mask', axes: ['tokens'] },
] as const;

/**
 * EAGLE-3, in the order of SpecForge's own dict, so that our files are byte for byte what its `torch.save` would write: `rows_A-B/data_I.ckpt`, a torch zip of a flat dict `input_ids` [T] int64, `loss_mask` [T] int64, `hidden_state`
 * [1, T, H] after the final norm, `aux_hidden_state` [1, T, 3H]. Its own files carry the right padding of their
 * batch, so a file may hold more tokens than its row (pad id 0, mask 0); ids decide, not lengths.
 */
export const specForge: Family = {
  ...COMMON,
  name: 'specforge',
  form: [
    ...IDS_AND_MASK,
    { name: 'hidden_state', role: 'last', axes: ['1', 'tokens', 'width'] },
    { name: 'aux_hidden_state', role: 'auxiliary', axes: ['1', 'tokens', 'layers x width'] },
  ],
};

/** DFlash and Domino: `hidden_states` [1, T, n·H] are the auxiliary layers; there is no last state. */
export const specForgeDflash: Family = {
  ...COMMON,
  name: 'specforge-dflash',
  form: [...IDS_AND_MASK, { name: 'hidden_states', role: 'auxiliary', axes: ['1', 'tokens', 'layers x width'] }],
};

/** DSpark: as DFlash, and `target_last_hidden_states` [1, T, H] after the final norm. */
export const specForgeDspark: Family = {
  ...COMMON,
  name: 'specforge-dspark',
  form: [...specForgeDflash.form, { name: 'target_last_hidden_states', role: 'last', axes: ['1', 'tokens', 'width'] }],
};

/** The layout that tidemark begins runs in. */
export function specForgeLayout(options: SpecForgeOptions): Layout {
  const { extension, groupSize } = options;
  assert(groupSize > 0, 'a group holds at least one row');
  return formulaLayout(specForge, { pattern: `rows_{from}-{to}/data_{index}.${extension}`, codec: 'torch-zip', groupSize });
}
