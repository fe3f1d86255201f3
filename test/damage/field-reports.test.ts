import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Report } from '../../src/core/report.ts';
import type { TensorSource } from '../../src/format/tensors.ts';
import { assessTree, emptyTree, type HandTensor, handSource, putSample, type Tree } from '../support/scenes/tree.ts';
import { verdictsByRow } from './scene.ts';

// Cases of public reports (docs/field-reports.md) about files that a survey reads; each is planted as the report tells it.
const WIDTH = 256;
const IDS: HandTensor = { name: 'input_ids', dtype: 'I64', shape: (tokens) => [tokens] };
const MASK: HandTensor = { name: 'loss_mask', dtype: 'I64', shape: (tokens) => [tokens] };
const LAST: HandTensor = { name: 'hidden_state', dtype: 'BF16', shape: (tokens) => [1, tokens, WIDTH] };
const AUXILIARY: HandTensor = { name: 'aux_hidden_state', dtype: 'BF16', shape: (tokens) => [1, tokens, 3 * WIDTH] };
const FORM = [IDS, MASK, LAST, AUXILIARY];

let tree: Tree;
beforeEach(async () => {
  tree = await emptyTree(40);
});
afterEach(() => tree.remove());

const pathOf = (row: number): string => `rows_0-2000/data_${row}.ckpt`;
const fileOf = (row: number): string => join(tree.folder, pathOf(row));

/** Every row from `from` on has a good file: enough of them that the form is known. */
async function goodFrom(from: number): Promise<void> {
  for (let row = from; row < 40; row += 1) await plant(row, (sources) => sources);
}

async function plant(row: number, change: (sources: readonly TensorSource[]) => readonly TensorSource[], holds = row): Promise<void> {
  await putSample(tree, pathOf(row), change(FORM.map((tensor) => handSource(tensor, holds))));
}

function changedBytes(row: number, change: (bytes: Buffer) => Uint8Array): void {
  writeFileSync(fileOf(row), change(readFileSync(fileOf(row))));
}

/** The last state with other values, so that the file's own sums are right. */
function withStates(sources: readonly TensorSource[], change: (values: Uint16Array) => void): readonly TensorSource[] {
  return sources.map((source) => {
    if (source.name !== 'hidden_state') return source;
    const values = new Uint16Array(source.shape.reduce((product, length) => product * length, 1)).fill(0x3f80);
    change(values);
    return { ...source, pieces: () => [new Uint8Array(values.buffer)] };
  });
}

const evidence = (report: Report, code: string): string => report.findings.find((finding) => finding.code === code)?.evidence ?? '';

describe('a run that a full disk ended [P31]', () => {
  it('gives twelve kinds of file twelve right verdicts, whose sum is all of them', async () => {
    await goodFrom(0);
    writeFileSync(fileOf(0), '');
    changedBytes(1, (bytes) => bytes.subarray(0, bytes.length >> 1));
    changedBytes(2, (bytes) => bytes.subarray(0, bytes.length - 1));
    changedBytes(3, (bytes) => Buffer.alloc(bytes.length));
    changedBytes(4, (bytes) => bytes.fill(0, 8192, 12_288));
    changedBytes(5, (bytes) => {
      bytes[6000] = (bytes[6000] ?? 0) ^ 1;
      return bytes;
    });
    changedBytes(6, (bytes) => Buffer.concat([bytes, Buffer.alloc(4096, 7)]));
    await plant(7, (sources) => sources.map((source) => (source.name === 'hidden_state' ? { ...source, name: 'hidden_states' } : source)));
    await plant(8, (sources) => sources.map((source) => (source.name === 'hidden_state' ? { ...source, dtype: 'F16' as const } : source)));
    await plant(9, (sources) => withStates(sources, (values) => values.fill(0x7fc0, 700, 701)));
    await plant(10, (sources) => sources, 30);
    const { report } = await assessTree(tree, 'content');
    const verdicts = verdictsByRow(report).map(({ verdict, reason }) => `${verdict} ${reason}`);
    expect(verdicts.slice(0, 12)).toEqual([
      'torn empty',
      'torn truncated',
      'torn truncated',
      'torn zero-filled',
      'corrupt checksum',
      'corrupt checksum',
      'torn trailing-bytes',
      'poisoned shape',
      'poisoned shape',
      'poisoned nan',
      'drifted other-row',
      'sound checked',
    ]);
    const { sound, torn, corrupt, poisoned, drifted, rows } = report.totals;
    expect([sound, torn, corrupt, poisoned, drifted, rows]).toEqual([29, 5, 2, 3, 1, 40]);
  });
});

describe('states that were never computed [P08]', () => {
  it('are told from good ones by one zero row among three hundred, with its place, and at the end', async () => {
    const tokens = 300;
    const rows = Array.from({ length: 40 }, (_, row) =>
      Array.from({ length: tokens }, (_id, at) => 1 + ((row * 7919 + at * 104_729) % 50_000)),
    );
    writeFileSync(tree.dataset, rows.map((ids, row) => `${JSON.stringify({ id: `s${row}`, input_ids: ids })}\n`).join(''));
    for (let row = 0; row < 12; row += 1) {
      const long = FORM.map((tensor): TensorSource => {
        const source = handSource({ ...tensor, shape: () => tensor.shape(tokens) }, row);
        if (tensor.dtype !== 'I64') return source;
        const values = tensor.name === 'input_ids' ? (rows[row] ?? []) : new Array<number>(tokens).fill(1);
        return { ...source, pieces: () => [new Uint8Array(BigInt64Array.from(values, BigInt).buffer)] };
      });
      const zeroed = (from: number, to: number) => withStates(long, (values) => values.fill(0, from * WIDTH, to * WIDTH));
      await putSample(
        tree,
        pathOf(row),
        row === 3 ? zeroed(0, tokens) : row === 5 ? zeroed(123, 124) : row === 7 ? zeroed(299, 300) : long,
      );
    }
    const { report } = await assessTree(tree, 'content');
    const verdicts = verdictsByRow(report).map(({ verdict, reason }) => `${verdict} ${reason}`);
    expect([3, 5, 7].map((row) => verdicts[row])).toEqual(['poisoned zero', 'poisoned zero', 'poisoned zero']);
    expect(report.totals).toMatchObject({ sound: 9, poisoned: 3 });
    expect(evidence(report, 'TM-S04')).toContain('token 123');
  });
});

describe('a file of the right size whose content was never stored [P29]', () => {
  it('is told by the place of its hole, also where nothing in it has a checksum', async () => {
    const form: readonly HandTensor[] = [
      { name: 'hidden_states', dtype: 'BF16', shape: (count) => [count, 4, 1024] },
      { name: 'token_ids', dtype: 'I64', shape: (count) => [count] },
    ];
    for (let row = 0; row < 40; row += 1)
      await putSample(
        tree,
        `hs_${row}.safetensors`,
        form.map((tensor) => handSource(tensor, row)),
      );
    const path = join(tree.folder, 'hs_9.safetensors');
    const { length } = readFileSync(path);
    truncateSync(path, 16_384);
    truncateSync(path, length);
    const { report } = await assessTree(tree, 'content');
    expect(verdictsByRow(report)[9]).toEqual({ verdict: 'torn', reason: 'zero-filled' });
    expect(report.totals).toMatchObject({ sound: 39, torn: 1 });
    expect(evidence(report, 'TM-S01')).toContain('16384');
  });
});
