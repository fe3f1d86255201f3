/** Waits grow from `firstMs` by doubling to `mostMs`, each spread over its upper half so that callers do not return together. */
export interface Backoff {
  readonly firstMs: number;
  readonly mostMs: number;
}

/** @param attempt 0 for the first wait
 *  @param unit a number in [0, 1) */
export function waitMs(backoff: Backoff, attempt: number, unit: number): number {
  const full = Math.min(backoff.mostMs, backoff.firstMs * 2 ** Math.min(attempt, 30));
  return full * (0.5 + unit / 2);
}
