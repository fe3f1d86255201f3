import { describe, expect, it } from 'vitest';
import { type MemoryHost, memoryHost } from '../../test/support/memory-host.ts';
import { TidemarkError } from '../core/errors.ts';
import { identityOf, rowIdentity } from '../core/identity.ts';
import { type RowTable, RowTableBuilder } from '../format/row-table.ts';
import type { FileReader, Machine } from '../host/host.ts';
import type { CommitRecord, FailureRecord, LedgerReader, RowRecord, RunJournalRecord, SetAsideRecord } from '../ledger/ledger.ts';
import { exitOf, planOf } from '../recover/planner.ts';
import { specForgeLayout } from '../store/layouts/specforge.ts';
import { createStore } from '../store/local-store.ts';
import { createStoreReader } from '../store/reader.ts';
import { type AssessOptions, assessFolder } from './assess.ts';

const FOLDER = '/run';
const ROWS = 12;
const WIDTH = 4;
const layout = specForgeLayout({ extension: 'ckpt', groupSize: 5 });

function idsOf(row: number): Uint32Array {
  return Uint32Array.from({ length: 3 + (row % 3) }, (_, at) => 100 + row * 10 + at);
}

function tableOf(rows = ROWS): RowTable {
  const builder = new RowTableBuilder();
  for (let row = 0; row < rows; row += 1) builder.add(rowIdentity(idsOf(row), new Uint8Array(idsOf(row).length).fill(1)));
  return builder.build();
}

interface FileOptions {
  readonly ids?: Uint32Array;
  readonly mask?: Uint8Array;
  readonly width?: number;
  readonly fill?: number;
}

/** A tree with the files of `rows`, written by the store itself. */
async function treeWith(rows: readonly number[], options: (row: number) => FileOptions = () => ({})): Promise<MemoryHost> {
  const host = memoryHost();
  await host.files.makeDirectory(FOLDER);
  const store = createStore(host, FOLDER, layout, { fileMode: 0o644 });
  for (const row of rows) {
    const { ids = idsOf(row), mask = new Uint8Array(ids.length).fill(1), width = WIDTH, fill = 0x3f80 } = options(row);
    const states = (layers: number) =>
      async function* () {
        yield new Uint8Array(new Uint16Array(ids.length * width * layers).fill(fill).buffer);
      };
    const sample = {
      inputIds: ids,
      lossMask: mask,
      width,
      auxiliaryLayers: 3,
      dtype: 'BF16' as const,
      slots: (first: number, end: number) => states(end - first)(),
    };
    await store.publish({ index: row, tensors: layout.tensorsOf(sample), lease: 1, attempt: 1 });
  }
  return host;
}

interface LedgerParts {
  readonly records?: readonly RowRecord[];
  readonly history?: readonly RunJournalRecord[];
  readonly alive?: 'alive' | 'dead' | 'unknown';
  readonly accepted?: readonly (readonly [number, number])[];
}

function ledgerOf(parts: LedgerParts): LedgerReader {
  const table = tableOf();
  return {
    run: {
      format: 'tidemark.run/1',
      id: '0'.repeat(32),
      folderId: '1'.repeat(32),
      createdAt: '2026-01-01T00:00:00.000Z',
      identity: {
        dataset: { rows: ROWS, root: table.root },
        target: { name: 'tiny', revision: null, digest: '' },
        tokenizer: null,
        truncation: { maxTokens: null, policy: 'drop' },
        layers: { convention: 'boundary/1', auxiliary: [1, 2, 3], last: 4 },
        lastState: { stored: 'post-norm', norm: '' },
        dtype: 'BF16',
        layout: { name: 'specforge', extension: 'ckpt', groupSize: 5 },
        shardRows: 6,
      },
    },
    settings: null,
    settingsProblem: null,
    table,
    tableProblem: null,
    shardCount: 2,
    shard: async (shard) => ({
      shard,
      range: [shard * 6, shard * 6 + 6],
      lease: 1,
      rows: new Map((parts.records ?? []).filter((record) => Math.floor(record.row / 6) === shard).map((record) => [record.row, record])),
      problems: [],
    }),
    history: async () => ({ records: (parts.history ?? []).map((record) => ({ ...record, lease: 1 })), problems: [] }),
    accepted: async () => parts.accepted ?? [],
    holder: async () =>
      parts.alive === undefined
        ? null
        : {
            scope: 'run',
            lease: 1,
            process: { hostname: 'memory', bootId: 'boot-1', pid: 7, startTicks: '1' },
            takenAt: '2026-01-01T00:00:00.000Z',
            alive: parts.alive,
          },
  };
}

async function commitOf(host: MemoryHost, row: number): Promise<CommitRecord> {
  const opened = await createStoreReader(host.files, FOLDER, layout).open(row);
  if (opened === null || !opened.ok) throw new Error(`row ${row} has no good file`);
  const checked = await opened.sample.checkBytes();
  const { records, source } = opened.sample;
  await opened.sample.close();
  return {
    kind: 'commit',
    row,
    identity: identityOf(idsOf(row)),
    mask: '',
    bytes: source.size,
    crc32: checked.ok ? checked.crc32 : 0,
    records: records.map((record) => record.crc32),
    tokens: idsOf(row).length,
    segment: 's1',
    attempt: 1,
    at: 1_700_000_000_000,
  };
}

function failureOf(row: number, final: boolean): FailureRecord {
  return { kind: 'failure', row, class: 'engine-refused', message: 'too long', attempt: 3, final, at: 1 };
}

interface Look extends Partial<Omit<AssessOptions, 'plan'>> {
  readonly ledger?: LedgerReader | null;
  readonly files?: Partial<FileReader>;
  readonly machine?: Partial<Machine>;
  readonly withDataset?: boolean;
  readonly retryFailed?: boolean;
}

function look(
  host: MemoryHost,
  { ledger = null, files, machine, withDataset = ledger === null, retryFailed = false, ...options }: Look = {},
) {
  const reader: FileReader = { ...host.files, ...files };
  return assessFolder(
    {
      files: reader,
      machine: { ...host.machine, ...machine },
      clock: host.clock,
      store: createStoreReader(reader, FOLDER, layout),
      ledger,
      dataset: withDataset ? { path: '/d.jsonl', table: tableOf() } : null,
    },
    { level: 'identity', ...options, plan: (facts) => planOf(facts, { retryFailed }) },
  );
}

const every = Array.from({ length: ROWS }, (_, row) => row);
const codes = (report: Awaited<ReturnType<typeof look>>): string[] => report.findings.map((finding) => finding.code);

describe('rows against the journals', () => {
  it('calls a committed file that is gone lost, and one of another size corrupt', async () => {
    const host = await treeWith(every);
    const records = await Promise.all(every.map((row) => commitOf(host, row)));
    await host.files.unlink(`${FOLDER}/${layout.pathOf(3)}`);
    const ledger = ledgerOf({ records: records.map((record) => (record.row === 8 ? { ...record, bytes: record.bytes - 1 } : record)) });
    const report = await look(host, { ledger });
    expect(report.missing.lost).toBe(1);
    expect(report.totals).toMatchObject({ sound: 10, corrupt: 1, missing: 1 });
    expect(codes(report)).toEqual(expect.arrayContaining(['TM-S06', 'TM-S02']));
    expect(report.plan.extract.ranges).toEqual([
      [3, 4],
      [8, 9],
    ]);
  });

  it('does not trust checksums that hold when they are not those that were committed', async () => {
    const host = await treeWith(every);
    const records = await Promise.all(every.map((row) => commitOf(host, row)));
    const other = records.map((record) => (record.row === 2 ? { ...record, records: record.records.map((crc) => crc ^ 1) } : record));
    expect((await look(host, { ledger: ledgerOf({ records: other }), level: 'structure' })).totals.corrupt).toBe(1);
    const file = records.map((record) => (record.row === 2 ? { ...record, crc32: record.crc32 ^ 1 } : record));
    const ledger = ledgerOf({ records: file });
    expect((await look(host, { ledger })).totals.corrupt).toBe(0);
    expect((await look(host, { ledger, level: 'checksum' })).totals.corrupt).toBe(1);
  });

  it('leaves rows that failed for good alone unless told, and then asks a person', async () => {
    const host = await treeWith(every.slice(0, 10));
    const records = [
      ...(await Promise.all(every.slice(0, 10).map((row) => commitOf(host, row)))),
      failureOf(10, true),
      failureOf(11, false),
    ];
    const ledger = ledgerOf({ records });
    const report = await look(host, { ledger });
    expect(report.missing.failed).toBe(2);
    expect(report.plan.extract.ranges).toEqual([[11, 12]]);
    expect((await look(host, { ledger, retryFailed: true })).plan.extract.count).toBe(2);
    const last = ledgerOf({ records: [...records.slice(0, -1), failureOf(11, true)] });
    expect(exitOf(await look(host, { ledger: last }))).toBe(4);
  });

  it('stops before a third try of a row that was poisoned twice', async () => {
    const host = await treeWith(every, (row) => (row === 4 ? { fill: 0 } : {}));
    const aside: SetAsideRecord = { kind: 'set-aside', row: 4, verdict: 'poisoned', reason: 'zero', to: 'q', at: 1 };
    const report = await look(host, { ledger: ledgerOf({ records: [aside] }), level: 'content' });
    expect(report.totals.poisoned).toBe(1);
    expect(report.plan.blockers).toEqual(['TM-E01']);
    expect(report.plan.extract.count).toBe(0);
    expect(exitOf(report)).toBe(4);
  });

  it('takes every byte for suspect when the volume is another one', async () => {
    const host = await treeWith(every);
    const records = await Promise.all(every.map((row) => commitOf(host, row)));
    const facts = { mounts: { output: { known: true, value: { source: '/dev/sda1', filesystem: 'ext4' } } } };
    const ledger = ledgerOf({ records, history: [{ kind: 'start', at: 1, argv: [], facts }] });
    const mountOf: Machine['mountOf'] = async () => ({
      known: true,
      value: { mountPoint: '/run', filesystem: 'ext4', source: '/dev/nvme0n1', options: '' },
      source: 'mountinfo',
    });
    const report = await look(host, { ledger, machine: { mountOf }, level: 'structure' });
    expect(codes(report)).toContain('TM-H02');
    expect(report.suspect).toEqual([[0, ROWS]]);
    expect(exitOf(report)).toBe(3);
    // The default level reads so few files to the end at once.
    const read = await look(host, { ledger, machine: { mountOf } });
    expect(read.suspect).toEqual([]);
    expect(exitOf(read)).toBe(0);
  });
});

describe('rows that the operator gave up', () => {
  it('count as done where they have no sound file, and a bad one of theirs is set aside and not made again', async () => {
    const host = await treeWith(
      every.filter((row) => row !== 5),
      (row) => (row === 4 ? { fill: 0 } : {}),
    );
    const committed = await Promise.all([0, 1, 2, 3].map((row) => commitOf(host, row)));
    const aside: SetAsideRecord = { kind: 'set-aside', row: 4, verdict: 'poisoned', reason: 'zero', to: 'q', at: 1 };
    const records = [...committed, aside, { ...(await commitOf(host, 3)), row: 5, identity: identityOf(idsOf(5)) }];
    await host.files.unlink(`${FOLDER}/${layout.pathOf(3)}`);
    const ledger = ledgerOf({ records, accepted: [[2, 6]] });
    const report = await look(host, { ledger, level: 'content' });
    // Row 2 has its committed file; 3 and 5 are lost and given up; 4 came out bad twice and would block.
    expect(report.missing).toMatchObject({ accepted: 2, lost: 0 });
    expect(report.totals).toMatchObject({ sound: 9, poisoned: 1, missing: 2 });
    expect(report.plan.blockers).toEqual([]);
    expect(report.plan.extract.count).toBe(0);
    expect(report.plan.steps.filter((step) => step.what === 'set-aside').map((step) => step.ranges)).toEqual([[[4, 5]]]);
    expect(codes(report)).toContain('TM-S19');
    expect(codes(report)).not.toContain('TM-S06');
    expect(exitOf(report)).toBe(3);
    await host.files.unlink(`${FOLDER}/${layout.pathOf(4)}`);
    expect(exitOf(await look(host, { ledger, level: 'content' }))).toBe(0);
  });
});

describe('while something writes', () => {
  const cut = async (host: MemoryHost, row: number): Promise<void> => {
    const path = `${FOLDER}/${layout.pathOf(row)}`;
    const whole = (await host.files.readSmall(path, 1 << 20)) ?? new Uint8Array();
    await host.files.unlink(path);
    const file = await host.files.create(path, 0o644);
    await file.write(whole.subarray(0, 700));
    await file.close();
  };

  it('takes a broken young file for one in flight, and for torn when nothing runs', async () => {
    const host = await treeWith(every);
    await cut(host, 11);
    const dead = await look(host, { ledger: ledgerOf({ alive: 'dead' }) });
    expect(dead.totals.torn).toBe(1);
    const alive = await look(host, { ledger: ledgerOf({ alive: 'alive' }) });
    expect(alive.totals.torn).toBe(0);
    expect(alive.missing['in-flight']).toBe(1);
    expect(alive.running?.process).toBe('pid 7');
    expect(alive.suspect).toEqual([]);
  });

  it('asks a person about a holder on another host, and takes no dead one for a writer [P18]', async () => {
    const host = await treeWith(every);
    await cut(host, 11);
    const elsewhere = await look(host, { ledger: ledgerOf({ alive: 'unknown' }) });
    expect(elsewhere.running).toBeNull();
    expect(codes(elsewhere)).toContain('TM-L06');
    expect(elsewhere.findings.find((finding) => finding.code === 'TM-L06')?.remedy?.commands).toEqual([
      ['tidemark', 'resume', FOLDER, '--take-over'],
    ]);
    const dead = await look(host, { ledger: ledgerOf({ alive: 'dead' }) });
    expect(dead.running).toBeNull();
    expect(codes(dead)).not.toContain('TM-L06');
    expect(dead.totals.torn).toBe(1);
  });

  it('says unknown where a machine cannot tell, and calls nothing fine', async () => {
    const host = await treeWith(every);
    const unknown: Machine['writersBelow'] = async () => ({ known: false, why: '3 of 90 processes do not show us which files they hold' });
    const locks: Machine['locks'] = async () => ({ known: false, why: 'cannot read /proc/locks' });
    const report = await look(host, { machine: { writersBelow: unknown, locks } });
    expect(report.findings.find((finding) => finding.code === 'TM-H08')?.evidence).toBe(
      '3 of 90 processes do not show us which files they hold; cannot read /proc/locks',
    );
  });

  it('does not take its own lease for another writer', async () => {
    const host = await treeWith(every);
    const report = await look(host, { ledger: ledgerOf({ alive: 'alive' }), ownLease: 1 });
    expect(report.running).toBeNull();
  });
});

describe('what the machine will not show', () => {
  const broken = new TidemarkError('storage-failed', 'input/output error');

  it('is unreadable, not torn and not missing', async () => {
    const host = await treeWith(every);
    const open: FileReader['open'] = (path) => (path.endsWith('data_5.ckpt') ? Promise.reject(broken) : host.files.open(path));
    const report = await look(host, { files: { open } });
    expect(report.totals).toMatchObject({ unreadable: 1, sound: 11, missing: 0 });
    expect(report.plan.extract.count).toBe(0);
    expect(exitOf(report)).toBe(4);
  });

  it('covers the rows of a folder that cannot be listed', async () => {
    const host = await treeWith(every);
    const list: FileReader['list'] = (path) => (path.endsWith('rows_5-10') ? Promise.reject(broken) : host.files.list(path));
    const report = await look(host, { files: { list } });
    expect(report.totals).toMatchObject({ unreadable: 5, sound: 7, missing: 0 });
    expect(codes(report)).toContain('TM-H13');
  });

  it('does not wait for ever', async () => {
    const host = await treeWith(every);
    const open: FileReader['open'] = (path) => (path.endsWith('data_5.ckpt') ? new Promise(() => undefined) : host.files.open(path));
    const report = await look(host, { files: { open } });
    expect(report.verdicts.find((group) => group.verdict === 'unreadable')).toMatchObject({ reason: 'timeout', count: 1 });
  });
});

describe('ids and shapes', () => {
  it('takes right padding for what it is, and a cut row for another one', async () => {
    const padded = (row: number) => ({
      ids: Uint32Array.from([...idsOf(row), 0, 0]),
      mask: Uint8Array.from([...idsOf(row).map(() => 1), 0, 0]),
    });
    const host = await treeWith(every, (row) => (row === 1 ? padded(1) : row === 2 ? { ids: idsOf(2).subarray(0, 3) } : {}));
    const report = await look(host);
    expect(report.totals).toMatchObject({ sound: 11, drifted: 1 });
    expect(report.verdicts.find((group) => group.verdict === 'drifted')?.ranges).toEqual([[2, 3]]);
  });

  it('finds the one file whose width no other has, and says so when nobody is usual', async () => {
    const one = await look(await treeWith(every, (row) => (row === 6 ? { width: 8 } : {})));
    expect(one.verdicts.find((group) => group.verdict === 'poisoned')).toMatchObject({ reason: 'shape', ranges: [[6, 7]] });
    const half = await look(await treeWith(every, (row) => ({ width: row < 6 ? 8 : 4 })));
    expect(half.totals.poisoned).toBe(0);
    expect(half.plan.blockers).toEqual(['TM-E02']);
  });

  it('refuses a folder that is not there', async () => {
    await expect(look(memoryHost())).rejects.toMatchObject({ code: 'no-run' });
  });
});
