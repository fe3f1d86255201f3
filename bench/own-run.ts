import { SETTINGS_FORMAT } from '../src/app/config-settings.ts';
import type { RunIdentity, Settings } from '../src/core/settings.ts';
import { createLocalHost } from '../src/host/local.ts';
import type { JournalWriter } from '../src/ledger/ledger.ts';
import { createRun, openRunWriter } from '../src/ledger/write.ts';
import type { ManyTree } from './trees.ts';

const SHARD_ROWS = 2000;

/** Makes a tree a run of ours that ended well: each file stands in a journal that was closed, as `extract` leaves it. */
export async function recordRun(tree: ManyTree): Promise<void> {
  const host = createLocalHost();
  const identity: RunIdentity = {
    dataset: { rows: tree.table.rows, root: tree.table.root },
    target: { name: 'bench', revision: null, digest: '' },
    tokenizer: null,
    truncation: { maxTokens: null, policy: 'drop' },
    layers: { convention: 'boundary/1', auxiliary: [1, 2, 3], last: 4 },
    lastState: { stored: 'post-norm', norm: 'none' },
    dtype: 'BF16',
    layout: { name: 'specforge', extension: 'pt', groupSize: SHARD_ROWS },
    shardRows: SHARD_ROWS,
  };
  const settings: Settings = {
    output: tree.folder,
    dataset: { path: tree.dataset },
    target: { model: '/bench', revision: null },
    engine: { kind: 'vllm', urls: ['http://127.0.0.1:1'], staging: '/bench', inFlight: 1, timeoutMs: 1000 },
    states: { auxiliaryLayers: [1, 2, 3], dtype: 'BF16', lastState: 'post-norm', maxTokens: null },
    layout: { name: 'specforge', extension: 'pt', groupSize: SHARD_ROWS },
    limits: { attempts: 1, failureSamples: 0, failureShare: 0, consecutiveFailures: 1, reserveBytes: 0 },
    fileMode: 0o644,
  };
  await createRun(host, tree.folder, identity, '0'.repeat(32), tree.table, { format: SETTINGS_FORMAT, ...settings });
  const writer = await openRunWriter(host, tree.folder, { takeOver: false });
  for (let from = 0; from < tree.table.rows; from += SHARD_ROWS) {
    const journal = await writer.shard(from / SHARD_ROWS);
    const rows = tree.written.slice(from, from + SHARD_ROWS);
    await Promise.all(rows.map((_, at) => appendCommit(journal, tree, from + at)));
    await journal.close();
  }
  await writer.journal.append({ kind: 'end', at: Date.now(), outcome: 'complete', message: 'all' });
  await writer.close();
  await host.http.close();
}

function appendCommit(journal: JournalWriter, tree: ManyTree, row: number): Promise<void> {
  const known = tree.table.at(row);
  const file = tree.written[row];
  if (known === null || file === undefined) throw new Error('every row has a file');
  const { identity, mask, tokens } = known;
  const { bytes, crc32, records } = file;
  return journal.append({
    kind: 'commit',
    row,
    identity,
    mask,
    bytes,
    crc32,
    records,
    tokens,
    segment: 'bench',
    attempt: 1,
    at: Date.now(),
  });
}
