import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeScene, type Scene } from '../damage/scene.ts';
import { cellsOf, expectCells, expectQuiet, type MadePage, makePage, openPage, startBrowser, wordsOf } from './open-page.ts';

// The defining crash at full size: 37,312 rows in folders of 2,000, for everybody: keyboard, screen reader, dark, paper, a phone.

let browser: Browser;
let place: string;
let scene: Scene;
let made: MadePage;

beforeAll(async () => {
  browser = await startBrowser();
  place = await mkdtemp(join(tmpdir(), 'tidemark-page-'));
  scene = await makeScene({ scene: 'storage-crash' });
  made = await makePage(join(place, 'report.html'), [scene.folder, '--dataset', scene.dataset]);
});

afterAll(async () => {
  await browser.close();
  await scene.remove();
  await rm(place, { recursive: true });
});

interface Focused {
  readonly tag: string;
  readonly name: string;
  readonly ring: boolean;
  readonly inView: boolean;
  readonly place: number;
}

const focused = (page: Page): Promise<Focused | null> => page.evaluate<Focused | null>('look.focused()');

/** Everything that the Tab key comes to, from the top of the page to its end. */
async function tabThrough(page: Page): Promise<Focused[]> {
  const seen: Focused[] = [];
  for (;;) {
    await page.keyboard.press('Tab');
    const here = await focused(page);
    if (here === null || here.place <= (seen.at(-1)?.place ?? -1)) return seen;
    seen.push(here);
  }
}

describe('the page of the defining crash', () => {
  it('has one cell for each of its 19 folders, and they add up', async () => {
    const open = await openPage(browser, made.path);
    const cells = await cellsOf(open.page);
    expect(cells).toHaveLength(19);
    expectCells(cells, open.inside);
    expect(open.inside.totals).toMatchObject({ rows: 37_312, sound: 18_421, missing: 18_891 });
    expect(await wordsOf(open.page.locator('h1'))).toBe('18 421 of 37 312 rows are sound');
    expect(await wordsOf(open.page.getByRole('heading', { name: 'Folders', exact: false }).first())).toBe('Folders, 2 000 rows each');
    // A single row of two thousand is seen, named, and can be looked up.
    expect(cells[2]?.name.replaceAll('\u00a0', ' ')).toBe('rows_4000-6000, rows 4000 to 5999: 1 999 sound, 1 missing');
    await open.page.locator('.map a').nth(2).click();
    expect(await wordsOf(open.page.locator('tr:target'))).toMatch(/rows_4000-6000.*4464 missing/);
    const ending = await wordsOf(open.page.getByRole('region', { name: 'How it ended', exact: true }));
    expect(ending).toContain('2026-03-14 04:22:03 UTC (newest modification time of a sample file)');
    for (const { source } of [open.inside.crash?.bootedAt, open.inside.crash?.suspectWindow].flatMap((fact) => fact ?? []))
      expect(ending).toContain(source);
    const facts = await wordsOf(open.page.getByRole('region', { name: 'Where the numbers come from', exact: true }));
    expect(facts).toContain('94 rows to content: 18329-18330, 18332-18423');
    expectQuiet(open, made.path);
    await open.close();
  });

  it('can be walked through by keyboard, with the focus in sight, and the map can be left out', async () => {
    const open = await openPage(browser, made.path, { viewport: { width: 1100, height: 700 } });
    const { page } = open;
    const walk = await tabThrough(page);
    expect(walk.filter((stop) => !stop.ring || !stop.inView)).toEqual([]);
    expect(walk.map((stop) => stop.place)).toEqual(walk.map((_, at) => at));
    const names = walk.map((stop) => stop.name.replaceAll('\u00a0', ' '));
    expect(names).toContain('Skip 19 cells');
    expect(names.filter((name) => name.startsWith('Copy: tidemark '))).toHaveLength(await page.locator('button[data-copy]').count());
    // The way around the cells: from the link before them to the first stop behind them.
    await page.locator('.skip').focus();
    expect((await page.locator('.skip').boundingBox())?.x).toBeGreaterThanOrEqual(0);
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    const skip = names.indexOf('Skip 19 cells');
    expect((await focused(page))?.place).toBe(walk[skip + 20]?.place);
    // Commands are copied without a mouse.
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.locator('#TM-S08 button').focus();
    await page.keyboard.press('Enter');
    await page.getByRole('status').getByText('The command is in the clipboard').waitFor();
    expectQuiet(open, made.path);
    await open.close();
  });

  it('says to a screen reader what it shows', async () => {
    const open = await openPage(browser, made.path);
    const { page } = open;
    const headings = await page.evaluate<{ level: number; text: string }[]>('look.headings()');
    expect(headings.filter((heading) => heading.level === 1)).toHaveLength(1);
    for (const [at, heading] of headings.entries())
      expect(heading.level, heading.text).toBeLessThanOrEqual((headings[at - 1]?.level ?? 0) + 1);
    for (const role of ['banner', 'main', 'contentinfo', 'navigation'] as const) expect(await page.getByRole(role).count(), role).toBe(1);
    for (const name of ['Verdicts', 'Map', 'How it ended', 'Findings', 'Plan', 'Every folder', 'Where the numbers come from'])
      expect(await page.getByRole('region', { name, exact: true }).count(), name).toBeGreaterThan(0);
    expect(await page.locator('html').getAttribute('lang')).toBe('en');
    const tree = (await page.locator('body').ariaSnapshot()).replaceAll('\u00a0', ' ');
    expect(tree).toContain('heading "18 421 of 37 312 rows are sound" [level=1]');
    expect(tree).toContain('img "18 421 sound, 18 891 missing"');
    expect(tree).toContain('link "rows_18000-20000, rows 18000 to 19999: 424 sound, 1 576 missing"');
    expect(tree).toContain('img "frontier, row 18424"');
    // Nothing that can be operated is without a name, and no drawing is read out piece by piece.
    expect(tree).not.toMatch(/- (link|button|img)(:|$)/m);
    const links = await page.locator('nav a').all();
    for (const link of links) expect(await page.locator((await link.getAttribute('href')) ?? '').count()).toBe(1);
    await open.close();
  });

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`can be read in ${colorScheme} mode`, async () => {
      const open = await openPage(browser, made.path, { colorScheme });
      expect(await open.page.evaluate('look.faintTexts()')).toEqual([]);
      const paper = await open.page.evaluate('getComputedStyle(document.body).backgroundColor');
      expect(paper).toBe(colorScheme === 'light' ? 'rgb(250, 249, 246)' : 'rgb(20, 24, 26)');
      expectQuiet(open, made.path);
      await open.close();
    });
  }

  for (const width of [320, 390]) {
    it(`fits a screen of ${width} pixels`, async () => {
      const open = await openPage(browser, made.path, {
        viewport: { width, height: 700 },
        hasTouch: true,
        isMobile: true,
        deviceScaleFactor: 2,
      });
      expect(await open.page.evaluate(`look.overflowing(${width})`)).toEqual({ scrolls: 0, wide: [] });
      for (const button of await open.page.locator('.command button').all())
        expect((await button.boundingBox())?.height).toBeGreaterThanOrEqual(24);
      await open.close();
    });
  }

  it('prints everything there is to read, light, and no button', async () => {
    // A4 with margins of 1 cm, in CSS pixels.
    const open = await openPage(browser, made.path, { colorScheme: 'dark', viewport: { width: 718, height: 1000 } });
    const { page } = open;
    await page.emulateMedia({ media: 'print' });
    expect(await page.evaluate('getComputedStyle(document.body).backgroundColor')).toBe('rgb(255, 255, 255)');
    expect(await page.evaluate('look.faintTexts()')).toEqual([]);
    expect(await page.locator('button:visible, nav:visible').count()).toBe(0);
    expect(await page.evaluate('look.overflowing(718)')).toEqual({ scrolls: 0, wide: [] });
    const paper = (await page.pdf({ format: 'A4', margin: { top: '1cm', bottom: '1cm', left: '1cm', right: '1cm' } })).toString('latin1');
    const sheets = paper.match(/\/Type\s*\/Page\b/g)?.length ?? 0;
    expect(sheets).toBeGreaterThanOrEqual(2);
    expect(sheets).toBeLessThanOrEqual(8);
    await open.close();
  });
});
