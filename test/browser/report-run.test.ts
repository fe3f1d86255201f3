import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CLI, freePort, MODEL, ROOT, Running, startEngine } from '../support/processes.ts';
import { cellsOf, expectCells, expectQuiet, makePage, openPage, startBrowser, wordsOf } from './open-page.ts';

let browser: Browser;
let place: string;

beforeAll(async () => {
  browser = await startBrowser();
  place = mkdtempSync(join(tmpdir(), 'tidemark-page-'));
});

afterAll(async () => {
  await browser.close();
  rmSync(place, { recursive: true });
});

it('shows of a run of ours, killed for real, what the journals know', async () => {
  const dataset = join(place, 'merged.jsonl');
  const output = join(place, 'states');
  writeFileSync(dataset, `${readFileSync(join(ROOT, 'test/support/dialogues.jsonl'), 'utf8').split('\n').slice(0, 24).join('\n')}\n`);
  const port = await freePort();
  const engine = await startEngine(port, join(place, 'staging'));
  try {
    const driver = new Running(CLI, [
      ...['extract', '--output', output, '--dataset', dataset, '--model', MODEL, '--url', `http://127.0.0.1:${port}`],
      ...['--staging', join(place, 'staging'), '--group-size', '6', '--in-flight', '2', '--reserve', '1MB', '--events'],
    ]);
    let committed = 0;
    driver.onLine((line) => {
      if ((JSON.parse(line) as { kind: string }).kind !== 'committed') return;
      committed += 1;
      if (committed === 14) driver.kill('SIGKILL');
    });
    expect((await driver.finished).signal).toBe('SIGKILL');
  } finally {
    engine.kill('SIGKILL');
    await engine.finished;
  }
  const [first = '', second = ''] = readdirSync(join(output, 'rows_0-6'));
  rmSync(join(output, 'rows_0-6', first));
  truncateSync(join(output, 'rows_0-6', second), 100);
  const made = await makePage(join(place, 'run.html'), [output]);
  const { report } = made;
  expect(report.totals.torn).toBe(1);
  expect(report.missing.lost).toBe(1);
  expect(report.segments.length).toBeGreaterThan(0);
  const open = await openPage(browser, made.path);
  expectCells(await cellsOf(open.page), open.inside);
  const segments = await wordsOf(open.page.getByRole('region', { name: 'Segments: which engine made which rows' }).first());
  for (const segment of report.segments) {
    expect(segments).toContain(segment.id);
    for (const [key, value] of Object.entries(segment.state)) expect(segments).toContain(`${key} ${value}`);
  }
  expect(await wordsOf(open.page.locator('header'))).toContain(report.crash?.cause?.value);
  expect(await wordsOf(open.page.getByRole('region', { name: 'How it ended', exact: true }))).toContain(report.crash?.cause?.source);
  const facts = await wordsOf(open.page.getByRole('region', { name: 'Where the numbers come from', exact: true }));
  expect(facts).toContain(report.run?.id);
  for (const finding of report.findings) expect(await open.page.locator(`#${finding.code}`).count(), finding.code).toBe(1);
  expect(await wordsOf(open.page.locator('#next'))).toContain('tidemark resume');
  expect(await wordsOf(open.page.locator('body'))).not.toMatch(/(^|[^\d ])1 (rows|files|samples|tokens|things|pauses|processes|lines)\b/m);
  expectQuiet(open, made.path);
  await open.close();
});
