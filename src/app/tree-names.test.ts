import { describe, expect, it } from 'vitest';
import { parsePattern } from '../store/pattern.ts';
import { type Names, namesFor } from './tree-names.ts';

interface Tree {
  readonly pattern: string;
  readonly rows: number;
  readonly pathOf: (row: number) => string;
  /** Rows without a file. */
  readonly lacking: readonly number[];
  readonly copies?: readonly string[];
  readonly counts?: boolean;
  /** How a number alone gives its path. */
  readonly pathOfNumber?: (number: number) => string;
  readonly idOf?: (row: number) => string | null;
}

function namesOf(tree: Tree): Promise<Names> {
  const paths = new Map<number, string>();
  for (let row = 0; row < tree.rows; row += 1) if (!tree.lacking.includes(row)) paths.set(row, tree.pathOf(row));
  return namesFor(
    {
      pattern: parsePattern(tree.pattern),
      rows: tree.rows,
      paths,
      copies: tree.copies ?? [],
      pathOfNumber: tree.pathOfNumber ?? null,
      counts: tree.counts ?? false,
      idOf: async (row) => tree.idOf?.(row) ?? null,
    },
    tree.lacking,
  );
}

/** The names that come are those that the tool itself would have given. */
async function expectOwnNames(tree: Tree, words: RegExp): Promise<void> {
  const names = await namesOf(tree);
  expect(names).toMatchObject({ ok: true, rule: expect.stringMatching(words) });
  if (names.ok) expect([...names.paths]).toEqual(tree.lacking.map((row) => [row, tree.pathOf(row)]));
}

async function expectRefusal(tree: Tree, why: string): Promise<void> {
  expect(await namesOf(tree)).toMatchObject({ ok: false, why: expect.stringContaining(why) });
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);

/** SpecForge: rank r has rows r, r + W, … and numbers them from its start on. */
function specForge(rows: number, ranks: number): (row: number) => string {
  return (row) => {
    const rank = row % ranks;
    const number = rank * Math.floor(rows / ranks) + Math.min(rank, rows % ranks) + Math.floor(row / ranks);
    return `rows_${Math.floor(number / 100) * 100}-${(Math.floor(number / 100) + 1) * 100}/data_${number}.ckpt`;
  };
}
const byNumber = (number: number): string => specForge(1, 1)(number);

describe('rows that were dealt to ranks in one numbering', () => {
  const base = { pattern: 'rows_{from}-{to}/data_{index}.ckpt', pathOfNumber: byNumber };

  it.each([
    [236, 4, 'tails that a batch drops', range(224, 236)],
    [237, 8, 'a hole, and shares of two sizes', [17, 236]],
    [500, 3, 'nearly everything', range(60, 500)],
  ] as const)('%i rows on %i ranks: %s', async (rows, ranks, _, lacking) => {
    await expectOwnNames({ ...base, rows, pathOf: specForge(rows, ranks), lacking }, /dealt in turn to/);
  });

  it('has a place for a rank that never began, as the others began', async () => {
    const lacking = range(0, 200).filter((row) => row % 4 === 2);
    await expectOwnNames({ ...base, rows: 200, pathOf: specForge(200, 4), lacking }, /4 ranks/);
  });

  it('refuses a name that a second file of another row has', async () => {
    const pathOf = specForge(200, 4);
    await expectRefusal(
      { ...base, rows: 200, pathOf, lacking: [8], copies: [pathOf(8)] },
      'gives row 8 the name rows_0-100/data_2.ckpt, which is a second file',
    );
  });

  it('has no rule where rows were shuffled', async () => {
    const pathOf = (row: number): string => byNumber((row * 37 + 11) % 200);
    await expectRefusal({ ...base, rows: 200, pathOf, lacking: [8] }, 'no rule was found');
  });
});

describe('numbers inside folders and ranks', () => {
  it('in turn, also for a rank that never began', async () => {
    const pathOf = (row: number): string => {
      const number = Math.floor(row / 4);
      return `rank_${row % 4}/rows_${Math.floor(number / 10) * 10}-${Math.floor(number / 10) * 10 + 10}/data_${number}.ckpt`;
    };
    const base = { pattern: 'rank_{rank}/rows_{from}-{to}/data_{index}.ckpt', rows: 120, pathOf };
    await expectOwnNames({ ...base, lacking: [7, 118, 119] }, /4 writers/);
    await expectOwnNames({ ...base, lacking: range(0, 120).filter((row) => row % 4 === 3) }, /4 writers/);
  });

  it('by stretches, and not beyond the last one that is there', async () => {
    const pathOf = (row: number): string => `out/${Math.floor(row / 30)}/data_${row % 30}.ckpt`;
    const base = { pattern: '{dir}/{rank}/data_{index}.ckpt', rows: 120, pathOf };
    await expectOwnNames({ ...base, lacking: [29, 45, 119] }, /4 writers has one stretch/);
    await expectRefusal({ ...base, lacking: range(90, 120) }, 'does not say where row 90 belongs');
  });

  it("the next number where a writer counts its files, as EAGLE's does", async () => {
    // Row 3 failed, so all behind it have a smaller number.
    const pathOf = (row: number): string => `a/0/data_${row < 3 ? row : row - 1}.ckpt`;
    const tree: Tree = { pattern: '{dir}/{rank}/data_{index}.ckpt', rows: 10, pathOf, lacking: [3], counts: true };
    expect(await namesOf(tree)).toMatchObject({ ok: true, paths: new Map([[3, 'a/0/data_9.ckpt']]) });
    await expectRefusal({ ...tree, counts: false }, 'no rule was found that holds for every file');
  });
});

describe('row numbers in folders', () => {
  const pad = (row: number): string => String(row).padStart(6, '0');
  const base = { pattern: 'part-{dir}/{index:06d}.pt', rows: 90 };

  it('in turn, by stretches, or all in one', async () => {
    await expectOwnNames({ ...base, pathOf: (row) => `part-${row % 3}/${pad(row)}.pt`, lacking: [4, 89] }, /in turn to 3 folders/);
    await expectOwnNames({ ...base, pathOf: (row) => `part-0${Math.floor(row / 20)}/${pad(row)}.pt`, lacking: [4, 33, 89] }, /one stretch/);
    await expectOwnNames({ ...base, pathOf: (row) => `part-all/${pad(row)}.pt`, lacking: [4] }, /all files lie below "all"/);
  });

  it('says when a stretch may end before the row or behind it', async () => {
    const pathOf = (row: number): string => `part-${Math.floor(row / 20)}/${pad(row)}.pt`;
    await expectRefusal(
      { ...base, pathOf, lacking: [17, 18, 19, 37, 38, 39, 40, 57, 58, 59, 60, ...range(76, 81)] },
      'which folder a row belongs to cannot be told',
    );
    await expectRefusal(
      { ...base, pathOf: (row) => `part-${row % 2 === 0 ? 'x' : 'y'}/${pad(row)}.pt`, lacking: [1] },
      'names that are no numbers',
    );
  });
});

describe('names by id', () => {
  const base = { pattern: '{id}.pt', rows: 20, pathOf: (row: number) => `c${row}.pt` };

  it('are taken from the rows', async () => {
    await expectOwnNames({ ...base, lacking: [3, 19], idOf: (row) => `c${row}` }, /the row's own id/);
  });

  it('are refused where rows have none, another, the same, or none that is a file name', async () => {
    await expectRefusal({ ...base, lacking: [3] }, 'row 0 of the dataset has none');
    await expectRefusal({ ...base, lacking: [3], idOf: (row) => `d${row}` }, 'row 0 is "d0", its file "c0"');
    await expectRefusal({ ...base, lacking: [3, 4], idOf: (row) => (row === 3 ? null : `c${row}`) }, 'row 3 of the dataset has none');
    await expectRefusal({ ...base, lacking: [3], idOf: (row) => (row === 3 ? 'c7' : `c${row}`) }, 'which is the file of row 7');
    await expectRefusal({ ...base, lacking: [3], idOf: (row) => (row === 3 ? '../x' : `c${row}`) }, 'is no file name');
  });

  it('are not asked for where no row lacks its file', async () => {
    await expectOwnNames({ ...base, lacking: [] }, /no new name is needed/);
  });
});
