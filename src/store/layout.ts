import { assert } from '../core/assert.ts';
import type { IndexRange } from '../core/ranges.ts';
import type { Codec } from '../core/run-layout.ts';
import { type Form, idsTensorOf, maskTensorOf, misfitOf, stateTensorsOf } from './form.ts';
import { type Pattern, type PatternFields, parsePattern } from './pattern.ts';
import { sourcesOf } from './sources.ts';
import type { Layout, Numbering, ParsedName } from './store.ts';
import { parseTemporary } from './temporary.ts';

export interface LayoutShape {
  /** With the extension. */
  readonly pattern: string;
  readonly codec: Codec;
  /** Rows a folder; 0 for one flat folder. */
  readonly groupSize: number;
  /** Folders that are there and hold other ranges than `groupSize` would give them, ascending, without overlap. */
  readonly ranges?: readonly IndexRange[];
}

/** Whose tensors the files hold: a family as its tool writes it, or as one tree has it. */
export interface Kind {
  readonly name: string;
  readonly form: Form;
}

/** A layout whose paths follow from the index: by folders of one size, by folders as they are named, or flat. */
export function formulaLayout(kind: Kind, shape: LayoutShape): Layout {
  const { groupSize, ranges = [] } = shape;
  const pattern = parsePattern(shape.pattern);
  assert(isFormula(pattern), 'every placeholder of the pattern follows from the index');
  // A sample's name may stand in the wrong folder, so the file's own part alone decides what a name is.
  const base = parsePattern(shape.pattern.slice(shape.pattern.lastIndexOf('/') + 1));
  const rangeOf = (index: number): IndexRange => {
    if (!pattern.fields.has('from')) return [0, Number.MAX_SAFE_INTEGER];
    const exception = rangeWith(ranges, index);
    if (exception !== null) return exception;
    const from = Math.floor(index / groupSize) * groupSize;
    return [from, from + groupSize];
  };
  const valuesOf = (index: number) => {
    const [from, to] = rangeOf(index);
    return { index, from, to };
  };
  const folderOf = (index: number) => ({ path: pattern.renderFolder(valuesOf(index)), range: rangeOf(index) });
  return {
    ...commonOf(kind, shape),
    groupSize: pattern.fields.has('from') ? groupSize : 0,
    numbering: 'row',
    located: true,
    pathOf: (index) => pattern.render(valuesOf(index)),
    folderOf,
    parse: parserOf(
      (_, name) => base.match(name),
      (fields, folder) => {
        const index = Number(fields.index);
        return { kind: 'sample', index, inPlace: folderOf(index).path === folder };
      },
    ),
  };
}

/** A layout of whose files only the tree itself, or what is in them, says whose row they are. */
export function unlocatedLayout(kind: Kind, shape: LayoutShape & { readonly numbering: Numbering }): Layout {
  const pattern = parsePattern(shape.pattern);
  const unknown = (): never => {
    throw new Error('a layout whose files are not placed has no path for an index; call placeFiles first');
  };
  return {
    ...commonOf(kind, shape),
    numbering: shape.numbering,
    located: false,
    pathOf: unknown,
    folderOf: unknown,
    parse: parserOf(
      (folder, name) => pattern.match(folder === '' ? name : `${folder}/${name}`),
      ({ index, dir, rank }) => ({
        kind: 'unplaced',
        writer: [dir, rank].filter((part) => part !== undefined).join('/'),
        number: index === undefined ? null : Number(index),
      }),
    ),
    folderFits: (path) => pattern.matchFolder(path) !== null,
  };
}

/** Whether every placeholder follows from the index. */
export function isFormula(pattern: Pattern): boolean {
  return pattern.fields.has('index') && [...pattern.fields].every((field) => field === 'index' || field === 'from' || field === 'to');
}

function commonOf({ name, form }: Kind, shape: LayoutShape) {
  return {
    name,
    form,
    codec: shape.codec,
    pattern: shape.pattern,
    groupSize: shape.groupSize,
    ranges: shape.ranges ?? [],
    idsTensor: idsTensorOf(form),
    maskTensor: maskTensorOf(form),
    stateTensors: stateTensorsOf(form),
    misfit: (tensors, expected) => misfitOf(form, tensors, expected),
    tensorsOf: (sample) => sourcesOf(form, sample),
    textsOf: () => [],
  } satisfies Partial<Layout>;
}

function parserOf(
  match: (folder: string, name: string) => PatternFields | null,
  found: (fields: PatternFields, folder: string) => ParsedName,
): Layout['parse'] {
  return (folder, name) => {
    const temporary = parseTemporary(name);
    if (temporary !== null) {
      const index = match(folder, temporary.final)?.index;
      return { kind: 'temporary', index: index === undefined ? null : Number(index), lease: temporary.lease };
    }
    const fields = match(folder, name);
    return fields === null ? { kind: 'foreign' } : found(fields, folder);
  };
}

function rangeWith(ranges: readonly IndexRange[], index: number): IndexRange | null {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranges[middle]?.[1] ?? 0) <= index) low = middle + 1;
    else high = middle;
  }
  const range = ranges[low];
  return range !== undefined && range[0] <= index ? range : null;
}
