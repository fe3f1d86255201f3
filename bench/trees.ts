import { execFileSync } from 'node:child_process';
import { closeSync, createWriteStream, fsyncSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { rowIdentity } from '../src/core/identity.ts';
import { type RowTable, RowTableBuilder } from '../src/format/row-table.ts';
import { DTYPE_BYTES, elementCount, type TensorSource } from '../src/format/tensors.ts';
import { writeTorchZip } from '../src/format/torch-zip-writer.ts';
import { ROOT } from '../test/support/processes.ts';
import { type BenchTensor, type WrittenSample, writeTorchFile } from './torch-file.ts';

export interface Tree {
  readonly folder: string;
  readonly dataset: string;
  readonly files: number;
  readonly paths: readonly string[];
}

/** The storage-crash scene as it is made for the tests: 18,421 small files of 37,312 rows. */
export function storageCrash(place: string): Tree {
  const scene = join(place, 'storage-crash');
  const script = join(ROOT, 'test/support/scenes/make_scene.py');
  execFileSync('python3', ['-B', script, '--scene', 'storage-crash', '--format', 'pt', scene], { stdio: 'ignore' });
  return { folder: join(scene, 'hidden_states'), dataset: join(scene, 'dataset.jsonl'), files: 18_421, paths: [] };
}

/** How a tree is to be written. */
interface TreePlan {
  readonly name: string;
  readonly rows: number;
  readonly groupSize: number;
  readonly hasFile: (row: number) => boolean;
  readonly tokensOf: (row: number) => number;
  /** Writes one file; `small` are its ids and mask. */
  readonly write: (file: {
    readonly path: string;
    readonly stem: string;
    readonly row: number;
    readonly small: readonly BenchTensor[];
  }) => Promise<void> | void;
}

/** A tree in SpecForge's form with its dataset, and the row table of it. */
async function writeTree(place: string, plan: TreePlan): Promise<Tree & { readonly table: RowTable }> {
  const root = join(place, plan.name);
  const folder = join(root, 'hidden_states');
  const dataset = join(root, 'dataset.jsonl');
  mkdirSync(folder, { recursive: true });
  const lines = createWriteStream(dataset);
  const table = new RowTableBuilder();
  const paths: string[] = [];
  let group = '';
  for (let row = 0; row < plan.rows; row += 1) {
    const tokens = plan.tokensOf(row);
    const ids = idsOf(row, tokens);
    const mask = new Uint8Array(tokens).fill(1, tokens >> 1);
    table.add(rowIdentity(ids, mask));
    const line = `{"id":"s${row}","input_ids":[${ids.join(',')}],"loss_mask":[${mask.join(',')}]}\n`;
    if (!lines.write(line)) await new Promise<void>((done) => lines.once('drain', () => done()));
    if (!plan.hasFile(row)) continue;
    const from = row - (row % plan.groupSize);
    const name = join(folder, `rows_${from}-${from + plan.groupSize}`);
    if (name !== group) mkdirSync(name, { recursive: true });
    group = name;
    const path = join(group, `data_${row}.pt`);
    await plan.write({ path, stem: `data_${row}`, row, small: idsAndMask(ids, mask) });
    paths.push(path);
  }
  await new Promise<void>((done) => lines.end(done));
  return { folder, dataset, files: paths.length, paths, table: table.build() };
}

/** No two rows have the same; numbers of three digits keep a dataset of true length small. */
function idsOf(row: number, tokens: number): Uint32Array {
  const ids = new Uint32Array(tokens);
  let state = row + 1;
  for (let at = 0; at < tokens; at += 1) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    ids[at] = 100 + ((state >>> 16) % 900);
  }
  ids[0] = 1000 + row;
  return ids;
}

function idsAndMask(ids: Uint32Array, mask: Uint8Array): BenchTensor[] {
  const wide = (values: Uint32Array | Uint8Array): Uint8Array => new Uint8Array(BigInt64Array.from(values, BigInt).buffer);
  return [
    { name: 'input_ids', dtype: 'I64', shape: [ids.length], bytes: wide(ids) },
    { name: 'loss_mask', dtype: 'I64', shape: [ids.length], bytes: wide(mask) },
  ];
}

/** The last state and three auxiliary layers, all zeros: holes in the file. */
function holes(tokens: number, width: number): BenchTensor[] {
  return [
    { name: 'hidden_state', dtype: 'BF16', shape: [1, tokens, width], bytes: 'zeros' },
    { name: 'aux_hidden_state', dtype: 'BF16', shape: [1, tokens, 3 * width], bytes: 'zeros' },
  ];
}

/** The storage-crash scene at its true size: 18,421 files of about 125 MB, 2.3 TB by `ls`, and a gigabyte on the disk. */
export function trueSize(place: string): Promise<Tree> {
  const failed = new Set([4711, 6802, 9120]);
  const frontier = 18_424;
  return writeTree(place, {
    name: 'true-size',
    rows: 37_312,
    groupSize: 2000,
    hasFile: (row) => row < frontier && !failed.has(row),
    // Rows that have no file yet need no length.
    tokensOf: (row) => (row < frontier ? 2100 + (row % 160) : 16),
    write: ({ path, stem, row, small }) => {
      writeTorchFile(path, stem, [...small, ...holes(2100 + (row % 160), 7168)]);
    },
  });
}

export interface ManyTree extends Tree {
  readonly table: RowTable;
  readonly written: readonly WrittenSample[];
}

/** `rows` samples of two tokens, each in one page of the disk. */
export async function manySamples(place: string, rows: number): Promise<ManyTree> {
  const written: WrittenSample[] = [];
  const made = await writeTree(place, {
    name: `samples-${rows}`,
    rows,
    groupSize: 2000,
    hasFile: () => true,
    tokensOf: () => 2,
    write: ({ path, stem, small }) => {
      written.push(writeTorchFile(path, stem, [...small, ...holes(2, 4)]));
    },
  });
  return { ...made, written };
}

/** `files` files of about `bytes` each, every byte of them written: 32 KiB a token. */
export async function fullFiles(place: string, name: string, files: number, bytes: number | readonly number[]): Promise<Tree> {
  const width = 4096;
  const tokensOf = (row: number): number => Math.round((typeof bytes === 'number' ? bytes : (bytes[row] ?? 0)) / (8 * width));
  const block = someStates();
  function* pieces(length: number): Generator<Uint8Array> {
    for (let at = 0; at < length; at += block.length) yield block.subarray(0, Math.min(block.length, length - at));
  }
  return writeTree(place, {
    name,
    rows: files,
    groupSize: 2000,
    hasFile: () => true,
    tokensOf,
    async write({ path, stem, row, small }) {
      const tensors = [...small, ...holes(tokensOf(row), width)].map(({ name: tensor, dtype, shape, bytes: held }): TensorSource => {
        const length = elementCount(shape) * DTYPE_BYTES[dtype];
        return { name: tensor, dtype, shape, pieces: () => (held === 'zeros' ? pieces(length) : [held]) };
      });
      const file = openSync(path, 'w');
      for await (const piece of writeTorchZip(tensors, { stem })) writeSync(file, piece);
      fsyncSync(file);
      closeSync(file);
    },
  });
}

/** Finite numbers of every size, so that nothing on the way can make them smaller. */
function someStates(): Uint8Array {
  const block = new Uint16Array(4 * 1024 * 1024);
  let state = 7;
  for (let at = 0; at < block.length; at += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    block[at] = 0x3c00 | ((state >>> 16) & 0x83ff);
  }
  return new Uint8Array(block.buffer);
}
