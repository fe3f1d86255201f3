import { type AssessOptions, assessFolder } from '../../src/assess/assess.ts';
import type { AssessDeps } from '../../src/assess/gather.ts';
import { rowIdentity } from '../../src/core/identity.ts';
import type { Report } from '../../src/core/report.ts';
import { RowTableBuilder } from '../../src/format/row-table.ts';
import type { FileReader, FileStat, Machine } from '../../src/host/host.ts';
import { planOf } from '../../src/recover/planner.ts';
import { specForgeLayout } from '../../src/store/layouts/specforge.ts';
import { createStore } from '../../src/store/local-store.ts';
import { createStoreReader } from '../../src/store/reader.ts';
import { type MemoryHost, memoryHost } from '../support/memory-host.ts';

export const FOLDER = '/tree';
export const layout = specForgeLayout({ extension: 'ckpt', groupSize: 100 });

/** Ids that no other row has; lengths differ from row to row. */
export function idsOf(row: number, tokens = 3 + (row % 3)): Uint32Array {
  return Uint32Array.from({ length: tokens }, (_, at) => 1000 + row * 50 + at);
}

export interface TreeFile {
  readonly number: number;
  /** Default: the row of its number. */
  readonly ids?: Uint32Array;
  /** Of every last state; default 1. */
  readonly size?: number;
  /** Leaves `input_ids` out. */
  readonly withoutIds?: boolean;
}

/** A tree of SpecForge's form, one file a number, written by the store itself. */
export async function treeOf(files: Iterable<TreeFile>): Promise<MemoryHost> {
  const host = memoryHost();
  await host.files.makeDirectory(FOLDER);
  const store = createStore(host, FOLDER, layout, { fileMode: 0o644 });
  const width = 4;
  for (const { number, ids = idsOf(number), size = 1, withoutIds = false } of files) {
    const states = (layers: number) =>
      async function* () {
        const value = new Uint32Array(Float32Array.of(size).buffer)[0] ?? 0;
        yield new Uint8Array(new Uint16Array(ids.length * width * layers).fill(value >>> 16).buffer);
      };
    const sample = {
      inputIds: ids,
      lossMask: new Uint8Array(ids.length).fill(1),
      width,
      auxiliaryLayers: 3,
      dtype: 'BF16' as const,
      slots: (first: number, end: number) => states(end - first)(),
    };
    const tensors = layout.tensorsOf(sample).filter((tensor) => !withoutIds || tensor.name !== layout.idsTensor);
    await store.publish({ index: number, tensors, lease: 1, attempt: 1 });
  }
  return host;
}

export interface LookOptions extends Partial<Omit<AssessOptions, 'plan'>> {
  /** The dataset's rows; null for none. */
  readonly rows: readonly Uint32Array[] | null;
  readonly canReadRows?: boolean;
  readonly files?: Partial<FileReader>;
  readonly machine?: Partial<Machine>;
}

export function look(host: MemoryHost, { rows, canReadRows = true, files, machine, ...options }: LookOptions): Promise<Report> {
  const reader: FileReader = { ...host.files, ...files };
  const builder = new RowTableBuilder();
  for (const ids of rows ?? []) builder.add(rowIdentity(ids, new Uint8Array(ids.length).fill(1)));
  const readRow = async (row: number): Promise<Uint32Array> => rows?.[row] ?? new Uint32Array();
  const dataset: AssessDeps['dataset'] =
    rows === null ? null : { path: '/d.jsonl', table: builder.build(), ...(canReadRows ? { readRow } : {}) };
  return assessFolder(
    {
      files: reader,
      machine: { ...host.machine, ...machine },
      clock: host.clock,
      store: createStoreReader(reader, FOLDER, layout),
      ledger: null,
      dataset,
    },
    { level: 'identity', ...options, plan: (facts) => planOf(facts, { retryFailed: false }) },
  );
}

export function rowsOf(count: number): Uint32Array[] {
  return Array.from({ length: count }, (_, row) => idsOf(row));
}

export const find = (report: Report, code: string): Report['findings'][number] | undefined =>
  report.findings.find((finding) => finding.code === code);

/** The account that must always add up. */
export function sums(report: Report): { readonly rows: number; readonly missing: number } {
  const { sound, missing, torn, corrupt, drifted, poisoned, unreadable } = report.totals;
  return {
    rows: sound + missing + torn + corrupt + drifted + poisoned + unreadable,
    missing: Object.values(report.missing).reduce((sum, count) => sum + count, 0),
  };
}

export const START = 1_690_000_000_000;

/** The host's files as if each had been written so many seconds after the start. */
export function timed(host: MemoryHost, secondsOf: (number: number) => number): Partial<FileReader> {
  const at = (path: string, seen: FileStat): FileStat => {
    const number = Number(/data_(\d+)/.exec(path)?.[1] ?? -1);
    return number < 0 ? seen : { ...seen, modifiedMs: START + secondsOf(number) * 1000 };
  };
  return {
    stat: async (path) => {
      const seen = await host.files.stat(path);
      return seen === null ? null : at(path, seen);
    },
    open: async (path) => {
      const file = await host.files.open(path);
      return file === null
        ? null
        : { size: file.size, stat: at(path, file.stat), read: (offset, length) => file.read(offset, length), close: () => file.close() };
    },
  };
}
