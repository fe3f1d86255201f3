import { resolve } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { clipRanges, countOf, formatRanges, type IndexRange, indicesOf, mergeRanges, rangesOf } from '../core/ranges.ts';
import type { Host } from '../host/host.ts';
import type { LedgerReader } from '../ledger/ledger.ts';
import { openLedger } from '../ledger/open.ts';
import { openRunWriter } from '../ledger/write.ts';
import { parseSettings } from './config-settings.ts';
import { openRunLayout } from './run-layout.ts';

export interface Accepted {
  readonly ranges: readonly IndexRange[];
  readonly count: number;
  /** Rows that were given up before, already. */
  readonly before: number;
}

const REASON_MOST = 500;
/** Named in the refusal; the rest is as many again. */
const KEPT_MOST = 1000;

/**
 * Records rows that the operator gives up, in the run's journal and under its lease: from then on they count as done wherever they
 * have no sound file. Nothing is deleted, and a sound file of such a row stays sound.
 * @throws TidemarkError `usage`, `no-run`, `run-locked`, `run-unknown-holder`
 */
export async function acceptRows(
  host: Host,
  folder: string,
  ranges: readonly IndexRange[],
  reason: string,
  options: { readonly cwd: string } = { cwd: '/' },
): Promise<Accepted> {
  const root = resolve(options.cwd, folder);
  const text = reason.trim();
  if (text === '' || text.length > REASON_MOST) {
    throw new TidemarkError('usage', `a reason of 1 to ${REASON_MOST} characters is needed: it stays with the rows`, {
      where: root,
      hint: `tidemark accept ${folder} RANGES --reason 'longer than the engine takes'`,
    });
  }
  const merged = mergeRanges(ranges);
  if (merged.length === 0) throw new TidemarkError('usage', 'no rows were named', { where: root, hint: 'name rows as 4711,6802-6810' });
  const ledger = await openLedger(host, root, { parseSettings });
  if (ledger === null) {
    throw new TidemarkError(
      'no-run',
      `${root} is no run of tidemark: it has no journal in which rows could be given up. Adopt the folder first; nothing was written`,
      { where: root, hint: `tidemark adopt ${folder}` },
    );
  }
  const rows = ledger.table?.rows ?? ledger.run.identity.dataset.rows;
  const beyond = merged.filter(([from, to]) => from < 0 || to > rows);
  if (beyond.length > 0) {
    throw new TidemarkError('usage', `the run has rows 0 to ${rows - 1}, not ${formatRanges(beyond)}; nothing was written`, {
      where: root,
    });
  }
  const kept = await keptRows(host, root, ledger, merged);
  if (kept.length > 0) {
    throw new TidemarkError(
      'usage',
      `these rows have their committed file, and nothing is to be given up: ${formatRanges(rangesOf(kept))}; nothing was written`,
      {
        where: root,
        hint: `tidemark assess ${root}`,
      },
    );
  }
  const already = new Set<number>();
  for (const [from, to] of await ledger.accepted()) for (let row = from; row < to; row += 1) already.add(row);
  let before = 0;
  for (const [from, to] of merged) for (let row = from; row < to; row += 1) if (already.has(row)) before += 1;
  const writer = await openRunWriter(host, root, { takeOver: false });
  try {
    await writer.journal.append({ kind: 'accept', at: host.clock.now(), ranges: merged, reason: text });
  } finally {
    await writer.close();
  }
  return { ranges: merged, count: countOf(merged), before };
}

/** Rows of the ranges whose committed file is still there: giving them up would hide a later loss. */
async function keptRows(host: Host, root: string, ledger: LedgerReader, ranges: readonly IndexRange[]): Promise<number[]> {
  const layout = await openRunLayout(host.files, root, ledger.run.identity.layout);
  const size = ledger.run.identity.shardRows;
  const kept: number[] = [];
  for (let shard = 0; shard < ledger.shardCount && kept.length < KEPT_MOST; shard += 1) {
    const inside = clipRanges(ranges, shard * size, (shard + 1) * size);
    if (inside.length === 0) continue;
    const { rows } = await ledger.shard(shard);
    for (const row of indicesOf(inside)) {
      const kind = rows.get(row)?.kind;
      if ((kind === 'commit' || kind === 'adopt') && (await host.files.stat(`${root}/${layout.pathOf(row)}`)) !== null) kept.push(row);
    }
  }
  return kept;
}
