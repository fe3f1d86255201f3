import type { Axis, TensorRole } from '../core/run-layout.ts';
import type { Dtype, TensorInfo } from '../format/tensors.ts';
import type { ExpectedShape } from './store.ts';

/** A tensor as a tool writes it. */
export interface TensorForm {
  readonly name: string;
  readonly role: TensorRole;
  readonly axes: readonly Axis[];
  /** Some versions of the tool leave it out. */
  readonly optional?: true;
  /** Of ids and mask, as they are written; default I64. States are written in the run's own. */
  readonly dtype?: Dtype;
}

export type Form = readonly TensorForm[];

export function idsTensorOf(form: Form): string {
  return form.find((tensor) => tensor.role === 'ids')?.name ?? '';
}

export function maskTensorOf(form: Form): string | null {
  return form.find((tensor) => tensor.role === 'mask')?.name ?? null;
}

export function stateTensorsOf(form: Form): string[] {
  return form.filter((tensor) => tensor.role !== 'ids' && tensor.role !== 'mask').map((tensor) => tensor.name);
}

/**
 * The form as one file has it; null where a tensor that it must have is absent or has another number of axes.
 * @param batch `as-written`: the tool's own axes. `either`: a leading axis of one may stand where the tool has none, or be absent where it has one
 */
export function formIn(form: Form, tensors: ReadonlyMap<string, TensorInfo>, batch: 'as-written' | 'either'): Form | null {
  const seen: TensorForm[] = [];
  for (const wanted of form) {
    const axes = axesIn(wanted.axes, tensors.get(wanted.name)?.shape, batch);
    if (axes !== null) seen.push(axes === wanted.axes ? wanted : { ...wanted, axes });
    else if (wanted.optional !== true) return null;
  }
  return seen;
}

function axesIn(axes: readonly Axis[], shape: readonly number[] | undefined, batch: 'as-written' | 'either'): readonly Axis[] | null {
  if (shape === undefined) return null;
  if (shape.length === axes.length) return axes;
  if (batch === 'as-written') return null;
  if (shape.length === axes.length + 1 && shape[0] === 1 && axes[0] !== '1') return ['1', ...axes];
  return shape.length === axes.length - 1 && axes[0] === '1' ? axes.slice(1) : null;
}

/** Says how the tensors of a file do not fit the form, or null when they fit. */
export function misfitOf(form: Form, tensors: ReadonlyMap<string, TensorInfo>, expected: ExpectedShape): string | null {
  const absent = form.find((tensor) => tensor.optional !== true && !tensors.has(tensor.name));
  if (absent !== undefined) return `it has no tensor ${absent.name}`;
  const here = form.flatMap((wanted) => {
    const tensor = tensors.get(wanted.name);
    return tensor === undefined ? [] : [{ wanted, tensor }];
  });
  const ids = here.find(({ wanted }) => wanted.role === 'ids');
  const tokens = ids === undefined ? 0 : lengthOf(ids.wanted, ids.tensor, 'tokens');
  if (ids === undefined || tokens === null || tokens === 0 || !fits(ids.wanted, ids.tensor, tokens, null)) {
    return ids === undefined ? 'it has no token ids' : `${ids.tensor.name} is ${shape(ids.tensor)}, not ${axesText(ids.wanted, null)}`;
  }
  if (expected.tokens !== null && tokens < expected.tokens) return `it holds ${tokens} tokens, its row has ${expected.tokens}`;
  const width = here.map(({ wanted, tensor }) => lengthOf(wanted, tensor, 'width')).find((length) => length !== null) ?? expected.width;
  for (const { wanted, tensor } of here) {
    if (!fits(wanted, tensor, tokens, width))
      return `${tensor.name} is ${shape(tensor)}, not ${axesText(wanted, tokens)}${width === null ? '' : `, ${width} wide`}`;
  }
  return targetMisfit(here, width, expected);
}

function targetMisfit(
  here: readonly { readonly wanted: TensorForm; readonly tensor: TensorInfo }[],
  width: number | null,
  expected: ExpectedShape,
): string | null {
  const states = here.filter(({ wanted }) => wanted.role !== 'ids' && wanted.role !== 'mask');
  const first = states[0]?.tensor;
  if (expected.width !== null && width !== null && width !== expected.width)
    return `its states are ${width} wide, the target is ${expected.width}`;
  for (const { wanted, tensor } of states) {
    const wide = lengthOf(wanted, tensor, 'layers x width');
    const layers = wide !== null ? (width === null ? null : wide / width) : lengthOf(wanted, tensor, 'layers');
    const auxiliary = layers === null || wanted.role !== 'all' ? layers : layers - 1;
    if (expected.auxiliaryLayers !== null && auxiliary !== null && auxiliary !== expected.auxiliaryLayers) {
      return `${tensor.name} holds ${auxiliary} auxiliary layers, not ${expected.auxiliaryLayers}`;
    }
    if (first !== undefined && tensor.dtype !== first.dtype) return `${first.name} is ${first.dtype}, ${tensor.name} ${tensor.dtype}`;
  }
  return null;
}

function lengthOf(wanted: TensorForm, tensor: TensorInfo, axis: Axis): number | null {
  const at = wanted.axes.indexOf(axis);
  return at < 0 || wanted.axes.length !== tensor.shape.length ? null : (tensor.shape[at] ?? null);
}

function fits(wanted: TensorForm, tensor: TensorInfo, tokens: number, width: number | null): boolean {
  if (wanted.axes.length !== tensor.shape.length) return false;
  return wanted.axes.every((axis, at) => axisFits(axis, tensor.shape[at] ?? 0, tokens, width));
}

function axisFits(axis: Axis, length: number, tokens: number, width: number | null): boolean {
  switch (axis) {
    case '1':
      return length === 1;
    case 'tokens':
      return length === tokens;
    case 'width':
      return length > 0 && (width === null || length === width);
    case 'layers x width':
      return length > 0 && (width === null || length % width === 0);
    case 'layers':
      return length > 0;
  }
}

function axesText(wanted: TensorForm, tokens: number | null): string {
  return `[${wanted.axes.map((axis) => (axis === 'tokens' && tokens !== null ? tokens : axis)).join(', ')}]`;
}

function shape(tensor: TensorInfo): string {
  return `[${tensor.shape.join(', ')}]`;
}
