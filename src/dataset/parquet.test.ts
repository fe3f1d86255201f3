import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { type ColumnSource, parquetWriteBuffer, type SchemaElement } from 'hyparquet-writer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isTidemarkError } from '../core/errors.ts';
import { rowIdentity } from '../core/identity.ts';
import { createLocalHost } from '../host/local.ts';
import type { ConversationEncoder } from './dataset.ts';
import { openDataset } from './open-dataset.ts';
import { openPrompts } from './open-prompts.ts';
import { openConversationEncoder } from './tokenizer.ts';

const { files } = createLocalHost();
const plain = { encoder: null, maxTokens: null };
const packers = { GZIP: (bytes: Uint8Array) => gzipSync(bytes), BROTLI: (bytes: Uint8Array) => brotliCompressSync(bytes) };
let folder: string;
let encoder: ConversationEncoder;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-parquet-'));
  encoder = await openConversationEncoder(files, join(import.meta.dirname, '../../models/tide-5m'));
});
afterAll(() => rm(folder, { recursive: true }));

function list(name: string, element: SchemaElement[]): SchemaElement[] {
  return [
    { name, repetition_type: 'OPTIONAL', num_children: 1, converted_type: 'LIST' },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
    ...element,
  ];
}

const ids = (type: 'INT32' | 'INT64') => list('input_ids', [{ name: 'element', type, repetition_type: 'OPTIONAL' }]);
const mask = list('loss_mask', [{ name: 'element', type: 'BOOLEAN', repetition_type: 'OPTIONAL' }]);
const turns = (name: string) =>
  list(name, [
    { name: 'element', repetition_type: 'OPTIONAL', num_children: 2 },
    { name: 'role', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' },
    { name: 'content', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' },
  ]);
const text = (name: string): SchemaElement => ({ name, type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' });

type Written = Partial<Parameters<typeof parquetWriteBuffer>[0]>;

async function table(columnData: ColumnSource[], elements: SchemaElement[], options: Written = {}): Promise<string> {
  const schema = [{ name: 'root', num_children: columnData.length }, ...elements];
  return fileOf(new Uint8Array(parquetWriteBuffer({ columnData, schema, compressors: packers, ...options })));
}

async function fileOf(bytes: Uint8Array): Promise<string> {
  const path = join(await mkdtemp(join(folder, 'd-')), 'data.parquet');
  await writeFile(path, bytes);
  return path;
}

function idsOfRow(row: number): number[] {
  return Array.from({ length: 1 + (row % 40) }, (_, at) => (row * 31 + at * 7) % 150_000);
}

describe('Parquet', () => {
  it.each([
    ['INT64, SNAPPY, small row groups and pages', 'INT64', { codec: 'SNAPPY', rowGroupSize: 100, pageSize: 500 }],
    ['INT32, plain', 'INT32', { codec: 'UNCOMPRESSED', rowGroupSize: 1000, pageSize: 2000 }],
    ['INT64, gzip, one page', 'INT64', { codec: 'GZIP', rowGroupSize: 5000 }],
    ['INT32, brotli', 'INT32', { codec: 'BROTLI', rowGroupSize: [70, 500], pageSize: 1000 }],
  ] as const)('gives the ids that were written (%s), in order and in any order', async (_, type, options) => {
    const rows = Array.from({ length: 1234 }, (_row, row) => idsOfRow(row));
    const data = rows.map((row) => (type === 'INT64' ? row.map(BigInt) : row));
    const masks = rows.map((row) => row.map((id) => id % 2 === 0));
    const path = await table(
      [
        { name: 'input_ids', data },
        { name: 'loss_mask', data: masks },
      ],
      [...ids(type), ...mask],
      { ...options, rowGroupSize: typeof options.rowGroupSize === 'number' ? options.rowGroupSize : [...options.rowGroupSize] },
    );
    const dataset = await openDataset(files, path, plain);
    expect([dataset.rows, dataset.problemCount]).toEqual([1234, 0]);
    for (const row of [0, 1, 2, 99, 100, 101, 1233, 5, 640, 63, 64, 1000]) {
      const expected = rows[row] ?? [];
      const lossMask = Uint8Array.from(expected, (id) => (id % 2 === 0 ? 1 : 0));
      expect(await dataset.read(row)).toMatchObject({ inputIds: Uint32Array.from(expected), lossMask });
      expect(dataset.table.at(row)).toEqual(rowIdentity(Uint32Array.from(expected), lossMask));
    }
    await expect(dataset.read(1234)).rejects.toThrow(RangeError);
    await dataset.close();
  });

  it.each(['DELTA_BINARY_PACKED', 'PLAIN'] as const)('reads columns written as %s', async (encoding) => {
    const rows = Array.from({ length: 300 }, (_, row) => idsOfRow(row));
    for (const type of ['INT32', 'INT64'] as const) {
      const data = rows.map((row) => (type === 'INT64' ? row.map(BigInt) : row));
      const dataset = await openDataset(files, await table([{ name: 'input_ids', data, encoding }], ids(type)), plain);
      expect([...(await dataset.read(123)).inputIds]).toEqual(rows[123]);
      await dataset.close();
    }
  });

  it('takes long rows a few at a time, and keeps the columns together', async () => {
    const lengths = [3, 700_000, 600_000, 2, 900_000, 1, 800_000, 5];
    const data = lengths.map((length, row) => Array.from({ length }, (_, at) => (row * 1009 + at) % 150_000));
    const columns = [
      { name: 'input_ids', data },
      { name: 'id', data: lengths.map((_, row) => `row-${row}`) },
    ];
    const dataset = await openDataset(files, await table(columns, [...ids('INT32'), text('id')], { pageSize: 2_000_000 }), plain);
    for (const row of [4, 0, 7, 1]) {
      const read = await dataset.read(row);
      expect([read.id, read.inputIds.length, read.inputIds.at(-1)]).toEqual([`row-${row}`, lengths[row], data[row]?.at(-1)]);
      expect(dataset.table.at(row)?.identity).toBe(rowIdentity(Uint32Array.from(data[row] ?? []), read.lossMask).identity);
    }
    await dataset.close();
  });

  it('has the fingerprint that the same rows have as JSONL', async () => {
    const rows = Array.from({ length: 500 }, (_, row) => idsOfRow(row));
    const lines = join(folder, 'same.jsonl');
    await writeFile(lines, rows.map((row) => `${JSON.stringify({ input_ids: row })}\n`).join(''));
    const one = await openDataset(files, lines, plain);
    const other = await openDataset(files, await table([{ name: 'input_ids', data: rows }], ids('INT32'), { rowGroupSize: 77 }), plain);
    expect(other.table.root).toBe(one.table.root);
    await one.close();
    await other.close();
  });

  it('keeps the index of rows that are null, empty or wrong, and numbers them', async () => {
    const data = [[1, 2], null, [], [3, null], [-1], [4]];
    const path = await table([{ name: 'input_ids', data }], ids('INT32'));
    const dataset = await openDataset(files, path, plain);
    expect(dataset.problems.map(({ index, line, message }) => [index, line, message])).toEqual([
      [1, 2, expect.stringContaining('none of input_ids')],
      [2, 3, 'input_ids is empty'],
      [3, 4, 'input_ids[1] is no token id: null'],
      [4, 5, 'input_ids[0] is no token id: -1'],
    ]);
    expect([...(await dataset.read(5)).inputIds]).toEqual([4]);
    await dataset.close();
  });

  it('reads conversations, and prompts', async () => {
    const talk = (row: number) => [
      { role: 'user', content: `What is ${row} plus 2? ö` },
      { role: 'assistant', content: `${row + 2}` },
    ];
    const data = Array.from({ length: 150 }, (_, row) => talk(row));
    const names = data.map((_, row) => `row-${row}`);
    const columns = [
      { name: 'id', data: names },
      { name: 'messages', data },
    ];
    const path = await table(columns, [text('id'), ...turns('messages')], { rowGroupSize: 40, pageSize: 300 });
    const dataset = await openDataset(files, path, { encoder, maxTokens: null });
    expect([dataset.rows, dataset.problemCount]).toEqual([150, 0]);
    const { inputIds, lossMask } = encoder.encode(talk(77));
    expect(await dataset.read(77)).toEqual({ index: 77, id: 'row-77', inputIds, lossMask });
    await dataset.close();
    const prompts = await openPrompts(files, path);
    expect(prompts.count).toBe(150);
    expect(await prompts.read(149)).toEqual({ id: 'row-149', messages: [{ role: 'user', content: 'What is 149 plus 2? ö' }] });
    await prompts.close();
  });

  it('says which columns there are when none is of use, and which row needs a tokenizer', async () => {
    const other = await table([{ name: 'text', data: ['a', 'b'] }], [text('text')]);
    await expect(openDataset(files, other, plain)).rejects.toMatchObject({
      code: 'dataset',
      message: expect.stringContaining('none of the columns input_ids, messages, conversations; its columns are text'),
    });
    const talk = await table([{ name: 'messages', data: [[{ role: 'user', content: 'hi' }]] }], turns('messages'));
    await expect(openDataset(files, talk, plain)).rejects.toMatchObject({ code: 'dataset', where: `${talk} row 0` });
  });
});

describe('a damaged Parquet file', () => {
  const rows = Array.from({ length: 200 }, (_, row) => idsOfRow(row));
  const write = (options: Written): Promise<string> => table([{ name: 'input_ids', data: rows }], ids('INT32'), options);

  it('that was cut anywhere is refused, and says so', async () => {
    const whole = await readFile(await write({ rowGroupSize: 50 }));
    for (let length = 5; length < whole.length; length += 97) {
      const path = await fileOf(whole.subarray(0, length));
      await expect(openDataset(files, path, plain)).rejects.toMatchObject({
        code: 'dataset',
        message: expect.stringContaining('is damaged'),
      });
    }
  });

  it.each(['UNCOMPRESSED', 'SNAPPY', 'GZIP'] as const)(
    'with a flipped bit gives rows, problems or a refusal, and nothing else (%s)',
    async (codec) => {
      const whole = await readFile(await write({ codec, rowGroupSize: 50 }));
      let refused = 0;
      for (let at = 4; at < whole.length; at += 97) {
        const bytes = Buffer.from(whole);
        bytes[at] = (bytes[at] ?? 0) ^ (1 << (at % 8));
        const path = await fileOf(bytes);
        try {
          const dataset = await openDataset(files, path, plain);
          await dataset.close();
        } catch (error) {
          refused += 1;
          expect(isTidemarkError(error, 'dataset'), `bit in byte ${at}: ${String(error)}`).toBe(true);
        }
        await rm(path);
      }
      expect(refused).toBeGreaterThan(0);
    },
  );
});
