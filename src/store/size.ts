import type { StatesDtype } from '../core/run-layout.ts';
import { CODEC_WRITERS } from './codecs.ts';
import type { Layout } from './store.ts';

export interface SampleShape {
  readonly tokens: number;
  /** Hidden size of the target. */
  readonly width: number;
  readonly auxiliaryLayers: number;
  readonly dtype: StatesDtype;
}

/**
 * The size of a sample's file before it is written: it follows from names and shapes alone. Exact, but for a compressed file, of
 * which it is the most that it can have.
 */
export function sampleBytes(layout: Layout, index: number, shape: SampleShape): number {
  const path = layout.pathOf(index);
  const tensors = layout.tensorsOf({
    inputIds: new Uint32Array(shape.tokens),
    lossMask: new Uint8Array(shape.tokens),
    width: shape.width,
    auxiliaryLayers: shape.auxiliaryLayers,
    dtype: shape.dtype,
    slots: async function* () {
      yield* [];
    },
  });
  return CODEC_WRITERS[layout.codec].size(tensors, { name: path.slice(path.lastIndexOf('/') + 1), texts: layout.textsOf(index) });
}
