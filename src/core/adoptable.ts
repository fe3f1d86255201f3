import type { Report } from './report.ts';

/** Whether a foreign tree is in a layout that tidemark writes too, so that it can be adopted and filled. */
export function isAdoptable(layout: Report['layout']): boolean {
  return (
    layout.name === 'specforge' &&
    layout.codec === 'torch-zip' &&
    layout.groupSize > 0 &&
    /^rows_\{from\}-\{to\}\/data_\{index\}\.(ckpt|pt)$/.test(layout.pattern)
  );
}
