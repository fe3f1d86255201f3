import { writeFile } from 'node:fs/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { assessAt, exitOf } from '../../src/app/assessment.ts';
import { createHost } from '../../src/app/host.ts';
import { nextCommand } from '../../src/core/next-command.ts';
import type { Report } from '../../src/core/report.ts';
import { MODEL } from '../support/processes.ts';
import { emptyTree, type HandTensor, handSource, putSample, type Tree } from '../support/scenes/tree.ts';

const H = 8;
const state = (name: string, shape: HandTensor['shape']): HandTensor => ({ name, dtype: 'BF16', shape });
const EAGLE3: readonly HandTensor[] = [
  { name: 'input_ids', dtype: 'I64', shape: (n) => [n] },
  { name: 'loss_mask', dtype: 'I64', shape: (n) => [n] },
  state('hidden_state', (n) => [1, n, H]),
  state('aux_hidden_state', (n) => [1, n, 3 * H]),
];
const ROWS = 12;
const FILES = [0, 1, 2, 3, 4, 6, 7];

const host = createHost();
let tree: Tree | null = null;

/** Files of some rows, whose dataset holds conversations. */
async function chatTree(pathOf: (row: number) => string): Promise<Tree> {
  tree = await emptyTree(ROWS);
  for (const row of FILES)
    await putSample(
      tree,
      pathOf(row),
      EAGLE3.map((tensor) => handSource(tensor, row)),
    );
  const chat = (row: number) => ({
    messages: [
      { role: 'user', content: `${row}?` },
      { role: 'assistant', content: 'yes' },
    ],
  });
  await writeFile(tree.dataset, Array.from({ length: ROWS }, (_, row) => `${JSON.stringify(chat(row))}\n`).join(''));
  return tree;
}

afterEach(async () => {
  await tree?.remove();
  tree = null;
});

const byRow = (row: number): string => `rows_0-20/data_${row}.ckpt`;
const assess = (made: Tree, options: { level?: 'names' | 'identity'; model?: string; layout?: string } = {}): Promise<Report> =>
  assessAt(host, made.folder, {
    dataset: made.dataset,
    model: options.model ?? null,
    layout: options.layout ?? null,
    level: options.level ?? 'identity',
    cache: 'off',
    cwd: '/',
  });

describe('a dataset of conversations without the tokenizer that they need', () => {
  it('has its rows counted: what is there and what is missing is told by names, and a person must say more', async () => {
    const made = await chatTree(byRow);
    const report = await assess(made);
    expect(report).toMatchObject({
      level: 'structure',
      dataset: { path: made.dataset, rows: ROWS, identity: null },
      totals: { rows: ROWS, files: FILES.length, sound: FILES.length, missing: ROWS - FILES.length },
    });
    expect(report.missing['never-started']).toBe(4);
    expect(exitOf(report)).toBe(4);
    const found = report.findings.find(({ code }) => code === 'TM-D01');
    expect(found?.evidence).toContain(`${ROWS} rows counted`);
    expect(found?.evidence).toContain('is a conversation without input_ids, and there is no tokenizer');
    expect(nextCommand(report)).toEqual(['tidemark', 'assess', made.folder, '--model', 'MODEL-FOLDER', '--dataset', made.dataset]);
    expect((await assess(made, { level: 'names' })).level).toBe('names');
  });

  it('is refused all the same when it is damaged', async () => {
    const made = await chatTree(byRow);
    await writeFile(made.dataset, Buffer.from([0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9]));
    await expect(assess(made)).rejects.toMatchObject({ code: 'dataset' });
  });
});

it('prints commands that say all that it was told itself', async () => {
  const made = await chatTree((row) => `part-${row % 3}/${row}.pt`);
  const report = await assess(made, { model: MODEL, layout: 'part-{dir}/{index}.pt' });
  const told = ['--dataset', made.dataset, '--model', MODEL, '--layout', 'part-{dir}/{index}.pt'];
  expect(report.told).toEqual(told);
  expect(nextCommand(report).slice(-told.length - 1)).toContain('--model');
  const commands = report.findings
    .flatMap(({ remedy }) => remedy?.commands ?? [])
    .filter(([, verb]) => verb === 'assess' || verb === 'verify' || verb === 'adopt');
  expect(commands.length).toBeGreaterThan(0);
  for (const command of commands) for (const flag of ['--model', '--layout', '--dataset']) expect(command).toContain(flag);
});
