/** Strides of a row-major tensor, in elements; an axis of length 0 counts as 1, as torch counts. */
export function rowMajorStrides(shape: readonly number[]): number[] {
  const strides: number[] = new Array(shape.length).fill(1);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    strides[axis] = step;
    step *= Math.max(shape[axis] ?? 1, 1);
  }
  return strides;
}
