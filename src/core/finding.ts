import type { IndexRange } from './ranges.ts';

export type Severity = 'info' | 'warning' | 'error';

export interface Remedy {
  readonly text: string;
  /** `fix`: safe if pasted blindly. `decision`: somebody's to make, such as stopping another server. */
  readonly kind: 'fix' | 'decision';
  /** Argument arrays, never shell text: a path may hold anything. */
  readonly commands: readonly (readonly string[])[];
}

/** Something an operator must know. Codes are stable, never reused and listed in docs/findings.md. */
export interface Finding {
  readonly code: string;
  readonly severity: Severity;
  readonly title: string;
  /** What was seen, with its source. */
  readonly evidence: string;
  readonly ranges?: readonly IndexRange[];
  readonly remedy?: Remedy;
}
