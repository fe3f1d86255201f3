/**
 * Temporary names: `data_7.ckpt.tidemark-L3.2.tmp`: the final name, the lease that writes, a number
 * of its own. They end in `.tmp` so that no trainer's reader takes one for a sample.
 */
export function temporaryName(final: string, lease: number, serial: number): string {
  return `${final}.tidemark-L${lease}.${serial}.tmp`;
}

export function parseTemporary(name: string): { readonly final: string; readonly lease: number } | null {
  const match = /^(.+)\.tidemark-L([1-9]\d{0,9})\.\d{1,9}\.tmp$/s.exec(name);
  return match?.[1] === undefined ? null : { final: match[1], lease: Number(match[2]) };
}
