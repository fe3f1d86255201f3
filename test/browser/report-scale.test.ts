import { appendFile, mkdir, mkdtemp, open as openFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { shellLine } from '../../src/core/shell-line.ts';
import { makeScene } from '../damage/scene.ts';
import { argumentsOf } from './arguments-of.ts';
import { cellsOf, expectCells, expectQuiet, makePage, openPage, startBrowser, wordsOf } from './open-page.ts';

// Trees of another form or size: one folder, a million rows, names that are attacks, a writer at work.

let browser: Browser;
let place: string;

beforeAll(async () => {
  browser = await startBrowser();
  place = await mkdtemp(join(tmpdir(), 'tidemark-page-'));
});

afterAll(async () => {
  await browser.close();
  await rm(place, { recursive: true });
});

it('shows a folder without shards in equal parts of its rows', async () => {
  const scene = await makeScene({ scene: 'torn-tail', samples: 1500, more: ['--format', 'safetensors'] });
  try {
    const made = await makePage(join(place, 'flat.html'), [scene.folder, '--dataset', scene.dataset]);
    expect(made.report.layout.groupSize).toBe(0);
    const open = await openPage(browser, made.path);
    const cells = await cellsOf(open.page);
    expect(cells).toHaveLength(30);
    expectCells(cells, open.inside);
    expect(cells[0]?.name.replaceAll('\u00a0', ' ')).toBe('rows 0 to 49: 50 sound');
    expect(cells.every((cell) => cell.target === null)).toBe(true);
    expect(await wordsOf(open.page.getByRole('region', { name: 'Map' }))).toContain('Rows, 50 rows a cell');
    const facts = await wordsOf(open.page.getByRole('region', { name: 'Where the numbers come from', exact: true }));
    expect(facts).toContain('speculators: hs_{index}.safetensors, all rows in one folder, safetensors');
    expectQuiet(open, made.path);
    await open.close();
  } finally {
    await scene.remove();
  }
});

describe('a million rows', () => {
  it('are 500 cells in less than a megabyte, and still a page that can be used', async () => {
    const scene = await makeScene({ scene: 'clean', samples: 4000 });
    try {
      for (let from = 4000; from < 1_000_000; from += 16_600) {
        const rows = Array.from({ length: 16_600 }, (_, at) => `{"input_ids":[1,${((from + at) % 150_000) + 2},7],"loss_mask":[0,1,1]}\n`);
        await appendFile(scene.dataset, rows.join(''));
      }
      const made = await makePage(join(place, 'million.html'), [scene.folder, '--dataset', scene.dataset]);
      expect(made.report.totals).toMatchObject({ rows: 1_000_000, sound: 4000 });
      expect(made.bytes).toBeLessThan(1_000_000);
      const open = await openPage(browser, made.path, { viewport: { width: 1100, height: 900 } });
      const cells = await cellsOf(open.page);
      expect(cells).toHaveLength(500);
      expectCells(cells, open.inside);
      // What a browser must hold for it: bounded by cells and lines of tables, not by rows.
      expect(await open.page.evaluate<number>("document.querySelectorAll('*').length")).toBeLessThan(12_000);
      await open.page.locator('.map a').nth(499).click();
      expect(await wordsOf(open.page.locator('tr:target'))).toContain('998000-999999');
      expectQuiet(open, made.path);
      await open.page.setViewportSize({ width: 320, height: 700 });
      expect(await open.page.evaluate('look.overflowing(320)')).toEqual({ scrolls: 0, wide: [] });
      await open.close();
    } finally {
      await scene.remove();
    }
  });
});

it('shows hostile names as text, and gives them back to a shell as they are', async () => {
  const scene = await makeScene({ scene: 'clean-partial', samples: 300, group: 100 });
  const attack = `<script>document.title='owned'</script>"'&lt;\`$(reboot)\`\u202egnp.exe\nשלום`;
  const slashless = attack.replaceAll('/', '\u2215');
  const root = join(place, `hostile ${slashless}`);
  try {
    await mkdir(root);
    const folder = join(root, 'states');
    const dataset = join(root, `rows ${slashless}.jsonl`);
    await rename(scene.folder, folder);
    await rename(scene.dataset, dataset);
    // Shard folders whose very layout is an attack, files that are no row's, and a log that names a row.
    const names = await readdir(folder);
    const strange = (name: string): string => name.replace('rows_', '<img src=x onerror=alert(1)>_');
    for (const name of names) await rename(join(folder, name), join(folder, strange(name)));
    await writeFile(join(folder, `${slashless}.tmp`), 'x');
    await writeFile(join(folder, strange('rows_0-100'), `data_7 ${slashless}.ckpt`), 'x');
    const log = join(place, 'driver.log');
    await writeFile(log, `2026-03-14 ERROR sample 250 failed: ${attack.replaceAll('\n', ' ')}</td></table><iframe src="//evil">\n`);
    const made = await makePage(join(place, 'hostile.html'), [
      folder,
      '--dataset',
      dataset,
      '--log',
      log,
      '--layout',
      '<img src=x onerror=alert(1)>_{from}-{to}/data_{index}.ckpt',
    ]);
    expect(made.report.totals.sound).toBeGreaterThan(0);
    expect(made.report.findings.map((finding) => finding.code)).toContain('TM-S18');
    const open = await openPage(browser, made.path);
    const { page } = open;
    expectQuiet(open, made.path);
    expect(open.inside).toEqual(made.report);
    expect(await page.title()).not.toContain('owned');
    expect(await page.locator('img, iframe, script:not(#report):not(:last-child)').count()).toBe(0);
    expect(await page.locator('script').count()).toBe(2);
    const text = await wordsOf(page.locator('body'));
    expect(text).toContain("<script>document.title='owned'</script>".replaceAll('/', '\u2215'));
    expect(text).toContain(`<script>document.title='owned'</script>"'&lt;`);
    expect(text).toContain('<img src=x onerror=alert(1)>_0-100');
    expect(text).toContain('<iframe src="//evil">');
    // What would turn the direction of the text around it, or break a line, is shown and not obeyed.
    expect(text).not.toContain('\u202e');
    expect(text).toContain('\\u202egnp.exe\\x0aשלום.tmp');
    expect(await page.evaluate("getComputedStyle(document.querySelector('bdi.path')).unicodeBidi")).toBe('isolate');
    expectCells(await cellsOf(page), open.inside);
    // Each command, pasted into a shell, is the very list of arguments that the document has.
    const shown = await page.locator('.command code').allTextContents();
    const known = [...made.report.findings.flatMap((finding) => finding.remedy?.commands ?? [])];
    for (const line of shown) {
      const given = await argumentsOf(line);
      const command = known.find((words) => shellLine(words) === line);
      if (command !== undefined) expect(given).toEqual(command);
      expect(
        given.some((word) => word.includes(slashless)),
        line,
      ).toBe(true);
    }
    expect(shown.length).toBeGreaterThan(2);
    await page.setViewportSize({ width: 320, height: 700 });
    expect(await page.evaluate('look.overflowing(320)')).toEqual({ scrolls: 0, wide: [] });
    await open.close();
  } finally {
    await scene.remove();
  }
});

it('says first that something is writing there', async () => {
  const scene = await makeScene({ scene: 'clean-partial', samples: 300, group: 100 });
  const writer = await openFile(join(scene.folder, 'rows_0-100', 'data_299.ckpt.part'), 'w');
  try {
    const made = await makePage(join(place, 'running.html'), [scene.folder, '--dataset', scene.dataset]);
    expect(made.report.running).not.toBeNull();
    const open = await openPage(browser, made.path);
    const [first = ''] = (await wordsOf(open.page.locator('header'))).split('\n').filter((line) => line.length > 20);
    expect(first).toContain('Running now.');
    expect(first).toContain(`pid ${process.pid} `);
    expect(first).toContain(made.report.running?.host);
    const banner = await open.page.locator('.running').boundingBox();
    const heading = await open.page.locator('h1').boundingBox();
    expect(banner?.y).toBeLessThan(heading?.y ?? 0);
    expectQuiet(open, made.path);
    await open.close();
  } finally {
    await writer.close();
    await scene.remove();
  }
});
