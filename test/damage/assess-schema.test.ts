import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Report } from '../../src/core/report.ts';
import { reportJsonSchema, reportSchema } from '../../src/core/report-schema.ts';
import { FOLDER, idsOf, layout, look, rowsOf, treeOf } from './assess-tree.ts';
import { assessScene, makeScene } from './scene.ts';

const PAGE = new URL('../../docs/report.schema.json', import.meta.url);

/** What a script gets: the document as it was printed, every field of which the schema names. */
function expectFits(report: Report): void {
  expect(Object.keys(report).sort()).toEqual(Object.keys(reportSchema.shape).sort());
  const fits = reportSchema.safeParse(JSON.parse(JSON.stringify(report)));
  expect(fits.success ? [] : fits.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)).toEqual([]);
}

describe('the report\u2019s schema', () => {
  it('is the published one; TIDEMARK_WRITE_SCHEMA=1 writes it anew', () => {
    const schema = JSON.parse(JSON.stringify(reportJsonSchema())) as unknown;
    if (process.env.TIDEMARK_WRITE_SCHEMA === '1') writeFileSync(PAGE, `${JSON.stringify(schema, null, 2)}\n`);
    expect(JSON.parse(readFileSync(PAGE, 'utf8'))).toEqual(schema);
  });

  it.each([
    ['storage-crash', 'ckpt'],
    ['torn-tail', 'pt'],
    ['dataset-drift', 'ckpt'],
    ['mixed-writers', 'ckpt'],
    ['foreign-files', 'ckpt'],
    ['nan', 'pt'],
    ['wrong-shape', 'ckpt'],
  ] as const)('fits %s .%s', async (name, format) => {
    const scene = await makeScene({ scene: name, format, samples: 300, group: 100 });
    try {
      for (const level of ['names', 'identity', 'content'] as const) expectFits(await assessScene(scene, level));
      expectFits(await assessScene(scene, 'identity', { withDataset: false }));
    } finally {
      await scene.remove();
    }
  });

  it('fits a tree whose numbers are no rows, one with cut rows, and one with nothing in it', async () => {
    const dealt = Array.from({ length: 60 }, (_, number) => ({ number, ids: idsOf(Math.floor(number / 20) + 3 * (number % 20)) }));
    expectFits(await look(await treeOf(dealt), { rows: rowsOf(60), rate: 1.09 }));
    const host = await treeOf([]);
    await host.files.makeDirectory(`${FOLDER}/${layout.folderOf(0).path}`);
    expectFits(await look(host, { rows: rowsOf(3) }));
  });

  it('refuses a document that lacks a field or has another word', async () => {
    const report = await look(await treeOf([{ number: 0 }]), { rows: rowsOf(2) });
    const { totals: _, ...short } = report;
    expect(reportSchema.safeParse(short).success).toBe(false);
    expect(reportSchema.safeParse({ ...report, level: 'deep' }).success).toBe(false);
    expect(reportSchema.safeParse({ ...report, more: 1 }).success).toBe(true);
  });
});
