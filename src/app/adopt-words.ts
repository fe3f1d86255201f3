import { formatCount } from '../core/units.ts';
import type { Inferred } from './adopt.ts';

/** What was found out, one fact a line, for a person to say yes to. */
export function inferredLines({ layout, pattern, codec, form, lastState, names, layers }: Inferred, sound: number): string[] {
  const folders = layout.groupSize === 0 ? '' : `, ${formatCount(layout.groupSize)} rows a folder`;
  const odd = layout.tree?.ranges.length ?? 0;
  const tensors = form.tensors.map(({ name, dtype, axes }) => `${name} ${dtype} [${axes.join(', ')}]`);
  const texts = form.names.map((name) => `${name} (the file's own name)`);
  return [
    `${formatCount(sound)} sound files; of ${formatCount(form.filesLookedAt)} looked at all are of one form:`,
    `  layout      ${layout.name}: ${pattern}${folders}${odd === 0 ? '' : `, ${formatCount(odd)} folders of other sizes`}; ${codec}`,
    `  tensors     ${[...tensors, ...texts].join(', ')}`,
    `  states      ${form.width} wide, ${form.auxiliaryLayers === null ? 'no' : formatCount(form.auxiliaryLayers)} auxiliary layers, ${form.dtype}`,
    `  last state  ${lastState.stored} (${lastState.source})`,
    `  new files   ${names}`,
    `  layers      ${layers.auxiliary.join(', ')} (boundary numbers; ${layers.named ? 'as named' : "not in the files: name them with --layers; these are EAGLE-3's usual ones"})`,
  ];
}
