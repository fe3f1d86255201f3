import { mkdir, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { assessTree, emptyTree, type HandTensor, handSource, putSample, type Tree } from '../support/scenes/tree.ts';

const H = 8;
const I64 = 'I64' as const;
const BF16 = 'BF16' as const;
const ids: HandTensor = { name: 'input_ids', dtype: I64, shape: (n) => [n] };
const mask: HandTensor = { name: 'loss_mask', dtype: I64, shape: (n) => [n] };
const state = (name: string, shape: HandTensor['shape']): HandTensor => ({ name, dtype: BF16, shape });
const batched = (tensor: HandTensor): HandTensor => ({ ...tensor, shape: (n) => [1, n] });

const EAGLE3 = [ids, mask, state('hidden_state', (n) => [1, n, H]), state('aux_hidden_state', (n) => [1, n, 3 * H])];
const DFLASH = [ids, mask, state('hidden_states', (n) => [1, n, 5 * H])];
const DSPARK = [...DFLASH, state('target_last_hidden_states', (n) => [1, n, H])];
const ANGELSLIM = [batched(ids), batched(mask), state('hidden_states', (n) => [1, n, 3 * H]), state('target_hiddens', (n) => [1, n, H])];
const SPECULATORS = [{ name: 'token_ids', dtype: I64, shape: (n: number) => [n] }, state('hidden_states', (n) => [n, 4, H])];
const V0 = [ids, mask, state('hidden_state', (n) => [n, 3 * H])];
const MODELOPT = [ids, state('hidden_states', (n) => [n, H]), state('aux_hidden_states', (n) => [n, 3 * H])];
const EAGLE = [ids, { ...mask, dtype: 'BOOL' as const }, state('hidden_state', (n) => [n, H])];

const ROWS = 40;
let tree: Tree | null = null;

async function treeOf(tensors: readonly HandTensor[], pathOf: (row: number) => string, rows = [...Array(ROWS).keys()]): Promise<Tree> {
  tree = await emptyTree(ROWS);
  for (const row of rows)
    await putSample(
      tree,
      pathOf(row),
      tensors.map((tensor) => handSource(tensor, row)),
    );
  return tree;
}

afterEach(async () => {
  await tree?.remove();
  tree = null;
});

const group = (row: number, size: number): string => {
  const from = Math.floor(row / size) * size;
  return `rows_${from}-${from + size}`;
};
const KNOWN: readonly { name: string; tensors: readonly HandTensor[]; pathOf: (row: number) => string; by: string; groupSize: number }[] = [
  { name: 'specforge', tensors: EAGLE3, pathOf: (row) => `${group(row, 7)}/data_${row}.pt`, by: 'name', groupSize: 7 },
  { name: 'specforge-dflash', tensors: DFLASH, pathOf: (row) => `${group(row, 16)}/data_${row}.ckpt`, by: 'name', groupSize: 16 },
  { name: 'specforge-dspark', tensors: DSPARK, pathOf: (row) => `${group(row, 16)}/data_${row}.ckpt`, by: 'name', groupSize: 16 },
  {
    name: 'angelslim',
    tensors: ANGELSLIM,
    pathOf: (row) => `rank_${row % 2}/${group(Math.floor(row / 2), 5)}/data_${Math.floor(row / 2)}.ckpt`,
    by: 'content',
    groupSize: 0,
  },
  { name: 'speculators', tensors: SPECULATORS, pathOf: (row) => `hs_${row}.safetensors`, by: 'name', groupSize: 0 },
  { name: 'speculators-v0', tensors: V0, pathOf: (row) => `data_${row}.pt`, by: 'name', groupSize: 0 },
  { name: 'speculators-v0', tensors: V0, pathOf: (row) => `${row}.pt`, by: 'name', groupSize: 0 },
  { name: 'modelopt', tensors: MODELOPT, pathOf: (row) => `${(row * 7919).toString(16)}-c.pt`, by: 'content', groupSize: 0 },
  { name: 'modelopt', tensors: MODELOPT, pathOf: (row) => `${1000 - row}.pt`, by: 'content', groupSize: 0 },
  {
    name: 'eagle',
    tensors: EAGLE,
    pathOf: (row) => `sharegpt_0_40_mufp16/${Math.floor(row / 20)}/data_${row % 20}.ckpt`,
    by: 'content',
    groupSize: 0,
  },
  { name: 'vllm-connector', tensors: SPECULATORS, pathOf: (row) => `cmpl-${row * 31}-0.safetensors`, by: 'content', groupSize: 0 },
];

describe('a tree of another tool', () => {
  for (const { name, tensors, pathOf, by, groupSize } of KNOWN) {
    it(`is told by looking: ${name}, ${pathOf(23)}`, async () => {
      const made = await treeOf(
        tensors,
        pathOf,
        [...Array(ROWS).keys()].filter((row) => row !== 11 && row < 36),
      );
      const { report, layout, placed } = await assessTree(made, 'content');
      expect(layout).toMatchObject({ name, groupSize });
      expect(placed.by).toBe(by);
      expect(report.totals).toMatchObject({ rows: ROWS, files: 35, sound: 35, missing: 5 });
      expect(report.verdicts.find((entry) => entry.verdict === 'missing' && entry.reason !== 'never-started')?.ranges).toEqual([[11, 12]]);
      expect(report.extras).toEqual([]);
    });
  }

  it('gives torn files of a rank the row that its neighbours leave for them', async () => {
    const made = await treeOf(ANGELSLIM, (row) => `rank_${row % 2}/rows_0-5000/data_${Math.floor(row / 2)}.ckpt`);
    await truncate(join(made.folder, 'rank_1/rows_0-5000/data_7.ckpt'), 900);
    await truncate(join(made.folder, 'rank_0/rows_0-5000/data_19.ckpt'), 0);
    const { report, placed } = await assessTree(made, 'identity');
    expect(placed).toMatchObject({ told: 38, inferred: 2, homeless: [] });
    expect(report.verdicts.filter((entry) => entry.verdict === 'torn').flatMap((entry) => entry.ranges)).toEqual(
      expect.arrayContaining([
        [15, 16],
        [38, 39],
      ]),
    );
  });

  it('lists a torn file whose name tells nothing, and the second file of a row', async () => {
    const made = await treeOf(MODELOPT, (row) => `conv-${row}.pt`);
    await truncate(join(made.folder, 'conv-5.pt'), 700);
    await putSample(
      made,
      'again.pt',
      MODELOPT.map((tensor) => handSource(tensor, 9)),
    );
    const { report, placed } = await assessTree(made, 'identity');
    expect(placed).toMatchObject({ files: 41, told: 39, copies: ['conv-9.pt'], homeless: ['conv-5.pt'] });
    expect(report.totals).toMatchObject({ sound: 39, missing: 1 });
    expect(report.extras.map(({ path, kind }) => ({ path, kind }))).toEqual([
      { path: 'conv-5.pt', kind: 'off-pattern' },
      { path: 'conv-9.pt', kind: 'duplicate' },
    ]);
  });

  it('takes files without a dataset in the order of their paths, and says so', async () => {
    const made = await treeOf(MODELOPT, (row) => `conv-${row}.pt`, [3, 1, 2]);
    const { report, placed } = await assessTree(made, 'identity', { withDataset: false });
    expect(placed.by).toBe('order');
    expect(report.totals).toMatchObject({ rows: 3, files: 3 });
    expect(report.layout.pattern).toContain('in the order of the paths');
  });
});

describe('folders and patterns', () => {
  it('reads folders that are no multiples of one size, and a shorter last one', async () => {
    const odd = (row: number): string => (row < 9 ? 'rows_0-9' : row < 25 ? 'rows_9-25' : 'rows_25-40');
    const made = await treeOf(EAGLE3, (row) => `${odd(row)}/data_${row}.ckpt`);
    expect((await assessTree(made, 'identity')).report.totals).toMatchObject({ sound: 40, missing: 0 });
    await made.remove();
    const last = (row: number): string => (row < 30 ? group(row, 15) : 'rows_30-40');
    const short = await treeOf(EAGLE3, (row) => `${last(row)}/data_${row}.ckpt`);
    const { report } = await assessTree(short, 'identity');
    expect(report.totals).toMatchObject({ sound: 40, missing: 0 });
    expect(report.layout.groupSize).toBe(15);
  });

  it('finds the files of a sparse tree whose first folders are empty', async () => {
    const made = await treeOf(EAGLE3, (row) => `${group(row, 1)}/data_${row}.pt`, [37]);
    for (let row = 0; row < 37; row += 1) await mkdir(join(made.folder, group(row, 1)));
    const { report } = await assessTree(made, 'identity');
    expect(report.totals).toMatchObject({ files: 1, sound: 1 });
  });

  it('reads a pattern of the user\u2019s own', async () => {
    const made = await treeOf(EAGLE3, (row) => `part-${row % 3}/${String(row).padStart(6, '0')}.pt`);
    const { report, placed } = await assessTree(made, 'identity', { layout: 'part-{dir}/{index:06d}.pt' });
    expect(placed.by).toBe('name');
    expect(report.totals).toMatchObject({ sound: 40, missing: 0 });
    expect(report.layout).toMatchObject({ name: 'specforge', pattern: 'part-{dir}/{index:06d}.pt' });
  });

  it('goes by content where the numbers begin anew in every folder', async () => {
    const made = await treeOf(EAGLE3, (row) => `part-${row % 4}/${String(Math.floor(row / 4)).padStart(6, '0')}.pt`);
    const { report, placed } = await assessTree(made, 'identity', { layout: 'part-{dir}/{index:06d}.pt' });
    expect(placed.by).toBe('content');
    expect(report.totals).toMatchObject({ sound: 40, missing: 0 });
  });

  it('obeys a layout by name, and asks where there are two', async () => {
    const made = await treeOf(EAGLE3, (row) => `${group(row, 20)}/data_${row}.${row % 2 === 0 ? 'pt' : 'ckpt'}`);
    await expect(assessTree(made, 'identity')).rejects.toMatchObject({
      code: 'decision-needed',
      hint: expect.stringContaining('--layout'),
    });
    const { report } = await assessTree(made, 'identity', { layout: 'rows_{from}-{to}/data_{index}.pt' });
    expect(report.totals).toMatchObject({ sound: 20 });
    await expect(assessTree(made, 'identity', { layout: 'speculators' })).rejects.toMatchObject({ code: 'no-run' });
  });

  it('asks when two sizes of folders claim the same rows', async () => {
    const made = await treeOf(EAGLE3, (row) => `${row < 20 ? group(row, 10) : group(row, 40)}/data_${row}.ckpt`);
    await expect(assessTree(made, 'identity')).rejects.toMatchObject({ code: 'decision-needed' });
  });

  it('asks when the files have two forms', async () => {
    const made = await treeOf(EAGLE3, (row) => `data_${row}.ckpt`, [...Array(20).keys()]);
    for (let row = 20; row < 40; row += 1)
      await putSample(
        made,
        `data_${row}.ckpt`,
        DSPARK.map((tensor) => handSource(tensor, row)),
      );
    await expect(assessTree(made, 'identity')).rejects.toMatchObject({
      code: 'decision-needed',
      message: expect.stringContaining('specforge-dspark'),
    });
  });

  it('names the tensors that no layout has', async () => {
    const made = await treeOf([ids, state('something', (n) => [n, H])], (row) => `data_${row}.pt`);
    await expect(assessTree(made, 'identity')).rejects.toMatchObject({ code: 'no-run', message: expect.stringContaining('something') });
  });

  it('takes a tree of which no file can be read by its names', async () => {
    const made = await treeOf([], (row) => `${row}`, []);
    await mkdir(join(made.folder, 'rows_0-20'));
    for (let row = 0; row < 20; row += 1) await writeFile(join(made.folder, `rows_0-20/data_${row}.ckpt`), Buffer.alloc(row * 10));
    const { report } = await assessTree(made, 'structure');
    expect(report.layout).toMatchObject({ name: 'specforge', groupSize: 20 });
    expect(report.totals.torn).toBe(20);
  });

  it('says legacy of files from before torch 1.6', async () => {
    const made = await treeOf(EAGLE3, (row) => `rows_0-40/data_${row}.pt`);
    const legacy = Buffer.concat([Buffer.from([0x80, 0x02, 0x8a, 0x0a]), Buffer.alloc(600, 7)]);
    await writeFile(join(made.folder, 'rows_0-40/data_3.pt'), legacy);
    await rm(join(made.folder, 'rows_0-40/data_4.pt'));
    await rename(join(made.folder, 'rows_0-40/data_5.pt'), join(made.folder, 'rows_0-40/data_4.pt'));
    const { report } = await assessTree(made, 'identity');
    expect(report.totals).toMatchObject({ sound: 37, unreadable: 1, drifted: 1, missing: 1 });
    expect(JSON.stringify(report.findings)).toContain('before torch 1.6');
  });
});
