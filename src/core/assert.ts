/** A broken belief of our own: crash, do not repair. Never used on outside data. */
export function assert(condition: unknown, belief: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${belief}`);
}
