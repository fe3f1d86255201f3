import { fileSizeOf } from '../format/torch-zip-writer.ts';
import type { Layout } from './store.ts';

/**
 * The exact size of a sample's file before it is written: it follows from names and shapes alone.
 * @param width hidden size of the target
 */
export function sampleBytes(layout: Layout, index: number, tokens: number, width: number, auxiliaryLayers: number): number {
  const name = layout.pathOf(index).slice(layout.folderOf(index).path.length + 1);
  const nothing = (): Iterable<Uint8Array> => [];
  const tensors = layout.tensorsOf({
    inputIds: new Uint32Array(tokens),
    lossMask: new Uint8Array(tokens),
    width,
    auxiliaryLayers,
    auxiliary: async function* () {
      yield* nothing();
    },
    last: async function* () {
      yield* nothing();
    },
  });
  return fileSizeOf(tensors, { stem: name.slice(0, name.lastIndexOf('.')) });
}
