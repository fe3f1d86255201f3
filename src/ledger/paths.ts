/** Names inside `.tidemark/` (docs/on-disk.md). Paths use `/`: tidemark writes on POSIX filesystems. */
export const MEMORY_FOLDER = '.tidemark';

export function memoryPath(folder: string, ...parts: readonly string[]): string {
  return [folder, MEMORY_FOLDER, ...parts].join('/');
}

export type Scope = 'run' | `shard-${number}`;

export function shardScope(shard: number): Scope {
  return `shard-${shard}`;
}

export function leaseName(scope: Scope, lease: number): string {
  return `${scope}.${lease}`;
}

export function journalName(scope: Scope, lease: number): string {
  return `${scope}.${lease}.log`;
}

/** The scope and number in a lease's or journal's name, or null for any other name. */
export function parseNumbered(name: string, suffix: '' | '.log'): { readonly scope: Scope; readonly lease: number } | null {
  const match = /^(run|shard-(?:0|[1-9]\d{0,9}))\.([1-9]\d{0,9})(\.log)?$/.exec(name);
  if (match === null || (match[3] ?? '') !== suffix) return null;
  return { scope: match[1] as Scope, lease: Number(match[2]) };
}
