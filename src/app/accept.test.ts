import { describe, expect, it } from 'vitest';
import { type MemoryHost, memoryHost } from '../../test/support/memory-host.ts';
import { rowIdentity } from '../core/identity.ts';
import type { Settings } from '../core/settings.ts';
import { RowTableBuilder } from '../format/row-table.ts';
import { openLedger } from '../ledger/open.ts';
import { createRun, openRunWriter } from '../ledger/write.ts';
import { acceptRows } from './accept.ts';
import { assessAt, exitOf } from './assessment.ts';
import { parseSettings, settingsDocument } from './config-settings.ts';

const FOLDER = '/out';
const ROWS = 6;

const settings: Settings = {
  output: FOLDER,
  dataset: { path: '/d.jsonl' },
  target: { model: '/model', revision: null },
  engine: { kind: 'vllm', urls: ['http://127.0.0.1:8000'], staging: '/staging', inFlight: 4, timeoutMs: 1000 },
  states: { auxiliaryLayers: [1, 2, 3], dtype: 'BF16', lastState: 'post-norm', maxTokens: null },
  layout: { name: 'specforge', extension: 'ckpt', groupSize: 3 },
  limits: { attempts: 3, failureSamples: 1, failureShare: 0, consecutiveFailures: 9, reserveBytes: 0 },
  fileMode: 0o644,
};

async function run(): Promise<MemoryHost> {
  const host = memoryHost();
  const builder = new RowTableBuilder();
  for (let row = 0; row < ROWS; row += 1) builder.add(rowIdentity(Uint32Array.of(row, 7, 8), Uint8Array.of(1, 1, 1)));
  const table = builder.build();
  const identity = {
    dataset: { rows: ROWS, root: table.root },
    target: { name: 'tiny', revision: null, digest: '' },
    tokenizer: null,
    truncation: { maxTokens: null, policy: 'drop' as const },
    layers: { convention: 'boundary/1' as const, auxiliary: [1, 2, 3], last: 4 },
    lastState: { stored: 'post-norm' as const, norm: '' },
    dtype: 'BF16',
    layout: { name: 'specforge', extension: 'ckpt', groupSize: 3 },
    shardRows: 3,
  };
  await createRun(host, FOLDER, identity, 'f'.repeat(32), table, settingsDocument(settings));
  return host;
}

const look = (host: MemoryHost) => assessAt(host, FOLDER, { dataset: null, model: null, level: 'identity', cwd: '/' });

describe('rows that the operator gives up', () => {
  it('count as done, with the reason on record, over several records and starts', async () => {
    const host = await run();
    const writer = await openRunWriter(host, FOLDER, { takeOver: false });
    const shard = await writer.shard(0);
    await shard.append({ kind: 'failure', row: 1, class: 'too-long', message: 'm', attempt: 3, final: true, at: 1 });
    await shard.close();
    await writer.close();
    expect(exitOf(await look(host))).toBe(3);
    expect(await acceptRows(host, FOLDER, [[1, 2]], 'longer than the engine takes')).toEqual({ ranges: [[1, 2]], count: 1, before: 0 });
    const some = await look(host);
    expect(some.missing).toMatchObject({ accepted: 1, failed: 0, 'never-started': 5 });
    expect(some.findings.map((finding) => finding.code)).not.toContain('TM-S07');
    expect(some.findings.find((finding) => finding.code === 'TM-S19')?.evidence).toContain('rows 1: longer than the engine takes');
    expect(some.plan.extract.count).toBe(5);
    expect(
      await acceptRows(
        host,
        FOLDER,
        [
          [4, 6],
          [0, 5],
        ],
        'not needed',
      ),
    ).toEqual({ ranges: [[0, 6]], count: 6, before: 1 });
    const all = await look(host);
    expect(all.missing.accepted).toBe(6);
    expect(exitOf(all)).toBe(0);
    const ledger = await openLedger(host, FOLDER, { parseSettings });
    expect(await ledger?.accepted()).toEqual([[0, 6]]);
    expect((await ledger?.history())?.records.map((record) => record.kind)).toEqual(['accept', 'accept']);
  });

  it('are refused without a reason, beyond the dataset, in a foreign tree and while the run lives', async () => {
    const host = await run();
    await expect(acceptRows(host, FOLDER, [[0, 1]], '  ')).rejects.toMatchObject({ code: 'usage' });
    await expect(acceptRows(host, FOLDER, [], 'why')).rejects.toMatchObject({ code: 'usage' });
    await expect(acceptRows(host, FOLDER, [[5, 7]], 'why')).rejects.toThrow('the run has rows 0 to 5, not 5-6');
    await host.files.makeDirectory('/foreign');
    await expect(acceptRows(host, '/foreign', [[0, 1]], 'why')).rejects.toMatchObject({
      code: 'no-run',
      hint: 'tidemark adopt /foreign',
    });
    const writer = await openRunWriter(host, FOLDER, { takeOver: false });
    await expect(acceptRows(host, FOLDER, [[0, 1]], 'why')).rejects.toMatchObject({ code: 'run-locked' });
    await writer.close();
    expect(await (await openLedger(host, FOLDER, { parseSettings }))?.accepted()).toEqual([]);
  });
});
