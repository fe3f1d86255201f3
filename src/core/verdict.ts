/**
 * What is true of one row now, to the level that was asked. The words are fixed: scripts read them
 * (docs/report.md lists them with their meanings).
 */
export const LEVELS = ['names', 'structure', 'identity', 'checksum', 'content'] as const;
/** How deep a check reads; each level includes those before it. */
export type Level = (typeof LEVELS)[number];

export function levelAtLeast(level: Level, wanted: Level): boolean {
  return LEVELS.indexOf(level) >= LEVELS.indexOf(wanted);
}

export type VerdictKind = 'sound' | 'missing' | 'torn' | 'corrupt' | 'drifted' | 'poisoned' | 'unreadable';

export const REASONS = {
  sound: ['checked', 'unprovable'],
  missing: ['never-started', 'in-flight', 'failed', 'lost', 'accepted'],
  torn: ['empty', 'truncated', 'zero-filled', 'structure', 'trailing-bytes'],
  corrupt: ['checksum'],
  drifted: ['dataset-shift', 'other-row'],
  poisoned: ['nan', 'inf', 'zero', 'shape'],
  unreadable: ['io-error', 'permission', 'timeout'],
} as const satisfies Record<VerdictKind, readonly string[]>;

export type Reason<K extends VerdictKind = VerdictKind> = (typeof REASONS)[K][number];

/** A verdict is a pair that the table above allows; `detail` says in words what was seen. */
export type Verdict = {
  [K in VerdictKind]: { readonly kind: K; readonly reason: Reason<K>; readonly detail?: string };
}[VerdictKind];

export const VERDICT_KINDS = Object.keys(REASONS) as readonly VerdictKind[];
