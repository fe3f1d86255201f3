import { rowIdentity } from '../../src/core/identity.ts';
import { LineIndex } from '../../src/dataset/jsonl.ts';
import { type IndexedRows, keepRows, loadRows, type RowIndexKey, type RowIndexStore } from '../../src/dataset/row-index.ts';
import { RowTableBuilder } from '../../src/format/row-table.ts';
import { createMemoryFiles } from '../support/memory-files.ts';
import { damaged, oneOf } from './mutate.ts';
import { type FuzzTarget, input, keep } from './target.ts';

function rowsOf(count: number, seed: number): IndexedRows {
  const table = new RowTableBuilder();
  const places = new LineIndex();
  for (let row = 0; row < count; row += 1) {
    table.add(row % 11 === 3 ? null : rowIdentity(Uint32Array.of(row, seed), Uint8Array.of(0, 1)));
    places.add(row * 40, 39);
  }
  const problems = count > 3 ? [{ index: 3, line: 4, message: 'no ids' }] : [];
  return { table: table.build(), places, problems, problemCount: problems.length };
}

const textOf = ({ table, places, problems, problemCount }: IndexedRows): string =>
  JSON.stringify([Buffer.from(table.encode()).toString('base64'), Buffer.from(places.encode()).toString('base64'), problems, problemCount]);

/** The user's cache of row tables: a damaged one is no table, whatever stands in it. */
export async function rowIndexTarget(): Promise<FuzzTarget> {
  const folder = '/cache';
  const fresh = async () => {
    const files = createMemoryFiles({ folders: [folder] });
    files.plant('/d.jsonl', 'x');
    const stat = await files.stat('/d.jsonl');
    if (stat === null) throw new Error('it was planted');
    const key: RowIndexKey = { realPath: '/d.jsonl', stat, form: 'jsonl', tokenizer: null, template: null, maxTokens: null };
    const store: RowIndexStore = { files, folder, version: '1', now: () => 0, randomBytes: (length) => new Uint8Array(length) };
    return { files, key, store };
  };
  const seeds: { bytes: Uint8Array; text: string }[] = [];
  let path = '';
  for (const count of [1, 5, 300]) {
    const { files, key, store } = await fresh();
    await keepRows(store, key, key.stat.modifiedMs + 60_000, rowsOf(count, count));
    if ((await loadRows(store, key)) === null) throw new Error('a good index is believed');
    path = files.paths().find((one) => one.startsWith(folder)) ?? '';
    seeds.push({ bytes: (await files.readSmall(path, 2 ** 20)) ?? new Uint8Array(0), text: textOf(rowsOf(count, count)) });
  }
  return {
    name: 'row-index',
    make(random) {
      const { bytes, made } = damaged(random, oneOf(random, seeds).bytes, oneOf(random, seeds).bytes);
      return input(bytes, made);
    },
    async check({ bytes }) {
      const { files, key, store } = await fresh();
      files.plant(path, bytes);
      const rows = await loadRows(store, key);
      keep(rows === null || seeds.some(({ text }) => text === textOf(rows)), 'it believes a damaged index');
    },
  };
}
