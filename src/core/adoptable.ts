import type { Report } from './report.ts';

/** Whether a foreign tree can be made a run and filled. Files that are named after requests have no names for rows that are still to come. */
export function isAdoptable(layout: Report['layout']): boolean {
  return layout.name !== 'vllm-connector';
}
