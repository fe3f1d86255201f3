import { describe, expect, it } from 'vitest';
import { prefixed, runOf, statedParquet } from '../../test/fuzz/parquet-files.ts';
import { type Block, blocksOf, frame } from '../../test/fuzz/zstd-files.ts';
import { memoryHost } from '../../test/support/memory-host.ts';
import { openDataset } from './open-dataset.ts';

// What the fuzzer found in packed datasets (docs/fuzzing.md), each as the smallest case of its kind.
const encoder = {
  tokenizerDigest: 'a',
  templateDigest: 'b',
  encode: () => ({ inputIds: Uint32Array.of(1), lossMask: Uint8Array.of(1) }),
};

async function open(bytes: Uint8Array) {
  const { files } = memoryHost();
  files.plant('/d', bytes);
  return openDataset(files, '/d', { encoder, maxTokens: null });
}

describe('a page of a few bytes that unfolds to much', () => {
  const page = (values: number, repetition: Uint8Array, level: number, bits: number) => ({
    values,
    encoding: 8,
    body: Buffer.concat([prefixed(repetition), prefixed(runOf(values, level, bits)), Buffer.from([1]), runOf(values, 0, 1)]),
  });
  const oneRow = (values: number) => Buffer.concat([runOf(1, 0, 1), runOf(values - 1, 1, 1)]);

  it('is refused where one conversation has more parts than any has', async () => {
    const dictionary = { values: 1, encoding: 0, body: Buffer.from([2, 0, 0, 0, 104, 105]), dictionary: true };
    const bytes = statedParquet({ rows: 1, codec: 0, pages: [dictionary, page(600_000, oneRow(600_000), 4, 3)], column: 'messages' });
    expect(bytes.length).toBeLessThan(1000);
    await expect(open(bytes)).rejects.toMatchObject({ code: 'dataset', message: expect.stringContaining('more than 500000 values') });
  });

  it('gives a row of a million ids, and many small ones, whole', async () => {
    const dictionary = { values: 1, encoding: 0, body: Buffer.from([7, 0, 0, 0]), dictionary: true };
    const long = await open(
      statedParquet({ rows: 1, codec: 0, pages: [dictionary, page(1_000_000, oneRow(1_000_000), 3, 2)], column: 'input_ids' }),
    );
    expect(long.table.at(0)?.tokens).toBe(1_000_000);
    await long.close();
    const pages = [dictionary, page(1000, runOf(1000, 0, 1), 3, 2)];
    const many = await open(statedParquet({ rows: 1000, codec: 0, pages, column: 'input_ids' }));
    expect([many.rows, many.table.at(999)?.tokens, [...(await many.read(500)).inputIds]]).toEqual([1000, 1, [7]]);
    await many.close();
  });
});

describe('a zstd frame', () => {
  const line = Buffer.from('{"input_ids":[1,2]}\n');
  const unchecked = (bytes: Uint8Array): Uint8Array => {
    const copy = Uint8Array.from(bytes.subarray(0, bytes.length - 4));
    copy[4] = (copy[4] ?? 0) & ~4;
    return copy;
  };

  it.each([
    ['with a checksum', (bytes: Uint8Array) => bytes],
    ['without a checksum', unchecked],
  ])('that holds less or more than it states is refused (%s)', async (_, form) => {
    const blocks = [...blocksOf(line)];
    const dataset = await open(form(frame(blocks, line, line.length)));
    expect(dataset.rows).toBe(1);
    await dataset.close();
    for (const stated of [line.length - 1, 0])
      await expect(open(form(frame(blocks, line, stated)))).rejects.toMatchObject({ code: 'dataset' });
    const more: Block[] = [...blocks, { kind: 'repeat', content: Uint8Array.of(0x20), bytes: 100 }];
    await expect(open(form(frame(more, line, line.length + 99)))).rejects.toMatchObject({ code: 'dataset' });
    await expect(open(form(frame(more, line, line.length + 50)))).rejects.toMatchObject({ code: 'dataset' });
  });

  it('takes the room of its text, whatever window its header asks for', async () => {
    const bytes = Uint8Array.from(frame([...blocksOf(line)], line));
    // 2^(10 + 17) bytes: as `zstd --long=27` writes it.
    bytes[5] = 17 << 3;
    const before = process.memoryUsage().arrayBuffers;
    const dataset = await open(bytes);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(32e6);
    expect(dataset.rows).toBe(1);
    await dataset.close();
  });
});
