import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocalHost } from '../host/local.ts';
import { openDataset } from './open-dataset.ts';
import { openPrompts } from './open-prompts.ts';
import { ReadWindow, type Segment } from './read-window.ts';

const { files } = createLocalHost();
const plain = { encoder: null, maxTokens: null };
const hasZstd = (() => {
  try {
    execFileSync('zstd', ['--version']);
    return true;
  } catch {
    return false;
  }
})();
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-packed-'));
});
afterAll(() => rm(folder, { recursive: true }));

async function fileOf(bytes: Uint8Array | string, name = 'data.jsonl.gz'): Promise<string> {
  const path = join(await mkdtemp(join(folder, 'd-')), name);
  await writeFile(path, bytes);
  return path;
}

function lineOf(row: number): string {
  const ids = Array.from({ length: 1 + (row % 60) }, (_, at) => (row * 7919 + at * 104_729) % 151_643);
  return `${JSON.stringify({ id: row, input_ids: ids })}\n`;
}

function linesOf(from: number, to: number): string {
  return Array.from({ length: to - from }, (_, at) => lineOf(from + at)).join('');
}

async function rootOf(path: string): Promise<string> {
  const dataset = await openDataset(files, path, plain);
  await dataset.close();
  return dataset.table.root;
}

function zstd(text: string, ...flags: string[]): Buffer {
  return execFileSync('zstd', ['-q', '-c', ...flags], { input: text, maxBuffer: 1 << 28 });
}

describe('JSONL in gzip', () => {
  it('of one member or many is known by its bytes, and has the fingerprint of the text', async () => {
    const root = await rootOf(await fileOf(linesOf(0, 3000), 'plain.jsonl'));
    expect(await rootOf(await fileOf(gzipSync(linesOf(0, 3000))))).toBe(root);
    const many = Buffer.concat([gzipSync(linesOf(0, 999)), gzipSync(''), gzipSync(linesOf(999, 3000))]);
    expect(await rootOf(await fileOf(many, 'no-such-ending'))).toBe(root);
    expect(await rootOf(await fileOf(Buffer.concat([many, Buffer.alloc(512)])))).toBe(root);
  });

  it('gives any row in any order, also to many who ask at once', async () => {
    const dataset = await openDataset(files, await fileOf(gzipSync(linesOf(0, 20_000))), plain);
    const order = [0, 1, 19_999, 5, 10_000, 9_999, 10_001, 19_998, 0];
    const rows = await Promise.all(order.map((row) => dataset.read(row)));
    expect(rows.map(({ id }) => id)).toEqual(order.map(String));
    expect([...(await dataset.read(777)).inputIds]).toEqual(JSON.parse(lineOf(777)).input_ids);
    await dataset.close();
  });

  it('numbers lines, and reads prompts', async () => {
    const path = await fileOf(gzipSync(`{"input_ids":[1]}\n\nnot json\n`));
    const dataset = await openDataset(files, path, plain);
    expect(dataset.problems.map(({ index, line }) => [index, line])).toEqual([[1, 3]]);
    await dataset.close();
    const prompts = await openPrompts(files, await fileOf(gzipSync('{"id":"a","prompt":"hi"}\n{"id":"b","prompt":"ho"}\n')));
    expect([prompts.count, (await prompts.read(1)).messages[0]?.content]).toEqual([2, 'ho']);
    await prompts.close();
  });

  it.each([
    ['cut off', (whole: Buffer) => whole.subarray(0, whole.length - 40), 'unexpected end of file'],
    ['cut off in its header', (whole: Buffer) => whole.subarray(0, 6), 'unexpected end of file'],
    ['with a wrong CRC', (whole: Buffer) => flipped(whole, whole.length - 7), 'incorrect data check'],
    ['with a wrong length', (whole: Buffer) => flipped(whole, whole.length - 2), 'incorrect length check'],
    ['with a flipped bit', (whole: Buffer) => flipped(whole, whole.length >> 1), /incorrect|invalid|unexpected/],
    ['with other bytes behind it', (whole: Buffer) => Buffer.concat([whole, Buffer.from('rest')]), 'incorrect header check'],
    ['with other bytes behind zeros', (whole: Buffer) => Buffer.concat([whole, Buffer.alloc(9), Buffer.from('rest')]), 'no gzip data'],
    [
      'whose last member was never written',
      (whole: Buffer) => Buffer.concat([whole, whole.subarray(0, 20), Buffer.alloc(4096)]),
      /invalid|incorrect|unexpected/,
    ],
  ])('%s is refused, with the command that proves it', async (_, damage, message) => {
    const path = await fileOf(damage(gzipSync(linesOf(0, 5000))));
    await expect(openDataset(files, path, plain)).rejects.toMatchObject({
      code: 'dataset',
      message: typeof message === 'string' ? expect.stringContaining(message) : expect.stringMatching(message),
      hint: expect.stringContaining('gzip -t'),
    });
  });
});

describe.skipIf(!hasZstd)('JSONL in zstd (needs the zstd program)', () => {
  it('of one frame or many, with and without checksum and size, has the fingerprint of the text', async () => {
    const lines = linesOf(0, 3000);
    const root = await rootOf(await fileOf(lines, 'plain.jsonl'));
    for (const flags of [['-3'], ['-19'], ['--no-check'], ['--long=27'], ['-1', '--no-content-size']]) {
      expect(await rootOf(await fileOf(zstd(lines, ...flags))), flags.join(' ')).toBe(root);
    }
    const many = Buffer.concat([zstd(linesOf(0, 999)), Buffer.from('502a4d1803000000abcdef', 'hex'), zstd(''), zstd(linesOf(999, 3000))]);
    expect(await rootOf(await fileOf(many, 'no-such-ending'))).toBe(root);
    const first = Buffer.concat([Buffer.from('502a4d1800000000', 'hex'), zstd(lines)]);
    expect(await rootOf(await fileOf(first))).toBe(root);
  });

  it('gives any row in any order', async () => {
    const frames = Array.from({ length: 10 }, (_, frame) => zstd(linesOf(frame * 500, (frame + 1) * 500)));
    const dataset = await openDataset(files, await fileOf(Buffer.concat(frames)), plain);
    for (const row of [4999, 0, 2500, 2499, 1, 4998, 500]) expect((await dataset.read(row)).id).toBe(String(row));
    await dataset.close();
  });

  it.each([
    ['cut off', (whole: Buffer) => whole.subarray(0, whole.length - 9), 'cut off'],
    ['with a wrong checksum', (whole: Buffer) => flipped(whole, whole.length - 1), 'checksum of the frame'],
    ['with a flipped bit', (whole: Buffer) => flipped(whole, whole.length >> 1), ''],
    ['with other bytes behind it', (whole: Buffer) => Buffer.concat([whole, Buffer.from('the rest is no frame')]), 'no zstd frame'],
  ])('%s is refused, with the command that proves it', async (_, damage, message) => {
    const path = await fileOf(damage(zstd(linesOf(0, 5000))));
    await expect(openDataset(files, path, plain)).rejects.toMatchObject({
      code: 'dataset',
      message: expect.stringContaining(message),
      hint: expect.stringContaining('zstd -t'),
    });
  });

  it('in a frame that is too large to be read whole is refused before memory is taken', async () => {
    const path = await fileOf('', 'large.jsonl.zst');
    execFileSync('sh', ['-c', `head -c 300000000 /dev/zero | tr '\\0' ' ' | zstd -q -f -o '${path}'`]);
    const before = process.memoryUsage().arrayBuffers;
    await expect(openDataset(files, path, plain)).rejects.toMatchObject({
      code: 'dataset',
      hint: expect.stringContaining(`zstd -d ${path}`),
    });
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(32e6);
  });

  it('whose header asks for a window of 2 GiB is refused', async () => {
    const whole = zstd(linesOf(0, 100), '--no-content-size');
    whole[5] = 0xa8;
    await expect(openDataset(files, await fileOf(whole), plain)).rejects.toMatchObject({ code: 'dataset' });
  });
});

function flipped(whole: Buffer, at: number): Buffer {
  const bytes = Buffer.from(whole);
  bytes[at] = (bytes[at] ?? 0) ^ 0x10;
  return bytes;
}

describe('a window over what is read forwards', () => {
  it('gives what was asked for, in any order, and reads a pass nearly in order only once', async () => {
    const request = fc.tuple(fc.integer({ min: 0, max: 999 }), fc.integer({ min: 1, max: 40 }));
    await fc.assert(
      fc.asyncProperty(fc.array(request, { maxLength: 30 }), fc.integer({ min: 1, max: 200 }), async (requests, kept) => {
        const window = new ReadWindow(
          numbers(100, () => undefined),
          kept,
        );
        for (const [start, length] of requests) {
          const found = (await window.read(start, start + length)).flatMap(({ data }) => data);
          const end = Math.min(start + length, 1000);
          expect(found.filter((number) => number >= start && number < end)).toEqual(
            Array.from({ length: end - start }, (_, at) => start + at),
          );
        }
        await window.close();
      }),
      { numRuns: 100 },
    );
    let begun = 0;
    const window = new ReadWindow(
      numbers(1000, () => {
        begun += 1;
      }),
      100,
    );
    for (let at = 0; at < 990; at += 1) {
      await window.read(at, at + 1);
      if (at > 50) await window.read(at - 50, at - 49);
    }
    expect(begun).toBe(1);
  });
});

/** The numbers below 1000 in segments of 1 to 13, readable from each multiple of `step`. */
function numbers(step: number, onBegin: () => void) {
  async function* segments(from: number): AsyncGenerator<Segment<readonly number[]>> {
    onBegin();
    for (let start = from, end = 0; start < 1000; start = end) {
      end = Math.min(start + 1 + (start % 13), 1000);
      yield { start, end, cost: end - start, data: Array.from({ length: end - start }, (_, at) => start + at) };
    }
  }
  return { anchor: (position: number) => position - (position % step), segments };
}
