import { settingsDocument } from '../../src/app/config-settings.ts';
import { rowIdentity } from '../../src/core/identity.ts';
import type { RunIdentity, Settings } from '../../src/core/settings.ts';
import { RowTableBuilder } from '../../src/format/row-table.ts';
import type { RowRecord } from '../../src/ledger/ledger.ts';
import { createRun, openRunWriter } from '../../src/ledger/write.ts';
import { type MemoryHost, memoryHost } from '../support/memory-host.ts';

export const FOLDER = '/out';
export const ROWS = 12;
/** The driver that still runs in `live`; the others of the folder are of an earlier boot. */
const HOLDER = { pid: 4242, startTicks: '777' };

/** Everything that tidemark keeps in `.tidemark/`, by path, good to the last byte. */
export type FolderFiles = ReadonlyMap<string, Uint8Array>;

const SETTINGS: Settings = {
  output: FOLDER,
  dataset: { path: '/d.jsonl' },
  target: { model: '/model', revision: null },
  engine: { kind: 'vllm', urls: ['http://127.0.0.1:8000'], staging: '/staging', inFlight: 4, timeoutMs: 1000 },
  states: { auxiliaryLayers: [1, 2, 3], dtype: 'BF16', lastState: 'post-norm', maxTokens: null },
  layout: { name: 'specforge', extension: 'ckpt', groupSize: 4 },
  limits: { attempts: 3, failureSamples: 1, failureShare: 0, consecutiveFailures: 9, reserveBytes: 0 },
  fileMode: 0o644,
};

function tableOf(rows: number) {
  const builder = new RowTableBuilder();
  for (let row = 0; row < rows; row += 1) builder.add(row === 5 ? null : rowIdentity(Uint32Array.of(row, 7, 8), Uint8Array.of(0, 1, 1)));
  return builder.build();
}

function recordsOf(start: number, from: number, to: number): RowRecord[] {
  const records: RowRecord[] = [];
  for (let row = from; row < to; row += 1) {
    const at = 1_700_000_000_000 + start * 1000 + row;
    const kept = {
      row,
      identity: 'a'.repeat(32),
      mask: 'b'.repeat(32),
      bytes: 9000 + row,
      crc32: 0xdeadbeef - row,
      records: [1, 2, 3, row],
    };
    records.push({ kind: start === 0 ? 'commit' : 'adopt', ...kept, tokens: 3, segment: `s${start}`, attempt: 1, at });
    if (row % 3 === 0) records.push({ kind: 'failure', row, class: 'bad-capture', message: 'é\u0000', attempt: 2, final: row === 9, at });
    if (row % 4 === 0) records.push({ kind: 'set-aside', row, verdict: 'torn', reason: 'truncated', to: 'data.torn', at });
  }
  return records;
}

/** A folder after three starts: the first was killed, the second ended well, the third is the live one. */
async function written(): Promise<MemoryHost> {
  const table = tableOf(ROWS);
  const identity: RunIdentity = {
    dataset: { rows: ROWS, root: table.root },
    target: { name: 'tiny', revision: null, digest: '0f' },
    tokenizer: { tokenizer: 'aa', template: 'bb' },
    truncation: { maxTokens: null, policy: 'drop' },
    layers: { convention: 'boundary/1', auxiliary: [1, 2, 3], last: 4 },
    lastState: { stored: 'post-norm', norm: 'cc' },
    dtype: 'BF16',
    layout: { name: 'specforge', extension: 'ckpt', groupSize: 4 },
    shardRows: 4,
  };
  const first = memoryHost({ identity: { bootId: 'earlier-0', pid: 10 } });
  await createRun(first, FOLDER, identity, 'f'.repeat(32), table, settingsDocument(SETTINGS));
  for (let start = 0; start < 3; start += 1) {
    const who = start === 2 ? HOLDER : { bootId: `earlier-${start}`, pid: 10 + start };
    const host = memoryHost({ files: first.files, identity: who, seed: start + 2 });
    const writer = await openRunWriter(host, FOLDER, { takeOver: false });
    await writer.journal.append({ kind: 'start', at: start, argv: ['extract', `${start}`], facts: { dataset: { bytes: 1 } } });
    await writer.journal.append({ kind: 'segment', id: `s${start}`, at: start, state: { build: `v${start}` } });
    for (let shard = 0; shard < 3 - start; shard += 1) {
      const journal = await writer.shard(shard);
      for (const record of recordsOf(start, shard * 4, shard * 4 + 4)) await journal.append(record);
      if (start === 1) await journal.close();
    }
    await writer.journal.append({ kind: 'accept', at: start, ranges: [[5 + start, 6 + start]], reason: 'given up' });
    if (start === 1) {
      await writer.journal.append({ kind: 'end', at: 9, outcome: 'incomplete', message: 'm' });
      await writer.close();
    }
  }
  return first;
}

export async function goodFolder(): Promise<FolderFiles> {
  const { files } = await written();
  const found = new Map<string, Uint8Array>();
  for (const path of files.paths()) found.set(path, (await files.readSmall(path, 2 ** 20)) ?? new Uint8Array(0));
  return found;
}

/** The folder on a machine of its own, one of its files with other bytes. @param driver `dead`: the machine was booted since */
export function folderWith(good: FolderFiles, path: string, bytes: Uint8Array, driver: 'alive' | 'dead'): MemoryHost {
  const host = memoryHost({ identity: driver === 'alive' ? { pid: 99 } : { bootId: 'boot-2' }, seed: 77 });
  for (const [name, content] of good) host.files.plant(name, name === path ? bytes : content);
  return host;
}
