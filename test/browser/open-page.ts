import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from 'playwright-core';
import { expect } from 'vitest';
import type { Report } from '../../src/core/report.ts';
import { VERDICT_KINDS, type VerdictKind } from '../../src/core/verdict.ts';
import { ROOT, tidemark } from '../support/processes.ts';

const CHROMIUM = '/usr/bin/chromium';
const LOOK = join(import.meta.dirname, 'look.js');

/** One browser for a whole file of tests. */
export async function startBrowser(): Promise<Browser> {
  await stat(CHROMIUM).catch(() => {
    throw new Error(`there is no ${CHROMIUM}: bash ${join(ROOT, 'scripts/system-packages.sh')} installs Debian's`);
  });
  return chromium.launch({
    timeout: 0,
    executablePath: CHROMIUM,
    // Root has no sandbox; the rest keeps the browser itself from calling home.
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

export interface MadePage {
  readonly path: string;
  readonly bytes: number;
  /** What `--json` printed in the same run. */
  readonly report: Report;
}

/** The built command's own page of a folder. */
export async function makePage(path: string, argv: readonly string[]): Promise<MadePage> {
  const end = await tidemark(['assess', ...argv, '--json', '--html', path]);
  expect([0, 3, 4], end.stderr).toContain(end.code);
  return { path, bytes: (await stat(path)).size, report: JSON.parse(end.stdout) as Report };
}

export interface OpenPage {
  readonly page: Page;
  /** Everything that the page asked for. */
  readonly requests: readonly string[];
  /** Errors of its script, lines on its console, and what its policy refused. */
  readonly troubles: readonly string[];
  /** The document inside the page. */
  readonly inside: Report;
  close(): Promise<void>;
}

/** Opens a page from disk, as a double click does. */
export async function openPage(browser: Browser, path: string, options: BrowserContextOptions = {}): Promise<OpenPage> {
  const context = await browser.newContext(options);
  // A busy machine is no failure: the test runner's own limit is the one that counts.
  context.setDefaultTimeout(0);
  const page = await context.newPage();
  const requests: string[] = [];
  const troubles: string[] = [];
  page.on('request', (request) => requests.push(request.url()));
  page.on('pageerror', (error) => troubles.push(`error: ${error.message}`));
  page.on('console', (message) => troubles.push(`console: ${message.text()}`));
  page.on('dialog', (dialog) => {
    troubles.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(pathToFileURL(path).href);
  await page.evaluate(await readFile(LOOK, 'utf8'));
  const inside = JSON.parse(
    await page
      .locator('#report')
      .textContent()
      .then((text) => text ?? ''),
  ) as Report;
  return { page, requests, troubles, inside, close: () => context.close() };
}

/** It asked for nothing but itself, and nothing went wrong. */
export function expectQuiet(open: OpenPage, path: string): void {
  expect(open.requests).toEqual([pathToFileURL(path).href]);
  expect(open.troubles).toEqual([]);
}

/** What can be read there, as it is drawn, with plain spaces in figures. */
export async function wordsOf(locator: Locator): Promise<string> {
  const texts = await locator.allInnerTexts();
  return texts.join('\n').replaceAll('\u00a0', ' ');
}

export interface Cell {
  readonly name: string;
  readonly text: string;
  readonly target: string | null;
  readonly letter: string | null;
  readonly shares: readonly { readonly kind: VerdictKind; readonly fill: string; readonly width: number; readonly height: number }[];
}

export function cellsOf(page: Page): Promise<Cell[]> {
  return page.evaluate<Cell[]>('look.cells()');
}

/** The counts that a cell's name tells: `1 999 sound, 1 missing`. */
export function countsIn(name: string): Record<VerdictKind, number> {
  const counts = Object.fromEntries(VERDICT_KINDS.map((kind) => [kind, 0])) as Record<VerdictKind, number>;
  const words = name.slice(name.lastIndexOf(': ') + 2).split(', ');
  for (const word of words) {
    const [, digits = '', kind = ''] = /^([\d\u00a0]+) ([a-z]+)$/.exec(word) ?? [];
    expect(VERDICT_KINDS, name).toContain(kind);
    counts[kind as VerdictKind] = Number(digits.replaceAll('\u00a0', ''));
  }
  return counts;
}

/** Cells show what they say: a painted share for each verdict that is there, wide enough to see, and the worst one's letter. */
export function expectCells(cells: readonly Cell[], report: Report): void {
  const sums = Object.fromEntries(VERDICT_KINDS.map((kind) => [kind, 0])) as Record<VerdictKind, number>;
  for (const cell of cells) {
    const counts = countsIn(cell.name);
    for (const kind of VERDICT_KINDS) sums[kind] += counts[kind];
    const there = VERDICT_KINDS.filter((kind) => counts[kind] > 0);
    expect(
      cell.shares.map(({ kind }) => kind),
      cell.name,
    ).toEqual(there);
    for (const share of cell.shares) {
      if (share.kind !== 'sound') expect(share.fill).toBe(`url("#p-${share.kind}")`);
      expect(share.width, cell.name).toBeGreaterThan(1.5);
      expect(share.height, cell.name).toBeGreaterThan(15);
    }
    const worst = (['torn', 'corrupt', 'poisoned', 'drifted', 'unreadable', 'missing'] as const).find((kind) => counts[kind] > 0);
    expect(cell.letter, cell.name).toBe(worst?.slice(0, 1).toUpperCase() ?? null);
  }
  for (const kind of VERDICT_KINDS) expect(sums[kind], kind).toBe(report.totals[kind]);
}

/** The colour that most of a screenshot has, as `#rrggbb`. */
export async function mainColour(browser: Browser, png: Buffer): Promise<string> {
  const page = await browser.newPage();
  try {
    return await page.evaluate<string>(`(async () => {
      const image = new Image();
      image.src = 'data:image/png;base64,${png.toString('base64')}';
      await image.decode();
      const canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [image.width, image.height];
      const context = canvas.getContext('2d');
      context.drawImage(image, 0, 0);
      const { data } = context.getImageData(0, 0, image.width, image.height);
      const seen = new Map();
      for (let at = 0; at < data.length; at += 4) {
        const colour = '#' + [...data.subarray(at, at + 3)].map((value) => value.toString(16).padStart(2, '0')).join('');
        seen.set(colour, (seen.get(colour) ?? 0) + 1);
      }
      return [...seen].sort((a, b) => b[1] - a[1])[0][0];
    })()`);
  } finally {
    await page.close();
  }
}
