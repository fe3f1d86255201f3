import { assert } from '../../core/assert.ts';
import type { TensorInfo, TensorSource } from '../../format/tensors.ts';
import type { ExpectedShape, Layout, ParsedName, SampleStates } from '../store.ts';
import { parseTemporary } from '../temporary.ts';

export interface SpecForgeOptions {
  readonly extension: 'ckpt' | 'pt';
  /** Rows a folder; SpecForge itself uses 2000. */
  readonly groupSize: number;
}

/**
 * SpecForge's offline tree (sgl-project/SpecForge, scripts/prepare_hidden_states.py): `rows_A-B/data_I.ckpt`, a torch
 * zip of a flat dict `input_ids` [T] int64, `loss_mask` [T] int64, `hidden_state` [1, T, H] after the final
 * norm, `aux_hidden_state` [1, T, 3H]. Its own files carry the right padding of their batch, so a file may
 * hold more tokens than its row (pad id 0, mask 0); ids decide, not lengths.
 */
export function specForgeLayout(options: SpecForgeOptions): Layout {
  const { extension, groupSize } = options;
  assert(groupSize > 0, 'a group holds at least one row');
  const folderOf = (index: number) => {
    const from = Math.floor(index / groupSize) * groupSize;
    return { path: `rows_${from}-${from + groupSize}`, range: [from, from + groupSize] as const };
  };
  return {
    name: 'specforge',
    codec: 'torch-zip',
    pattern: `rows_{from}-{to}/data_{index}.${extension}`,
    groupSize,
    pathOf: (index) => `${folderOf(index).path}/data_${index}.${extension}`,
    folderOf,
    parse: (folder, name) => parseName(folder, name, extension, folderOf),
    idsTensor: 'input_ids',
    maskTensor: 'loss_mask',
    stateTensors: ['hidden_state', 'aux_hidden_state'],
    misfit,
    tensorsOf,
  };
}

function parseName(folder: string, name: string, extension: string, folderOf: (index: number) => { path: string }): ParsedName {
  const temporary = parseTemporary(name);
  if (temporary !== null) {
    const index = sampleIndex(temporary.final, extension);
    return { kind: 'temporary', index, lease: temporary.lease };
  }
  const index = sampleIndex(name, extension);
  return index === null ? { kind: 'foreign' } : { kind: 'sample', index, inPlace: folderOf(index).path === folder };
}

function sampleIndex(name: string, extension: string): number | null {
  const match = /^data_(0|[1-9]\d{0,14})\.([a-z]+)$/.exec(name);
  return match !== null && match[2] === extension ? Number(match[1]) : null;
}

function misfit(tensors: ReadonlyMap<string, TensorInfo>, expected: ExpectedShape): string | null {
  const ids = tensors.get('input_ids');
  const mask = tensors.get('loss_mask');
  const last = tensors.get('hidden_state');
  const auxiliary = tensors.get('aux_hidden_state');
  for (const [name, tensor] of Object.entries({ input_ids: ids, loss_mask: mask, hidden_state: last, aux_hidden_state: auxiliary })) {
    if (tensor === undefined) return `it has no tensor ${name}`;
  }
  assert(ids !== undefined && mask !== undefined && last !== undefined && auxiliary !== undefined, 'all four are there');
  const tokens = ids.shape[0] ?? 0;
  const width = last.shape[2] ?? 0;
  if (ids.shape.length !== 1 || tokens === 0) return `input_ids is ${shape(ids)}, not [tokens]`;
  if (expected.tokens !== null && tokens < expected.tokens) return `it holds ${tokens} tokens, its row has ${expected.tokens}`;
  if (mask.shape.length !== 1 || mask.shape[0] !== tokens) return `loss_mask is ${shape(mask)}, input_ids ${shape(ids)}`;
  if (last.shape.length !== 3 || last.shape[0] !== 1 || last.shape[1] !== tokens)
    return `hidden_state is ${shape(last)}, not [1, ${tokens}, width]`;
  if (auxiliary.shape.length !== 3 || auxiliary.shape[0] !== 1 || auxiliary.shape[1] !== tokens) {
    return `aux_hidden_state is ${shape(auxiliary)}, not [1, ${tokens}, 3 x width]`;
  }
  const layers = (auxiliary.shape[2] ?? 0) / width;
  if (width === 0 || !Number.isInteger(layers) || layers < 1) return `aux_hidden_state is ${shape(auxiliary)} beside a width of ${width}`;
  if (expected.width !== null && width !== expected.width) return `hidden_state is ${width} wide, the target is ${expected.width}`;
  if (expected.auxiliaryLayers !== null && layers !== expected.auxiliaryLayers) {
    return `aux_hidden_state holds ${layers} layers, not ${expected.auxiliaryLayers}`;
  }
  if (last.dtype !== auxiliary.dtype) return `hidden_state is ${last.dtype}, aux_hidden_state ${auxiliary.dtype}`;
  return null;
}

function shape(tensor: TensorInfo): string {
  return `[${tensor.shape.join(', ')}]`;
}

/** In the order of SpecForge's own dict, so that the files are byte for byte what its `torch.save` would write. */
function tensorsOf(sample: SampleStates): TensorSource[] {
  const tokens = sample.inputIds.length;
  return [
    { name: 'input_ids', dtype: 'I64', shape: [tokens], pieces: () => [int64Bytes(sample.inputIds)] },
    { name: 'loss_mask', dtype: 'I64', shape: [tokens], pieces: () => [int64Bytes(sample.lossMask)] },
    { name: 'hidden_state', dtype: 'BF16', shape: [1, tokens, sample.width], pieces: () => sample.last() },
    {
      name: 'aux_hidden_state',
      dtype: 'BF16',
      shape: [1, tokens, sample.auxiliaryLayers * sample.width],
      pieces: () => sample.auxiliary(),
    },
  ];
}

function int64Bytes(values: Uint32Array | Uint8Array): Uint8Array {
  const wide = BigInt64Array.from(values, BigInt);
  return new Uint8Array(wide.buffer);
}
