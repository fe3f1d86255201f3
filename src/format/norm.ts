import { assert } from '../core/assert.ts';

/**
 * The final norms of decoder models. The weights are those of the checkpoint, as stored.
 * - `rms`: x / rms(x) * w
 * - `rms-plus-one`: x / rms(x) * (1 + w); Gemma and its kin store weights around zero
 * - `layer`: (x - mean(x)) / deviation(x) * w + b
 */
export type NormKind = 'rms' | 'rms-plus-one' | 'layer';

export interface FinalNorm {
  readonly kind: NormKind;
  readonly epsilon: number;
  readonly weight: Float32Array;
  /** Only with `layer`. */
  readonly bias: Float32Array | null;
}

/**
 * Replaces each row of `width` values by its normed self.
 *
 * Sums run in float64, so that the order of addition (which differs between servers and processors) stays far below the last
 * bit of a float32; products and the result are float32. Servers that round to bfloat16 before they
 * multiply by the weight differ from this in the last bit of some values.
 */
export function applyFinalNorm(norm: FinalNorm, rows: Float32Array, width: number): void {
  assert(width > 0 && norm.weight.length === width, `the norm's weight has ${width} values`);
  assert(norm.bias === null || (norm.kind === 'layer' && norm.bias.length === width), 'only a layer norm has a bias, of the same width');
  assert(rows.length % width === 0, 'rows are whole');
  const scale = norm.kind === 'rms-plus-one' ? norm.weight.map((weight) => 1 + weight) : norm.weight;
  if (norm.kind === 'layer') layerNorm(rows, width, norm.epsilon, scale, norm.bias);
  else rmsNorm(rows, width, norm.epsilon, scale);
}

// Plain loops over typed arrays: this runs over every value of the last state, some two hundred million a second.

function rmsNorm(rows: Float32Array, width: number, epsilon: number, scale: Float32Array): void {
  for (let start = 0; start < rows.length; start += width) {
    // Four sums that do not wait for each other; one would be bound by the latency of an addition.
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    let at = 0;
    for (; at + 4 <= width; at += 4) {
      const x0 = rows[start + at] as number;
      const x1 = rows[start + at + 1] as number;
      const x2 = rows[start + at + 2] as number;
      const x3 = rows[start + at + 3] as number;
      a += x0 * x0;
      b += x1 * x1;
      c += x2 * x2;
      d += x3 * x3;
    }
    for (; at < width; at++) a += (rows[start + at] as number) ** 2;
    const factor = Math.fround(1 / Math.sqrt((a + b + (c + d)) / width + epsilon));
    for (let i = 0; i < width; i++) {
      rows[start + i] = Math.fround((rows[start + i] as number) * factor) * (scale[i] as number);
    }
  }
}

function layerNorm(rows: Float32Array, width: number, epsilon: number, scale: Float32Array, bias: Float32Array | null): void {
  for (let start = 0; start < rows.length; start += width) {
    let sum = 0;
    for (let i = 0; i < width; i++) sum += rows[start + i] as number;
    const mean = sum / width;
    // A second pass, because mean(x²) - mean² cancels when the mean is large against the deviation.
    let squares = 0;
    for (let i = 0; i < width; i++) {
      const difference = (rows[start + i] as number) - mean;
      squares += difference * difference;
    }
    const factor = 1 / Math.sqrt(squares / width + epsilon);
    for (let i = 0; i < width; i++) {
      const normed = Math.fround(((rows[start + i] as number) - mean) * factor);
      rows[start + i] = normed * (scale[i] as number) + (bias === null ? 0 : (bias[i] as number));
    }
  }
}
