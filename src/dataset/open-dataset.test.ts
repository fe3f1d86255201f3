import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rowIdentity } from '../core/identity.ts';
import { createLocalHost } from '../host/local.ts';
import type { ConversationEncoder } from './dataset.ts';
import { openDataset } from './open-dataset.ts';
import { openConversationEncoder } from './tokenizer.ts';

const { files } = createLocalHost();
const plain = { encoder: null, maxTokens: null };
let folder: string;
let encoder: ConversationEncoder;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-dataset-'));
  encoder = await openConversationEncoder(files, join(import.meta.dirname, '../../models/tide-5m'));
});
afterAll(() => rm(folder, { recursive: true }));

async function fileOf(content: string | Uint8Array): Promise<string> {
  const path = join(await mkdtemp(join(folder, 'd-')), 'data.jsonl');
  await writeFile(path, content);
  return path;
}

describe('openDataset', () => {
  it('keeps the index of every row, also of those that have no sample', async () => {
    const text =
      '\xef\xbb\xbf{"input_ids":[1,2],"loss_mask":[0,1]}\r\n{"input_ids":[]}\n\nnot json\n"\xff"\n{"id":"z","input_ids":[7,8,9]}';
    const path = await fileOf(Buffer.from(text, 'latin1'));
    const dataset = await openDataset(files, path, plain);
    expect(dataset.rows).toBe(5);
    expect(dataset.problemCount).toBe(3);
    expect(dataset.problems.map(({ index, line }) => [index, line])).toEqual([
      [1, 2],
      [2, 4],
      [3, 5],
    ]);
    expect(dataset.table.at(0)).toEqual(rowIdentity(Uint32Array.of(1, 2), Uint8Array.of(0, 1)));
    expect(dataset.table.at(2)).toBeNull();
    expect(await dataset.read(4)).toEqual({ index: 4, id: 'z', inputIds: Uint32Array.of(7, 8, 9), lossMask: Uint8Array.of(1, 1, 1) });
    expect(await dataset.read(0)).toMatchObject({ inputIds: Uint32Array.of(1, 2) });
    await expect(dataset.read(1)).rejects.toMatchObject({ code: 'dataset', message: expect.stringContaining('input_ids is empty') });
    await expect(dataset.read(5)).rejects.toThrow(RangeError);
    await dataset.close();
  });

  it('drops rows that are too long and reads conversations', async () => {
    const talk = {
      messages: [
        { role: 'user', content: 'What is 2 plus 2?' },
        { role: 'assistant', content: '4' },
      ],
    };
    const path = await fileOf(`${JSON.stringify(talk)}\n{"input_ids":${JSON.stringify(Array(100).fill(5))}}\n`);
    const dataset = await openDataset(files, path, { encoder, maxTokens: 50 });
    expect(dataset.problems).toEqual([{ index: 1, line: 2, message: 'too long: 100 tokens, and the limit is 50' }]);
    const row = await dataset.read(0);
    expect(rowIdentity(row.inputIds, row.lossMask)).toEqual(dataset.table.at(0));
    expect(dataset.table.at(0)?.lossTokens).toBe(2);
    await dataset.close();
  });

  it('tells one changed character by its row (P05d)', async () => {
    const lines = Array.from({ length: 50 }, (_, row) =>
      JSON.stringify({
        messages: [
          { role: 'user', content: `q${row}` },
          { role: 'assistant', content: `answer ${row}` },
        ],
      }),
    );
    const before = await openDataset(files, await fileOf(lines.join('\n')), { encoder, maxTokens: null });
    lines[31] = (lines[31] ?? '').replace('answer', 'enswer');
    const after = await openDataset(files, await fileOf(lines.join('\n')), { encoder, maxTokens: null });
    expect(after.table.root).not.toBe(before.table.root);
    expect(before.table.differences(after.table, 9)).toEqual([31]);
    await before.close();
    await after.close();
  });

  it('follows a link, counts all problems and keeps a hundred', async () => {
    const path = await fileOf(`${'{}\n'.repeat(250)}{"input_ids":[1]}\n`);
    const link = join(folder, 'link.jsonl');
    await symlink(path, link);
    const dataset = await openDataset(files, link, plain);
    expect([dataset.rows, dataset.problemCount, dataset.problems.length]).toEqual([251, 250, 100]);
    await dataset.close();
  });

  it('gives the rows that were written, whatever the line ends', async () => {
    const row = fc.array(fc.integer({ min: 0, max: 0xffffffff }), { minLength: 1, maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(row, fc.constantFrom('\n', '\r\n', '\n\n', '\n \r\n')), { minLength: 1, maxLength: 30 }),
        async (rows) => {
          const path = await fileOf(rows.map(([ids, end]) => JSON.stringify({ input_ids: ids }) + end).join(''));
          const dataset = await openDataset(files, path, plain);
          expect(dataset.rows).toBe(rows.length);
          for (const [index, [ids]] of rows.entries()) expect([...(await dataset.read(index)).inputIds]).toEqual(ids);
          await dataset.close();
        },
      ),
      { numRuns: 40 },
    );
  });

  it('stops when asked, and reports progress', async () => {
    const path = await fileOf('{"input_ids":[1,2,3]}\n'.repeat(300_000));
    const controller = new AbortController();
    const seen: number[] = [];
    const opening = openDataset(files, path, {
      ...plain,
      signal: controller.signal,
      onProgress: ({ bytes }) => {
        seen.push(bytes);
        controller.abort(new Error('enough'));
      },
    });
    await expect(opening).rejects.toThrow('enough');
    expect(seen.length).toBeGreaterThan(0);
  });
});

describe('what is no dataset', () => {
  it.each([
    ['an empty file', '', 'has no row: it is empty, or only blank lines', 'ls -l'],
    ['blank lines', '\n\n\n', 'has no row', 'ls -l'],
    ['a table', 'a,b\n1,2\n', 'has nothing to extract: none of its 2 rows can be used, and the first says: not JSON', 'sed -n 1p'],
    ['rows of another kind', '{"text":"hello"}', 'its only row cannot be used: it has none of input_ids', 'sed -n 1p'],
    ['a JSON list', '[\n{"input_ids":[1]},\n{"input_ids":[2]}\n]', 'is one JSON list', 'jq -c'],
    ['gzip in gzip', gzipSync(gzipSync('{"input_ids":[1]}\n')), 'is gzip and in it compressed with gzip', 'gzip -dc'],
    ['a tar archive in gzip', gzipSync(`${'x'.repeat(257)}ustar`), 'is gzip and in it a tar archive', 'tar -xf'],
    ['a Parquet file without its end', Buffer.from('PAR1\0\0\0\0PAR0'), 'is damaged: its end is missing', 'ls -l'],
    ['a Parquet file of nothing', Buffer.from('PAR1\0\0\0\0PAR1'), 'is damaged: its footer is not whole', 'ls -l'],
    ['zeros', Buffer.alloc(4096), 'is not text (it holds NUL bytes)', 'file '],
  ])('%s is refused with the next command', async (_, content, message, hint) => {
    const path = await fileOf(content);
    await expect(openDataset(files, path, plain)).rejects.toMatchObject({
      code: 'dataset',
      message: expect.stringContaining(message),
      hint: expect.stringContaining(hint),
    });
    await expect(openDataset(files, path, plain)).rejects.toThrow(path);
  });

  it('a missing file or a folder names the path and the next command', async () => {
    const gone = join(folder, 'gone.jsonl');
    await expect(openDataset(files, gone, plain)).rejects.toMatchObject({
      code: 'dataset',
      where: gone,
      hint: expect.stringContaining('--dataset'),
    });
    await mkdir(join(folder, 'dir.jsonl'));
    await expect(openDataset(files, join(folder, 'dir.jsonl'), plain)).rejects.toMatchObject({
      code: 'dataset',
      message: expect.stringContaining('is a folder'),
    });
  });

  it('a conversation without a tokenizer names target.model and the line', async () => {
    const path = await fileOf('{"input_ids":[1]}\n{"messages":[{"role":"user","content":"hi"}]}\n');
    await expect(openDataset(files, path, plain)).rejects.toMatchObject({
      code: 'dataset',
      where: `${path}:2`,
      hint: expect.stringContaining('target.model'),
    });
  });

  it('a conversation says why there is no tokenizer, where that is known', async () => {
    const path = await fileOf('{"messages":[{"role":"user","content":"hi"}]}\n');
    const opening = openDataset(files, path, { ...plain, encoderProblem: 'the model folder m has no chat template' });
    await expect(opening).rejects.toThrow('without input_ids, and the model folder m has no chat template');
  });

  it('a bad row among good ones is a problem, not the end', async () => {
    const path = await fileOf(Buffer.concat([Buffer.from('{"input_ids":[1]}\n'), Buffer.alloc(600), Buffer.from('\n{"input_ids":[2]}\n')]));
    const dataset = await openDataset(files, path, plain);
    expect([dataset.rows, dataset.problemCount]).toEqual([3, 1]);
    await dataset.close();
  });
});
