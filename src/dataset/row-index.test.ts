import { chmod, mkdtemp, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createLocalHost } from '../host/local.ts';
import { openDataset } from './open-dataset.ts';
import type { RowIndexStore } from './row-index.ts';

const { files, randomBytes } = createLocalHost();
const lines = Array.from({ length: 3000 }, (_, row) => `{"input_ids":[${row},1,2]}\n`).join('');
let base: string;
let store: RowIndexStore;
beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), 'tidemark-index-'));
});
afterAll(() => rm(base, { recursive: true }));
beforeEach(async () => {
  const folder = join(await mkdtemp(join(base, 'c-')), 'tidemark', 'rows');
  // An hour on: files that were just written have settled.
  store = { files, folder, version: '1', randomBytes, now: () => Date.now() + 3_600_000 };
});

async function fileOf(content: string | Uint8Array): Promise<string> {
  const path = join(await mkdtemp(join(base, 'd-')), 'data.jsonl');
  await writeFile(path, content);
  return path;
}

/** Opens, and says what it found and whether it scanned for it. */
async function opened(path: string, options: { rowIndex?: RowIndexStore | null; maxTokens?: number } = {}) {
  let reports = 0;
  const dataset = await openDataset(files, path, {
    encoder: null,
    maxTokens: options.maxTokens ?? null,
    rowIndex: options.rowIndex === undefined ? store : options.rowIndex,
    onProgress: () => {
      reports += 1;
    },
  });
  const last = await dataset.read(dataset.rows - 1);
  await dataset.close();
  const { rows, problems, problemCount, table } = dataset;
  return { reports, found: { rows, problems, problemCount, root: table.root, last } };
}

function entries(): Promise<string[]> {
  return readdir(store.folder).catch(() => []);
}

describe('the row index', () => {
  it('gives what a scan finds, problems too, for each form', async () => {
    for (const content of [`not json\n${lines}`, gzipSync(`${lines}{}\n{"input_ids":[9]}\n`)]) {
      const path = await fileOf(content);
      const before = (await entries()).length;
      const scanned = await opened(path);
      expect(await entries()).toHaveLength(before + 1);
      expect((await opened(path)).found).toEqual(scanned.found);
      expect((await opened(path, { rowIndex: null })).found).toEqual(scanned.found);
    }
    for (const name of await entries()) expect((await stat(join(store.folder, name))).mode & 0o777).toBe(0o600);
  });

  it('is what is used: an index with other findings is believed, as long as its file is the same', async () => {
    const path = await fileOf('{"input_ids":[1]}\n{"input_ids":[2]}\n');
    await opened(path);
    const [name = ''] = await entries();
    const other = await fileOf('{"input_ids":[1]}\n{"input_ids":[2]}\n');
    await opened(other);
    const file = await readFile(join(store.folder, name));
    // The same bytes under the other dataset's name have the wrong key.
    const foreign = (await entries()).find((entry) => entry !== name) ?? '';
    await writeFile(join(store.folder, foreign), file);
    expect((await opened(other)).found.rows).toBe(2);
    expect(file.equals(await readFile(join(store.folder, foreign)))).toBe(false);
  });

  it('sees one changed character though size and time are the same (P05d)', async () => {
    const path = await fileOf(lines);
    await utimes(path, 1_700_000_000, 1_700_000_000);
    const { size, mtimeMs, ino } = await stat(path);
    const before = await opened(path);
    await writeFile(path, lines.replace('[1500,1,2]', '[1500,1,3]'), { flag: 'r+' });
    await utimes(path, 1_700_000_000, 1_700_000_000);
    expect(await stat(path)).toMatchObject({ size, mtimeMs, ino });
    const after = await opened(path);
    expect(after.found.root).not.toBe(before.found.root);
  });

  it('sees a file that was put in its place with the same size and time', async () => {
    const path = await fileOf(lines);
    await utimes(path, 1_700_000_000, 1_700_000_000);
    await opened(path);
    const copy = `${path}.new`;
    await writeFile(copy, lines.replace('[7,1,2]', '[8,1,2]'));
    await utimes(copy, 1_700_000_000, 1_700_000_000);
    await rename(copy, path);
    expect((await opened(path)).found.root).toBe((await opened(path, { rowIndex: null })).found.root);
  });

  it('is another one for another limit, another version and another reading', async () => {
    const path = await fileOf(`${lines}{"input_ids":[1,2,3,4,5,6]}\n{"input_ids":[1]}\n`);
    expect((await opened(path)).found.problemCount).toBe(0);
    expect((await opened(path, { maxTokens: 5 })).found.problemCount).toBe(1);
    expect((await opened(path)).found.problemCount).toBe(0);
    expect(await entries()).toHaveLength(2);
    const old = await readFile(join(store.folder, (await entries())[0] ?? ''));
    await opened(path, { rowIndex: { ...store, version: '2' } });
    await opened(path, { maxTokens: 5, rowIndex: { ...store, version: '2' } });
    expect(old.equals(await readFile(join(store.folder, (await entries())[0] ?? '')))).toBe(false);
  });

  it('is not kept of a file that has just been written: a second change would look the same', async () => {
    const path = await fileOf(lines);
    await opened(path, { rowIndex: { ...store, now: () => Date.now() } });
    expect(await entries()).toEqual([]);
    // A clock behind the file server's must not make a young file old.
    await opened(path, { rowIndex: { ...store, now: () => Date.now() - 86_400_000 } });
    expect(await entries()).toEqual([]);
  });

  it('is ignored and made again when it is damaged, wherever', async () => {
    const path = await fileOf(lines);
    const { found } = await opened(path);
    const entry = join(store.folder, (await entries())[0] ?? '');
    const whole = await readFile(entry);
    const damages = [Buffer.alloc(0), whole.subarray(0, 20), whole.subarray(0, whole.length - 1), Buffer.alloc(whole.length)];
    for (let at = 0; at < whole.length; at += 9973) {
      const bytes = Buffer.from(whole);
      bytes[at] = (bytes[at] ?? 0) ^ 1;
      damages.push(bytes);
    }
    for (const bytes of damages) {
      await writeFile(entry, bytes);
      expect((await opened(path)).found).toEqual(found);
      expect(whole.equals(await readFile(entry))).toBe(true);
    }
  });

  it('is no trouble where there is no place for it', async () => {
    const path = await fileOf(lines);
    const file = await fileOf('a file where the folder should be');
    expect((await opened(path, { rowIndex: { ...store, folder: file } })).found.rows).toBe(3000);
    expect((await opened(path, { rowIndex: { ...store, folder: '/proc/1/no' } })).found.rows).toBe(3000);
    if (process.getuid?.() === 0) return;
    const shut = await mkdtemp(join(base, 'shut-'));
    await chmod(shut, 0o500);
    expect((await opened(path, { rowIndex: { ...store, folder: join(shut, 'rows') } })).found.rows).toBe(3000);
  });

  it('keeps the folder small: the oldest go, and what dead processes left', async () => {
    const paths = await Promise.all([1, 2, 3].map((part) => fileOf(`${lines}{"input_ids":[${part}]}\n`)));
    const [first = '', second = '', third = ''] = paths;
    await opened(first);
    const [oldest = ''] = await entries();
    const { size } = await stat(join(store.folder, oldest));
    await utimes(join(store.folder, oldest), 1, 1);
    const left = join(store.folder, `${oldest}.0123456789ab.tmp`);
    await writeFile(left, 'half');
    await utimes(left, 1, 1);
    const mine = join(store.folder, 'not-ours.txt');
    await writeFile(mine, 'x'.repeat(size));
    const small = { ...store, folderBytesMost: Math.floor(size * 2.5) };
    await opened(second, { rowIndex: small });
    expect(await entries()).toHaveLength(3);
    await opened(third, { rowIndex: small });
    const names = await entries();
    expect(names).toHaveLength(3);
    expect(names).not.toContain(oldest);
    expect(names).toContain('not-ours.txt');
    await opened(first, { rowIndex: { ...store, folderBytesMost: size - 1 } });
    expect(await entries()).toHaveLength(3);
  });
});
