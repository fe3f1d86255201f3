import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { countOf, formatRanges } from '../../src/core/ranges.ts';
import { shellLine } from '../../src/core/shell-line.ts';
import { VERDICT_KINDS } from '../../src/core/verdict.ts';
import type { Scene } from '../damage/scene.ts';
import { everyVerdict } from './damaged-scene.ts';
import {
  cellsOf,
  countsIn,
  expectCells,
  expectQuiet,
  type MadePage,
  mainColour,
  makePage,
  type OpenPage,
  openPage,
  startBrowser,
  wordsOf,
} from './open-page.ts';

// One tree with all seven verdicts, as a person sees it.

let browser: Browser;
let place: string;
let scene: Scene;
let made: MadePage;
let open: OpenPage;

beforeAll(async () => {
  browser = await startBrowser();
  place = await mkdtemp(join(tmpdir(), 'tidemark-page-'));
  scene = await everyVerdict();
  made = await makePage(join(place, 'report.html'), [scene.folder, '--dataset', scene.dataset, '--level', 'content']);
  open = await openPage(browser, made.path);
});

afterAll(async () => {
  await browser.close();
  await scene.remove();
  await rm(place, { recursive: true });
});

describe('the page of a damaged tree', () => {
  it('is one file that asks for nothing', async () => {
    await open.page.waitForLoadState('networkidle');
    expectQuiet(open, made.path);
    expect(open.inside).toEqual(made.report);
    for (const kind of VERDICT_KINDS) expect(made.report.totals[kind], kind).toBeGreaterThan(0);
  });

  it('can reach nothing even if something in it tried', async () => {
    let calls = 0;
    const server = createServer((_, response) => {
      calls += 1;
      response.end();
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const tried = await openPage(browser, made.path);
    try {
      const refused = await tried.page.evaluate<string[]>(`new Promise((done) => {
        const refused = [];
        document.addEventListener('securitypolicyviolation', (event) => {
          refused.push(event.effectiveDirective);
          if (new Set(refused).size === 5) done([...new Set(refused)].sort());
        });
        fetch('${url}').catch(() => {});
        new Image().src = '${url}';
        for (const [tag, attribute] of [['script', 'src'], ['iframe', 'src']]) {
          const element = document.createElement(tag);
          element.setAttribute(attribute, '${url}');
          document.body.append(element);
        }
        const button = document.createElement('button');
        button.setAttribute('onclick', 'document.title = "owned"');
        document.body.append(button);
        button.click();
      })`);
      expect(refused).toEqual(['connect-src', 'frame-src', 'img-src', 'script-src-attr', 'script-src-elem']);
      expect(calls).toBe(0);
      expect(await tried.page.title()).not.toBe('owned');
    } finally {
      await tried.close();
      await new Promise((done) => server.close(done));
    }
  });

  it('says the verdict first, with every count and its share', async () => {
    const { totals } = made.report;
    expect(await wordsOf(open.page.locator('h1'))).toBe(`${totals.sound} of 1 200 rows are sound`);
    const tally = await Promise.all((await open.page.locator('.tally > li').all()).map(wordsOf));
    expect(tally).toHaveLength(VERDICT_KINDS.length);
    for (const [at, kind] of VERDICT_KINDS.entries()) {
      expect(tally[at]).toContain(kind);
      expect(tally[at]).toMatch(new RegExp(`\\b${totals[kind]}\\b`));
      expect(tally[at]).toMatch(/\d %/);
    }
  });

  it('has a cell for each folder, which paints what it says; together they are the totals', async () => {
    const cells = await cellsOf(open.page);
    expect(cells).toHaveLength(made.report.folders.length);
    expectCells(cells, open.inside);
    for (const [at, cell] of cells.entries()) {
      expect(countsIn(cell.name)).toEqual(made.report.folders[at]?.counts);
      expect(cell.target).toBe(`#folder-${at}`);
      expect(await wordsOf(open.page.locator(`#folder-${at}`))).toContain(made.report.folders[at]?.path);
    }
    // In words, too: colour is never the only sign.
    expect(cells.map((cell) => cell.text).join('\n')).toMatch(/1 torn/);
    expect(cells[6]?.text).toContain('all missing');
  });

  it('keeps the verdicts apart by colour and by pattern, in light and in dark', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      await open.page.emulateMedia({ colorScheme });
      const palette = await open.page.evaluate<{ kind: string; colour: string; marks: string }[]>(
        `look.palette(${JSON.stringify(VERDICT_KINDS)})`,
      );
      for (const field of ['colour', 'marks'] as const)
        expect(new Set(palette.map((entry) => entry[field])).size, `${colorScheme} ${field}`).toBe(VERDICT_KINDS.length);
      const cells = open.page.locator('.map .cell');
      const [sound, missing] = [
        await mainColour(browser, await cells.nth(7).screenshot()),
        await mainColour(browser, await cells.nth(6).screenshot()),
      ];
      expect([sound, missing], colorScheme).toEqual(colorScheme === 'light' ? ['#187a6a', '#cfccc3'] : ['#35a893', '#3c4448']);
    }
    await open.page.emulateMedia({ colorScheme: 'light' });
  });

  it('explains every sign in a legend', async () => {
    const items = await open.page.getByRole('list', { name: 'Legend' }).getByRole('listitem').all();
    const legend = await Promise.all(items.map(wordsOf));
    for (const kind of VERDICT_KINDS) expect(legend.filter((line) => line.includes(`${kind} `)).length, kind).toBeGreaterThan(0);
    expect(legend.join('\n')).toContain(`frontier row ${made.report.next}`);
    expect(await open.page.locator('.legend .key').count()).toBe(legend.length);
  });

  it('shows each finding with code, evidence, rows and remedy', async () => {
    const items = open.page.locator('.findings > li');
    expect(await items.count()).toBe(made.report.findings.length);
    for (const [at, finding] of made.report.findings.entries()) {
      const item = items.nth(at);
      const text = (await wordsOf(item)).replaceAll('\n', ' ');
      expect(text).toContain(finding.code);
      expect(text.toLowerCase()).toContain(finding.title.toLowerCase());
      expect(text.toLowerCase()).toContain(finding.evidence.toLowerCase());
      if (finding.remedy !== undefined) expect(text.toLowerCase()).toContain(finding.remedy.text.toLowerCase());
      if (finding.remedy?.kind === 'decision') expect(text).toContain('yours to decide');
      if (finding.ranges !== undefined && countOf(finding.ranges) > 0)
        expect(await item.textContent()).toContain(formatRanges(finding.ranges, 400));
      if (finding.severity !== 'info') {
        expect(await item.locator('code').allTextContents()).toEqual(finding.remedy?.commands.map((command) => shellLine(command)));
      }
    }
  });

  it('ends in the command, and copies it', async () => {
    const context = open.page.context();
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    const line = await open.page.locator('#next code').textContent();
    const button = open.page.locator('#next').getByRole('button', { name: `Copy: ${line}` });
    await button.click();
    await open.page.getByRole('status').getByText('The command is in the clipboard').waitFor();
    expect(await open.page.evaluate<string>('navigator.clipboard.readText()')).toBe(line);
    expect(await wordsOf(button)).toBe('Copied');
  });

  it('folds long lists, opens them by keyboard, and prints them open', async () => {
    const { page } = open;
    const fold = page.locator('#TM-S10 details');
    const rows = fold.locator('p');
    expect(await rows.isVisible()).toBe(false);
    await page.emulateMedia({ media: 'print' });
    expect((await rows.boundingBox())?.height).toBeGreaterThan(10);
    // The widest table fits on A4, too.
    await page.setViewportSize({ width: 718, height: 1000 });
    expect(await page.evaluate('look.overflowing(718)')).toEqual({ scrolls: 0, wide: [] });
    await page.setViewportSize({ width: 1280, height: 720 });
    await page.emulateMedia({ media: 'screen' });
    await fold.locator('summary').focus();
    await page.keyboard.press('Enter');
    await rows.waitFor({ state: 'visible' });
  });

  it('has the plan, what was read how deep, and where the numbers come from', async () => {
    const plan = await wordsOf(open.page.getByRole('region', { name: 'Plan', exact: true }));
    for (const step of made.report.plan.steps) expect(plan.toLowerCase()).toContain(step.text.toLowerCase());
    for (const code of made.report.plan.blockers) expect(plan).toContain(code);
    const facts = await wordsOf(open.page.getByRole('region', { name: 'Where the numbers come from', exact: true }));
    expect(facts).toContain('every file to the level content');
    expect(facts).toContain('100 rows a folder');
    expect(facts).toContain(made.report.dataset?.identity);
    const table = await wordsOf(open.page.getByRole('region', { name: 'Verdicts and reasons' }).last());
    for (const group of made.report.verdicts) expect(table).toContain(formatRanges(group.ranges, 40));
  });
});
