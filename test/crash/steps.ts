/** The steps of a commit (docs/on-disk.md), each with the places where a kill is aimed at it: a gate without its count. */
export const COMMIT_STEPS = {
  create: ['sample-temp:create:before', 'sample-temp:create:after'],
  write: ['sample-temp:write:before', 'sample-temp:write:mid', 'sample-temp:write:after'],
  mode: ['sample-temp:setMode:after'],
  sync: ['sample-temp:sync:before', 'sample-temp:sync:after'],
  publish: ['sample:link:before', 'sample:link:after'],
  unlink: ['sample-temp:unlink:before', 'sample-temp:unlink:after'],
  'sync-directory': ['sample:syncDirectory:before', 'sample:syncDirectory:after'],
  record: ['ledger:write:before', 'ledger:write:mid', 'ledger:write:after'],
  'sync-journal': ['ledger:sync:before', 'ledger:sync:after'],
  acknowledge: ['capture:unlink:before', 'capture:unlink:after'],
} as const;

export type CommitStep = keyof typeof COMMIT_STEPS;

/** Around a commit: leases and the run's own files. Hit too, but no step of a commit. */
export const OTHER_GATES = [
  'lease:create:after',
  'lease:link:before',
  'lease:link:after',
  'run-record:rename:before',
  'ledger:create:after',
] as const;

export function gateOf(place: string, nth: number): string {
  const [pathClass, op, when] = place.split(':');
  return `${pathClass}:${op}:${nth}:${when}`;
}

/** The commit step that a record of a trace, or a gate's place, belongs to; null for anything else. */
export function stepOf(record: { readonly class: string; readonly op: string }): CommitStep | null {
  const prefix = `${record.class}:${record.op}:`;
  for (const [step, places] of Object.entries(COMMIT_STEPS)) {
    if (places.some((place) => place.startsWith(prefix))) return step as CommitStep;
  }
  return null;
}
