import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { countOf } from '../../src/core/ranges.ts';
import type { Report } from '../../src/core/report.ts';
import { LEVELS, type Level, levelAtLeast } from '../../src/core/verdict.ts';
import { exitOf } from '../../src/recover/planner.ts';
import { assessScene, makeScene, type Scene, snapshot, type TruthRow, verdictsByRow } from './scene.ts';

/** Up to which of our levels damage may go unseen: the scenes' checks in our words. */
const SEEN_FROM: Readonly<Record<string, Level | null>> = {
  size: 'structure',
  structure: 'structure',
  crc: 'checksum',
  content: 'content',
  none: null,
};

/** What may be said of a row at a level; the first is what must be said once the level sees it. */
function allowed(row: TruthRow, level: Level): readonly string[] {
  switch (row.state) {
    case 'ok':
      return ['sound'];
    case 'missing':
      return row.reason === 'after-frontier' ? ['missing never-started'] : ['missing failed', 'missing in-flight'];
    case 'mismatch':
      return levelAtLeast(level, 'identity') ? [`drifted ${row.reason}`] : ['sound'];
    // Headers alone tell; the scenes' own checks see it later.
    case 'wrong-shape':
      return levelAtLeast(level, 'structure') ? ['poisoned shape'] : ['sound'];
    case 'bad-values':
      return level === 'content' ? ['poisoned'] : ['sound', 'poisoned'];
    case 'torn': {
      const from = SEEN_FROM[row.seen_by ?? 'none'] ?? null;
      const damaged = ['torn', 'corrupt'];
      return from !== null && levelAtLeast(level, from) ? damaged : ['sound', ...damaged];
    }
  }
}

function expectTruth(report: Report, scene: Scene, level: Level): void {
  const { truth } = scene;
  const verdicts = verdictsByRow(report);
  const wrong: string[] = [];
  for (const row of truth.index) {
    const { verdict, reason } = verdicts[row.i] ?? { verdict: 'none', reason: 'none' };
    if (!allowed(row, level).some((words) => words === verdict || words === `${verdict} ${reason}`)) {
      wrong.push(`row ${row.i}: ${row.state} ${row.reason ?? ''} (seen by ${row.seen_by ?? '-'}) was called ${verdict} ${reason}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(report.totals.rows).toBe(truth.totals.rows);
  expect(report.totals.files).toBe(truth.totals.files);
  expect(report.totals.bytes).toBe(truth.totals.bytes);
  expect(report.totals.missing).toBe(truth.totals.no_file);
  expect(report.next).toBe(truth.totals.next);
  expect(report.frontiers.map(({ from, to, next }) => ({ from, to, next }))).toEqual(
    truth.run.writers.map(({ from, to, next }) => ({ from, to: Math.min(to, truth.totals.rows), next })),
  );
  const { sound, missing, torn, corrupt, drifted, poisoned, unreadable, rows } = report.totals;
  expect(sound + missing + torn + corrupt + drifted + poisoned + unreadable).toBe(rows);
  expect(Object.values(report.missing).reduce((sum, count) => sum + count, 0)).toBe(missing);
  if (truth.totals.files > 0)
    expect(Math.floor(Date.parse(report.crash?.lastWrite?.value ?? '') / 1000)).toBe(Date.parse(truth.run.last_write) / 1000);
}

const SCENES = [
  { scene: 'storage-crash', format: 'ckpt' },
  { scene: 'torn-tail', format: 'ckpt' },
  { scene: 'torn-tail', format: 'pt', more: ['--torch', '1.13'] },
  { scene: 'torn-tail', format: 'pt', more: ['--crc', 'off'] },
  { scene: 'nan', format: 'pt' },
  { scene: 'wrong-shape', format: 'ckpt' },
  { scene: 'clean', format: 'pt' },
  { scene: 'clean-partial', format: 'ckpt' },
  { scene: 'dataset-drift', format: 'ckpt' },
  { scene: 'mixed-writers', format: 'ckpt' },
  { scene: 'foreign-files', format: 'ckpt' },
] as const;

for (const options of SCENES) {
  const more: readonly string[] = 'more' in options ? options.more : [];
  describe(`${options.scene} .${options.format} ${more.join(' ')}`, () => {
    let scene: Scene;
    beforeAll(async () => {
      scene = await makeScene({ ...options, samples: 1500, group: 400 });
    });
    afterAll(() => scene.remove());

    for (const level of LEVELS) {
      it(`says the truth at level ${level}`, async () => {
        const report = await assessScene(scene, level);
        expect(report.level).toBe(level);
        expectTruth(report, scene, level);
      });
    }

    it('writes nothing, and says the same twice', async () => {
      const before = await snapshot(scene.folder);
      const [one, two] = [await assessScene(scene, 'checksum'), await assessScene(scene, 'checksum')];
      expect(await snapshot(scene.folder)).toEqual(before);
      expect(one.digest).toMatch(/^[0-9a-f]{64}$/);
      expect({ ...one, assessedAt: '', findings: [], space: null }).toEqual({ ...two, assessedAt: '', findings: [], space: null });
    });

    it('ends every finding in a command', async () => {
      const report = await assessScene(scene, 'identity');
      for (const finding of report.findings) expect(finding.remedy?.commands.length, finding.code).toBeGreaterThan(0);
    });
  });
}

describe('the defining crash, at full size', () => {
  it('counts 18,421 sound files and keeps the 3 earlier failures apart from the 18,888 never started', async () => {
    const scene = await makeScene({ scene: 'storage-crash' });
    try {
      const report = await assessScene(scene, 'identity');
      expect(report.totals).toMatchObject({ rows: 37_312, files: 18_421, sound: 18_421, missing: 18_891, torn: 0 });
      expect(report.missing).toEqual({ 'never-started': 18_888, 'in-flight': 0, failed: 3, lost: 0, accepted: 0 });
      expect(report.next).toBe(18_424);
      expect(report.plan.extract.count).toBe(18_891);
      expect(exitOf(report)).toBe(3);
      // Every byte of what the page cache may have held was read at once.
      expect(report.suspect).toEqual([]);
      expect(report.levels).toEqual([{ level: 'content', ranges: expect.any(Array) }]);
      expect(countOf(report.levels[0]?.ranges ?? [])).toBeGreaterThan(64);
      expect(report.findings.find((finding) => finding.code === 'TM-S08')?.ranges).toHaveLength(3);
    } finally {
      await scene.remove();
    }
  });
});

describe('what the default level must find on its own', () => {
  it('reads the tail of a torn run to its last byte', async () => {
    const scene = await makeScene({ scene: 'torn-tail', samples: 1500, group: 400 });
    try {
      const report = await assessScene(scene, 'identity');
      const bad = scene.truth.index.filter((row) => row.state === 'torn').length;
      expect(report.totals.torn + report.totals.corrupt).toBe(bad);
      expect(report.findings.map((finding) => finding.code)).toEqual(expect.arrayContaining(['TM-S01', 'TM-S02']));
      expect(countOf(report.plan.steps.find((step) => step.what === 'set-aside')?.ranges ?? [])).toBe(bad);
    } finally {
      await scene.remove();
    }
  });

  it('says where a shifted dataset starts, by how much, and which row each file holds', async () => {
    const scene = await makeScene({ scene: 'dataset-drift', samples: 1500, group: 400 });
    try {
      const report = await assessScene(scene, 'identity');
      const drifted = report.verdicts.find((group) => group.verdict === 'drifted') as unknown as { holds: [number, number, number][] };
      const holds = new Map<number, number>();
      for (const [from, to, first] of drifted.holds) for (let row = from; row < to; row += 1) holds.set(row, first + row - from);
      for (const row of scene.truth.index) {
        if (row.state === 'mismatch' && row.holds_row != null) expect(holds.get(row.i)).toBe(row.holds_row);
      }
      expect(report.plan.blockers).toContain('TM-S03');
      expect(exitOf(report)).toBe(4);
    } finally {
      await scene.remove();
    }
  });

  it.each([{ samples: 1500, group: 400 }, { samples: 300 }])('lists what is no row\u2019s file, by kind (%o)', async (size) => {
    const scene = await makeScene({ scene: 'foreign-files', ...size });
    try {
      const report = await assessScene(scene, 'identity');
      const second = scene.truth.index.flatMap((row) => (row.also ?? []).map(({ path }) => ({ path, kind: 'duplicate' })));
      const wanted = [...scene.truth.extras.map(({ path, kind }) => ({ path, kind })), ...second];
      const byPath = (a: { path: string }, b: { path: string }): number => (a.path < b.path ? -1 : 1);
      expect(report.extras.map(({ path, kind }) => ({ path, kind })).sort(byPath)).toEqual(wanted.sort(byPath));
    } finally {
      await scene.remove();
    }
  });

  it('is never complete without a dataset', async () => {
    const scene = await makeScene({ scene: 'clean', samples: 400, group: 200 });
    try {
      const report = await assessScene(scene, 'identity', { withDataset: false });
      expect(report.dataset).toBeNull();
      expect(report.totals).toMatchObject({ rows: 400, sound: 400 });
      expect(report.verdicts).toEqual([{ verdict: 'sound', reason: 'unprovable', ranges: [[0, 400]], count: 400 }]);
      expect(exitOf(report)).toBe(4);
    } finally {
      await scene.remove();
    }
  });

  it('is complete when every row is sound', async () => {
    const scene = await makeScene({ scene: 'clean', samples: 400, group: 200 });
    try {
      expect(exitOf(await assessScene(scene, 'identity'))).toBe(0);
    } finally {
      await scene.remove();
    }
  });
});
