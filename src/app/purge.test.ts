import { linkSync, mkdirSync, mkdtempSync, openSync, rmSync, statSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { rowIdentity } from '../core/identity.ts';
import type { Settings } from '../core/settings.ts';
import { formatBytes } from '../core/units.ts';
import { RowTableBuilder } from '../format/row-table.ts';
import { createLocalHost } from '../host/local.ts';
import { createRun, openRunWriter } from '../ledger/write.ts';
import { assessAt } from './assessment.ts';
import { captureOwner } from './capture-owner.ts';
import { settingsDocument } from './config-settings.ts';
import { purge } from './purge.ts';

const host = createLocalHost();
const FOLDER_ID = 'f'.repeat(32);
const APPARENT_BYTES = 8 * 2 ** 30;
let place: string;
let folder: string;

/** A file of 8 GiB that holds some bytes at its end and nothing before them, as safetensors leaves one. */
function sparse(path: string): string {
  mkdirSync(dirname(path), { recursive: true });
  const file = openSync(path, 'w');
  writeSync(file, Buffer.alloc(5000, 1), 0, 5000, APPARENT_BYTES - 5000);
  return path;
}

const allocated = (path: string): number => statSync(path).blocks * 512;

beforeEach(async () => {
  place = mkdtempSync(join(tmpdir(), 'tidemark-purge-'));
  folder = join(place, 'out');
  const builder = new RowTableBuilder();
  for (let row = 0; row < 6; row += 1) builder.add(rowIdentity(Uint32Array.of(row, 7, 8), Uint8Array.of(1, 1, 1)));
  const table = builder.build();
  const settings: Settings = {
    output: folder,
    dataset: { path: join(place, 'd.jsonl') },
    target: { model: '/model', revision: null },
    engine: { kind: 'vllm', urls: ['http://127.0.0.1:8000'], staging: join(place, 'staging'), inFlight: 4, timeoutMs: 1000 },
    states: { auxiliaryLayers: [1, 2, 3], dtype: 'BF16', lastState: 'post-norm', maxTokens: null },
    layout: { name: 'specforge', extension: 'ckpt', groupSize: 3 },
    limits: { attempts: 3, failureSamples: 1, failureShare: 0, consecutiveFailures: 9, reserveBytes: 0 },
    fileMode: 0o644,
  };
  const identity = {
    dataset: { rows: 6, root: table.root },
    target: { name: 'tiny', revision: null, digest: '' },
    tokenizer: null,
    truncation: { maxTokens: null, policy: 'drop' as const },
    layers: { convention: 'boundary/1' as const, auxiliary: [1, 2, 3], last: 4 },
    lastState: { stored: 'post-norm' as const, norm: '' },
    dtype: 'BF16',
    layout: { name: 'specforge', extension: 'ckpt', groupSize: 3 },
    shardRows: 3,
  };
  await createRun(host, folder, identity, FOLDER_ID, table, settingsDocument(settings));
  const writer = await openRunWriter(host, folder, { takeOver: false });
  await (await writer.shard(0)).close();
  await writer.close();
});
afterEach(() => rmSync(place, { recursive: true }));

it('counts what the disk gives back: no holes, and nothing where the file keeps another name', async () => {
  const orphan = sparse(join(folder, 'rows_0-3/data_1.ckpt.tidemark-L1.9.tmp'));
  const quarantined = sparse(join(folder, '.tidemark/quarantine/rows_0-3/data_2.ckpt.torn'));
  const capture = sparse(join(place, `staging/cmpl-tm-1-1-${captureOwner(FOLDER_ID)}0a1b2c3d-0-85b9157b.safetensors`));
  // Killed between giving a sample its name and taking the temporary one away.
  const published = join(folder, 'rows_0-3/data_0.ckpt');
  writeFileSync(published, Buffer.alloc(9000));
  const twin = join(folder, 'rows_0-3/data_0.ckpt.tidemark-L1.8.tmp');
  linkSync(published, twin);

  const found = await purge(host, folder, { quarantine: true, dryRun: true, cwd: place });
  expect(new Map(found.map(({ path, bytes }) => [path, bytes]))).toEqual(
    new Map([
      [orphan, allocated(orphan)],
      [twin, 0],
      [quarantined, allocated(quarantined)],
      [capture, allocated(capture)],
    ]),
  );
  expect(allocated(orphan)).toBeLessThan(1_000_000);

  const report = await assessAt(host, folder, { dataset: null, model: null, level: 'structure', cwd: place });
  const titles = new Map(report.findings.map(({ code, title }) => [code, title]));
  expect(titles.get('TM-S12')).toContain(`${formatBytes(allocated(orphan))} to reclaim`);
  expect(titles.get('TM-S13')).toContain(`${formatBytes(allocated(quarantined))} to reclaim`);
  const extras = new Map(report.extras.map((extra) => [join(folder, extra.path), [extra.bytes, extra.reclaimableBytes]]));
  expect(extras.get(orphan)).toEqual([APPARENT_BYTES, allocated(orphan)]);
  expect(extras.get(twin)).toEqual([9000, 0]);
});

it('counts a hole without any byte as nothing', async () => {
  const path = join(folder, 'rows_0-3/data_1.ckpt.tidemark-L1.9.tmp');
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, '');
  truncateSync(path, APPARENT_BYTES);
  expect(await purge(host, folder, { quarantine: false, dryRun: false, cwd: place })).toEqual([{ path, bytes: 0 }]);
});

it('refuses where the lease of an unfinished start cannot be read: its driver may still write', async () => {
  const writer = await openRunWriter(host, folder, { takeOver: false });
  sparse(join(folder, 'rows_0-3/data_1.ckpt.tidemark-L1.9.tmp'));
  writeFileSync(join(folder, `.tidemark/leases/run.${writer.journal.lease}`), '');
  const asked = purge(host, folder, { quarantine: false, dryRun: false, cwd: place });
  await expect(asked).rejects.toMatchObject({ code: 'run-unknown-holder', hint: expect.stringContaining('--take-over') });
  const report = await assessAt(host, folder, { dataset: null, model: null, level: 'names', cwd: place });
  expect(report.findings.find(({ code }) => code === 'TM-L06')?.title).toBe('who holds the run cannot be told');
  await writer.close();
  expect(await purge(host, folder, { quarantine: false, dryRun: true, cwd: place })).toHaveLength(1);
});
