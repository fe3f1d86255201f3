import { mkdtempSync, rmSync, statSync, truncateSync, utimesSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { assessFolder } from '../../src/assess/assess.ts';
import { rowIdentity } from '../../src/core/identity.ts';
import { RowTableBuilder } from '../../src/format/row-table.ts';
import type { FileReader, Machine } from '../../src/host/host.ts';
import { createLocalHost } from '../../src/host/local.ts';
import { exitOf, planOf } from '../../src/recover/planner.ts';
import { createStore } from '../../src/store/local-store.ts';
import { createStoreReader } from '../../src/store/reader.ts';
import { FOLDER, find, idsOf, layout, look, rowsOf, timed, treeOf } from './assess-tree.ts';

// Public reports of what goes wrong on the machine itself, as an assessment meets them (docs/field-reports.md).

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);
const never = (): Promise<never> => new Promise(() => undefined);
const mounted =
  (mountPoint: string, source: string, filesystem: string): Machine['mountOf'] =>
  async () => ({
    known: true,
    value: { mountPoint, source, filesystem, options: 'rw' },
    source: '/proc/self/mountinfo',
  });

describe('a dead mount [P24]', () => {
  it('holds up no probe for ever, and what hangs on it is named with the mount', async () => {
    const host = await treeOf(range(0, 10).map((number) => ({ number })));
    const files: Partial<FileReader> = { ...timed(host, (number) => number), space: never };
    const machine: Partial<Machine> = {
      mountOf: mounted('/tree', 'box:/x', 'nfs4'),
      writersBelow: never,
      locks: never,
      blockedBelow: async () => ({
        known: true,
        value: [{ pid: 9, command: 'VLLM::Worker', path: `${FOLDER}/rows_0-100`, waitsIn: 'rpc_wait_bit_killable', mayWrite: false }],
        source: '/proc/*/stat',
      }),
    };
    const began = host.clock.monotonicMs();
    const report = await look(host, { rows: rowsOf(10), files, machine });
    // Three probes of ten seconds each, by the host's clock, and half a second until the watch looks.
    expect(host.clock.monotonicMs() - began).toBeLessThan(35_000);
    expect(report.space).toBeNull();
    expect(find(report, 'TM-H08')?.evidence).toContain('took longer than 10 s');
    const hangs = find(report, 'TM-H15');
    expect(hangs?.title).toBe('1 process hangs in uninterruptible I/O on this folder at /tree (nfs4)');
    expect(hangs?.evidence).toContain('waits in rpc_wait_bit_killable');
    expect(hangs?.remedy?.text).toContain('SIGKILL does nothing');
  });

  it('that answers nothing at all is unreadable, and no row is called missing or torn', async () => {
    const host = await treeOf(range(0, 60).map((number) => ({ number })));
    const report = await look(host, { rows: rowsOf(60), files: { open: never, stat: never } });
    expect(report.totals).toMatchObject({ unreadable: 60, missing: 0, torn: 0 });
    expect(report.plan.extract.count).toBe(0);
  });
});

describe('orphans of a dead run [P27]', () => {
  it('are counted apart from samples, with their bytes, whoever made them, and are left alone while something runs', async () => {
    const host = await treeOf(range(0, 10).map((number) => ({ number })));
    const at = `${FOLDER}/rows_0-100`;
    host.files.plant(`${at}/data_10.ckpt.tidemark-L1.1.tmp`, new Uint8Array(5000));
    host.files.plant(`${at}/data_11.ckpt.tidemark-L2.1.tmp`, new Uint8Array(7000));
    // safetensors 0.8: full size, and a name that says nothing.
    host.files.plant(`${at}/.tmpAb12Cd`, new Uint8Array(9000), 0o600);
    const files = timed(host, (number) => number);
    const report = await look(host, { rows: rowsOf(20), files });
    expect(report.totals).toMatchObject({ files: 10, sound: 10, missing: 10 });
    expect(report.extras.map(({ kind, bytes }) => [kind, bytes])).toEqual([
      ['temp', 9000],
      ['temp', 5000],
      ['temp', 7000],
    ]);
    expect(find(report, 'TM-S12')?.title).toBe('2 orphan temporaries, 16.4 kB to reclaim');
    const writersBelow: Machine['writersBelow'] = async () => ({
      known: true,
      value: [{ pid: 7, command: 'python3', path: `${at}/data_11.ckpt.tidemark-L2.1.tmp` }],
      source: '/proc/*/fd',
    });
    const alive = await look(host, { rows: rowsOf(20), files, machine: { writersBelow } });
    expect(find(alive, 'TM-S12')).toBeUndefined();
    expect(alive.missing).toMatchObject({ 'in-flight': 2, 'never-started': 8 });
  });
});

describe('the size is right and the data is not there [P29]', () => {
  it('names the byte from which a file was never written, and reads files with holes to the end though they are old', async () => {
    const root = mkdtempSync(join(tmpdir(), 'tidemark-hole-'));
    const host = createLocalHost();
    try {
      const store = createStore(host, root, layout, { fileMode: 0o644 });
      const builder = new RowTableBuilder();
      for (const row of range(0, 16)) {
        const ids = idsOf(row, 200);
        builder.add(rowIdentity(ids, new Uint8Array(200).fill(1)));
        const states = (layers: number) =>
          (async function* () {
            yield new Uint8Array(new Uint16Array(200 * 64 * layers).fill(0x3f80).buffer);
          })();
        const sample = {
          inputIds: ids,
          lossMask: new Uint8Array(200).fill(1),
          width: 64,
          auxiliaryLayers: 3,
          dtype: 'BF16' as const,
          slots: (first: number, end: number) => states(end - first),
        };
        await store.publish({ index: row, tensors: layout.tensorsOf(sample), lease: 1, attempt: 1 });
      }
      const path = (row: number): string => join(root, layout.pathOf(row));
      const { size } = statSync(path(3));
      // Written to the middle, and no further: the rest of the length was only reserved.
      truncateSync(path(3), 40_960);
      truncateSync(path(3), size);
      // The end is there and the middle is a hole: what write-back lost.
      const bytes = await readFile(path(5));
      truncateSync(path(5), 0);
      truncateSync(path(5), size);
      const handle = await open(path(5), 'r+');
      await handle.write(bytes, 0, 16_384, 0);
      await handle.write(bytes, 65_536, size - 65_536, 65_536);
      await handle.close();
      // A file every 100 s, a day ago: the suspect window holds the last one only.
      for (const row of range(0, 16)) utimesSync(path(row), host.clock.now() / 1000 - 86_400, host.clock.now() / 1000 - 86_400 + row * 100);
      const report = await assessFolder(
        {
          files: host.files,
          machine: host.machine,
          clock: host.clock,
          store: createStoreReader(host.files, root, layout),
          ledger: null,
          dataset: { path: '/d.jsonl', table: builder.build() },
        },
        { level: 'identity', plan: (facts) => planOf(facts, { retryFailed: false }) },
      );
      expect(report.verdicts.find((group) => group.ranges.some(([from, to]) => from <= 3 && to > 3))).toMatchObject({
        verdict: 'torn',
        reason: 'zero-filled',
      });
      expect(find(report, 'TM-S01')?.evidence).toContain(`the last ${size - 40_960} of ${size} bytes are zero`);
      const fifth = report.verdicts.find((group) => group.ranges.some(([from, to]) => from <= 5 && to > 5));
      expect(['torn', 'corrupt']).toContain(fifth?.verdict);
      expect(report.totals.sound).toBe(14);
    } finally {
      rmSync(root, { recursive: true });
      await host.http.close();
    }
  });
});

describe('the mount was not there [P35]', () => {
  const planned =
    (mountPoint: string | null): NonNullable<Machine['plannedMount']> =>
    async () => ({
      known: true,
      value: mountPoint === null ? null : { mountPoint, source: 'UUID=8d0c', filesystem: 'xfs' },
      source: '/etc/fstab',
    });

  it('so that the folder is one of the disk under it: said, and nothing is planned before a person has looked', async () => {
    const host = await treeOf([]);
    const report = await look(host, {
      rows: rowsOf(20),
      machine: { mountOf: mounted('/', '/dev/vda1', 'ext4'), plannedMount: planned('/tree') },
    });
    expect(find(report, 'TM-H21')).toMatchObject({
      severity: 'error',
      title: 'the volume that belongs at /tree is not mounted: this is a folder of the disk under it',
      evidence: '/etc/fstab has UUID=8d0c (xfs) for it; /proc/self/mountinfo has /dev/vda1 (ext4) at / under this folder',
      remedy: { kind: 'decision', commands: [['mount', '/tree']] },
    });
    expect(report.plan.blockers).toContain('TM-H21');
    expect(exitOf(report)).toBe(4);
  });

  it('is not said of a mount that is there, also one further in, and of a folder for which none is planned', async () => {
    const host = await treeOf(range(0, 3).map((number) => ({ number })));
    for (const machine of [
      { mountOf: mounted('/tree', '/dev/nvme0n1', 'ext4'), plannedMount: planned('/tree') },
      { mountOf: mounted('/tree/run', 'pool/run', 'zfs'), plannedMount: planned('/tree') },
      { mountOf: mounted('/', '/dev/vda1', 'ext4'), plannedMount: planned(null) },
    ]) {
      expect(find(await look(host, { rows: rowsOf(3), machine }), 'TM-H21')).toBeUndefined();
    }
  });
});
