import { TidemarkError } from '../core/errors.ts';
import { countOf, type IndexRange, indicesOf } from '../core/ranges.ts';
import { INTEGER_DTYPES, STATES_DTYPES, type StatesDtype, type StoredTensor } from '../core/run-layout.ts';
import { shellLine } from '../core/shell-line.ts';
import type { FileReader } from '../host/host.ts';
import { formIn } from '../store/form.ts';
import { parsePattern } from '../store/pattern.ts';
import { createStoreReader } from '../store/reader.ts';
import type { Layout, StoredSample } from '../store/store.ts';

/** What sound files say of their own form, all of them the same. */
export interface TreeForm {
  readonly tensors: readonly StoredTensor[];
  /** Keys beside the tensors that hold the id in the file's name. */
  readonly names: readonly string[];
  readonly width: number;
  /** null where the files keep none. */
  readonly auxiliaryLayers: number | null;
  readonly dtype: StatesDtype;
  readonly filesLookedAt: number;
}

/** Files whose forms are compared before a folder is called of one kind. */
const FILES_LOOKED_AT = 32;

/**
 * The one form of a tree's files: keys in their order, dtypes, axes, layers and width.
 * @param layout located: each sound row has a path
 * @param modelWidth of the target, for layouts that do not tell their own
 * @throws TidemarkError `decision-needed` where files differ, or hold what no engine can make again
 */
export async function treeFormOf(
  files: FileReader,
  root: string,
  layout: Layout,
  sound: readonly IndexRange[],
  modelWidth: number,
): Promise<TreeForm> {
  const store = createStoreReader(files, root, layout);
  const pattern = parsePattern(layout.pattern.replace(/ \(.*\)$/s, ''));
  const step = Math.max(1, Math.floor(countOf(sound) / FILES_LOOKED_AT));
  const kinds = new Map<string, { readonly form: Omit<TreeForm, 'filesLookedAt'>; readonly path: string }>();
  let looked = 0;
  let place = 0;
  for (const row of indicesOf(sound)) {
    place += 1;
    if ((place - 1) % step !== 0) continue;
    const path = layout.pathOf(row);
    const opened = await store.open(row);
    if (opened === null || !opened.ok) continue;
    try {
      looked += 1;
      const form = formOf(opened.sample, layout, pattern.match(path)?.id ?? null, modelWidth);
      if (typeof form === 'string') {
        throw new TidemarkError('decision-needed', `${root} cannot be filled with files of its own form: ${path} ${form}`, {
          where: `${root}/${path}`,
          hint: `see what is in it: ${shellLine(['tidemark', 'inspect', `${root}/${path}`])}`,
        });
      }
      kinds.set(JSON.stringify(form), { form, path });
    } finally {
      await opened.sample.close();
    }
  }
  const [only, second] = [...kinds.values()];
  if (only === undefined) {
    throw new TidemarkError('decision-needed', `${root} holds no sound file of the dataset's rows, so there is nothing to adopt`, {
      where: root,
      hint: `tidemark assess ${root} --dataset FILE`,
    });
  }
  if (second !== undefined) {
    throw new TidemarkError(
      'decision-needed',
      `the files of ${root} are of several kinds: ${only.path} is ${words(only.form)}, and ${second.path} ${words(second.form)}`,
      { where: root, hint: 'adopt only a folder of one kind' },
    );
  }
  return { ...only.form, filesLookedAt: looked };
}

/** A text says why no such file can be made. */
function formOf(sample: StoredSample, layout: Layout, id: string | null, modelWidth: number): Omit<TreeForm, 'filesLookedAt'> | string {
  const form = formIn(layout.form, sample.tensors, 'as-written');
  if (form === null) return `does not have the tensors of ${layout.name}`;
  const tensors: StoredTensor[] = [];
  let width: number | null = null;
  for (const { name, dtype } of sample.tensors.values()) {
    const wanted = form.find((tensor) => tensor.name === name);
    if (wanted === undefined) return `holds the tensor ${name}, which no engine gives and tidemark cannot make`;
    const known = wanted.role === 'ids' || wanted.role === 'mask' ? INTEGER_DTYPES : STATES_DTYPES;
    const written = known.find((one) => one === dtype);
    if (written === undefined) return `has ${name} as ${dtype}, and tidemark writes ${known.join(', ')}`;
    tensors.push({ name, role: wanted.role, axes: wanted.axes, dtype: written });
    if (wanted.axes.includes('width')) width ??= sample.tensors.get(name)?.shape[wanted.axes.indexOf('width')] ?? null;
  }
  const states = tensors.filter(({ role }) => role !== 'ids' && role !== 'mask');
  const dtype = STATES_DTYPES.find((one) => one === states[0]?.dtype);
  if (dtype === undefined || states.some((tensor) => tensor.dtype !== dtype))
    return `has states of several dtypes: ${states.map((one) => one.dtype).join(', ')}`;
  const names: string[] = [];
  for (const [key, value] of sample.values) {
    if (typeof value !== 'string' || value !== id) return `holds the value ${key} beside its tensors, which tidemark cannot make`;
    names.push(key);
  }
  const wide = width ?? modelWidth;
  return { tensors, names, width: wide, auxiliaryLayers: layersIn(states, sample, wide), dtype };
}

function layersIn(states: readonly StoredTensor[], sample: StoredSample, width: number): number | null {
  const length = ({ name, axes }: StoredTensor, axis: StoredTensor['axes'][number]): number | null =>
    axes.includes(axis) ? (sample.tensors.get(name)?.shape[axes.indexOf(axis)] ?? 0) : null;
  const all = states.find(({ role }) => role === 'all');
  if (all !== undefined) return (length(all, 'layers') ?? 1) - 1;
  const auxiliary = states.filter(({ role }) => role === 'auxiliary');
  const [first] = auxiliary;
  if (first === undefined) return null;
  const together = length(first, 'layers x width');
  return together === null ? auxiliary.length : together / width;
}

function words({ tensors, width, auxiliaryLayers }: Omit<TreeForm, 'filesLookedAt'>): string {
  return `${tensors.map(({ name, dtype, axes }) => `${name} ${dtype} [${axes.join(', ')}]`).join(', ')}, ${width} wide, ${auxiliaryLayers ?? 0} auxiliary layers`;
}
