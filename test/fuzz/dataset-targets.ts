import { rowIdentity } from '../../src/core/identity.ts';
import type { Dataset } from '../../src/dataset/dataset.ts';
import { openDataset } from '../../src/dataset/open-dataset.ts';
import { zstdFrameAt } from '../../src/dataset/zstd-frames.ts';
import { zstdText } from '../../src/dataset/zstd-text.ts';
import type { FileReader, FileStat, ReadableFile } from '../../src/host/host.ts';
import type { Random } from '../support/seeded-random.ts';
import { damaged, oddNumber, oneOf } from './mutate.ts';
import { parquetSeeds, prefixed, runOf, type StatedPage, statedParquet } from './parquet-files.ts';
import { type BoundedFile, boundedFile, type FuzzInput, type FuzzTarget, input, keep } from './target.ts';
import { keepMessage } from './text-targets.ts';
import { type Block, blocksOf, frame, zstdSeeds } from './zstd-files.ts';

const MIB = 1024 * 1024;
const PATH = '/d';
const ENCODER = {
  tokenizerDigest: 'a',
  templateDigest: 'b',
  encode: () => ({ inputIds: Uint32Array.of(1, 2), lossMask: Uint8Array.of(0, 1) }),
};

/** The input as the one file of a machine, with the bounds on its reads. */
function readerOf(file: BoundedFile): FileReader {
  const stat: FileStat = {
    kind: 'file',
    bytes: file.size,
    allocatedBytes: file.size,
    modifiedMs: 0,
    changedMs: 0,
    mode: 0o644,
    links: 1,
    device: 'd',
    inode: '1',
  };
  const never = () => Promise.reject(new Error('it reads one file'));
  return {
    list: never,
    stat: async () => stat,
    open: async () => openFile(file, stat),
    readSmall: never,
    realPath: async (path) => path,
    space: never,
  };
}

function openFile(file: BoundedFile, stat: FileStat): ReadableFile {
  return { size: file.size, stat, read: file.read, close: async () => undefined };
}

/** Opens the input as a dataset and reads some rows again; refused in words, or what the scan found is what a reader gets. */
async function keepDataset(fuzz: FuzzInput, bounds: Parameters<typeof boundedFile>[1]): Promise<void> {
  let dataset: Dataset;
  try {
    dataset = await openDataset(readerOf(boundedFile(fuzz, bounds)), PATH, { encoder: ENCODER, maxTokens: null });
  } catch (error) {
    return keepMessage(error, 'dataset');
  }
  try {
    keep(dataset.rows > 0 && dataset.problemCount < dataset.rows, 'it takes a file without rows');
    for (const row of new Set([0, dataset.rows >> 1, dataset.rows - 1])) await keepRow(dataset, row);
  } finally {
    await dataset.close();
  }
}

async function keepRow(dataset: Dataset, row: number): Promise<void> {
  const known = dataset.table.at(row);
  if (known === null) return;
  const { inputIds, lossMask } = await dataset.read(row);
  keep(JSON.stringify(rowIdentity(inputIds, lossMask)) === JSON.stringify(known), `row ${row} is another one when it is read again`);
}

export function parquetTarget(): FuzzTarget {
  const seeds = parquetSeeds();
  return {
    name: 'parquet',
    make(random) {
      if (random.chance(0.15)) return statedTable(random);
      const { bytes, made } = damaged(random, oneOf(random, seeds), oneOf(random, seeds));
      return input(bytes, made);
    },
    check: (fuzz) => keepDataset(fuzz, { largest: 256 * MIB, total: 256 * MIB + 64 * fuzz.bytes.length }),
  };
}

/** Headers that are whole and sums that are right, and far more rows and values than a few bytes should cost. */
function statedTable(random: Random): FuzzInput {
  const count = oneOf(random, [0, 1, 1000, 100_000, 1_000_000, 16 * MIB, 16 * MIB + 1, oddNumber(random, 1000)]);
  const column = oneOf(random, ['input_ids', 'messages'] as const);
  const most = column === 'input_ids' ? 3 : 4;
  const level = random.below(most + 1);
  const bits = most === 3 ? 2 : 3;
  const rows = oneOf(random, [count, count, 1, 0, oddNumber(random, count)]);
  // One row of all the values, or a row for each; rows themselves take memory, 76 bytes each, and are bounded by nothing but their number.
  const apart = count <= 300_000 && random.chance(0.5);
  const repetition = apart ? runOf(count, 0, 1) : Buffer.concat([runOf(1, 0, 1), runOf(Math.max(count - 1, 0), 1, 1)]);
  const levels = [prefixed(repetition), prefixed(runOf(count, level, bits))];
  const present = level === most ? count : 0;
  const pages: StatedPage[] = [];
  if (random.chance(0.6)) {
    const word = column === 'input_ids' ? Buffer.from([7, 0, 0, 0]) : Buffer.from([2, 0, 0, 0, 104, 105]);
    pages.push({ values: 1, encoding: 0, body: word, dictionary: true });
    pages.push({ values: count, encoding: 8, body: Buffer.concat([...levels, Buffer.from([1]), runOf(present, 0, 1)]) });
  } else {
    const encoding = oneOf(random, [0, 5, 6, 7, 2, 9]);
    const body = Buffer.concat([...levels, random.bytes(random.below(40))]);
    const unpackedBytes = random.chance(0.8) ? body.length : oddNumber(random, body.length) % 2 ** 31;
    pages.push({ values: count, encoding, body, unpackedBytes });
  }
  if (random.chance(0.2)) pages.push(...pages);
  const codec = random.chance(0.7) ? 0 : random.below(9);
  return input(statedParquet({ rows, codec, pages, column }), `a table of ${rows} rows and ${count} values of level ${level} in ${column}`);
}

export function zstdTarget(): FuzzTarget {
  const seeds = zstdSeeds();
  return {
    name: 'zstd',
    // A frame is unpacked whole, up to 256 MiB of text, and its rows are put together from that.
    growthBytesMost: 640 * MIB,
    make(random) {
      if (random.chance(0.1)) return statedFrame(random);
      const bytes = random.chance(0.8)
        ? oneOf(random, seeds).bytes
        : Buffer.concat([oneOf(random, seeds).bytes, oneOf(random, seeds).bytes]);
      const wrong = damaged(random, bytes, oneOf(random, seeds).bytes);
      return input(wrong.bytes, wrong.made, { sealed: true });
    },
    async check(fuzz) {
      // A frame is read twice over, once for its headers and once whole: by the head, the scan, and the rows read again.
      const bounds = { largest: 256 * MIB + 64 * 1024, total: 64 * 1024 + 16 * fuzz.bytes.length };
      await keepDataset(fuzz, bounds);
      if (fuzz.sealed) await keepFrames(fuzz, bounds);
    },
  };

  /** Frames with a checksum are believed only when their text is one that was written. Those without promise nothing. */
  async function keepFrames(fuzz: FuzzInput, bounds: Parameters<typeof boundedFile>[1]): Promise<void> {
    const texts = new Set(seeds.map(({ text }) => text));
    const file = boundedFile(fuzz, bounds);
    const source = zstdText(openFile(file, { bytes: file.size } as FileStat), PATH);
    try {
      let text = '';
      for await (const piece of source.pieces()) text += Buffer.from(piece).toString('utf8');
      keep(isMadeOf(text, texts) || !(await allChecked(file)), 'a damaged frame is said to be whole');
    } catch (error) {
      keepMessage(error, 'dataset');
    } finally {
      await source.close();
    }
  }
}

function isMadeOf(text: string, texts: ReadonlySet<string>): boolean {
  let ends = new Set([0]);
  for (;;) {
    if (ends.has(text.length)) return true;
    const next = new Set<number>();
    for (const end of ends) for (const one of texts) if (one !== '' && text.startsWith(one, end)) next.add(end + one.length);
    if (next.size === 0) return false;
    ends = next;
  }
}

/** Whether every frame says that it has a checksum. */
async function allChecked(file: BoundedFile): Promise<boolean> {
  for (let at = 0; at < file.size; ) {
    const frame = await zstdFrameAt(file, at);
    if (!frame.skippable && !frame.checksum) return false;
    at = frame.end;
  }
  return true;
}

/** Frames whose blocks are legal and unfold to far more than they have, or state another size. */
function statedFrame(random: Random): FuzzInput {
  const repeat = (bytes: number): Block => ({ kind: 'repeat', content: Uint8Array.of(0x20), bytes });
  const count = oneOf(random, [1, 10, 100, 700, 2049, 4000]);
  const blocks = Array.from({ length: count }, () => repeat(128 * 1024));
  const line = Buffer.from('\n{"input_ids":[1]}\n');
  const stated = random.chance(0.5) ? null : oddNumber(random, count * 128 * 1024);
  if (random.chance(0.5)) return input(frame([...blocks, ...blocksOf(line)], line, stated), `${count} blocks of 128 KiB in a few bytes`);
  const small = frame([...blocksOf(line)], line, stated);
  const many = Array.from({ length: oneOf(random, [1, 1000, 20_000]) }, () => small);
  return input(Buffer.concat(many), `${many.length} frames of one row`);
}
