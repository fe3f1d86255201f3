/** Exit codes; docs/exit-codes.md is the same table for people. */
export const EXIT = {
  complete: 0,
  failed: 1,
  usage: 2,
  incomplete: 3,
  decision: 4,
  locked: 5,
  noRun: 6,
  refused: 7,
  stale: 8,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];
