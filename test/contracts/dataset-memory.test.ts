import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createGzip } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../..');
const ROWS = 40_000;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-dataset-memory-'));
});
afterAll(() => rm(folder, { recursive: true }));

function idsOf(row: number): number[] {
  return Array.from({ length: 800 }, (_, at) => (row * 7919 + at * 104_729) % 151_643);
}

function* lines(): Generator<string> {
  for (let row = 0; row < ROWS; row += 1) yield `{"input_ids":[${idsOf(row).join(',')}]}\n`;
}

/** Opens and reads rows in a process of its own; MiB that it had at most, beyond what the modules alone take. */
async function peakOf(path: string): Promise<number> {
  const program = `
    import { createLocalHost } from '${root}/src/host/local.ts';
    import { openDataset } from '${root}/src/dataset/open-dataset.ts';
    const before = process.memoryUsage().rss;
    const dataset = await openDataset(createLocalHost().files, ${JSON.stringify(path)}, { encoder: null, maxTokens: null });
    for (let row = 0; row < dataset.rows; row += 97) await dataset.read(row);
    await dataset.read(0);
    await dataset.close();
    console.log(JSON.stringify({ rows: dataset.rows, problems: dataset.problemCount, peak: process.resourceUsage().maxRSS / 1024 - before / 1048576 }));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', program], { cwd: root });
  const { rows, problems, peak } = JSON.parse(stdout);
  expect([rows, problems, peak > 0]).toEqual([ROWS, 0, true]);
  return peak;
}

describe('memory of an open dataset stays bounded', () => {
  it('for 200 MB of text in gzip', async () => {
    const path = join(folder, 'data.jsonl.gz');
    await pipeline(Readable.from(lines()), createGzip({ level: 1 }), createWriteStream(path));
    expect(await peakOf(path)).toBeLessThan(250);
  });

  it('for 32 million ids in one row group of Parquet', async () => {
    const path = join(folder, 'data.parquet');
    const data = Array.from({ length: ROWS }, (_, row) => idsOf(row));
    const bytes = parquetWriteBuffer({
      columnData: [{ name: 'input_ids', data }],
      schema: [
        { name: 'root', num_children: 1 },
        { name: 'input_ids', repetition_type: 'OPTIONAL', num_children: 1, converted_type: 'LIST' },
        { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
        { name: 'element', type: 'INT32', repetition_type: 'OPTIONAL' },
      ],
      rowGroupSize: ROWS,
    });
    await writeFile(path, new Uint8Array(bytes));
    expect(await peakOf(path)).toBeLessThan(400);
  });
});
