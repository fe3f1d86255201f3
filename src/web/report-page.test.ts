import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { renderReport } from '../cli/render-report.ts';
import type { Report } from '../core/report.ts';
import { renderReportPage } from './report-page.ts';

const HOSTILE = '<img src=x onerror=alert(1)>';
const counts = { sound: 6, missing: 3, torn: 1, corrupt: 0, drifted: 0, poisoned: 0, unreadable: 0 };

function report(name: string, more: Partial<Report> = {}): Report {
  return {
    schema: 'tidemark.report/1',
    folder: `/data/${name}`,
    assessedAt: '2026-03-15T06:00:00.000Z',
    level: 'identity',
    levels: [{ level: 'content', ranges: [[4, 6]] }],
    suspect: [],
    layout: { name: 'specforge', pattern: 'rows_{from}-{to}/data_{index}.ckpt', codec: 'torch-zip', groupSize: 5 },
    dataset: { path: `/data/${name}.jsonl`, rows: 10, identity: 'ab'.repeat(32) },
    told: ['--dataset', `/data/${name}.jsonl`],
    run: null,
    totals: { ...counts, rows: 10, files: 7, bytes: 7_000_000 },
    missing: { 'never-started': 2, 'in-flight': 0, failed: 1, lost: 0, accepted: 0 },
    verdicts: [
      {
        verdict: 'sound',
        reason: 'checked',
        ranges: [
          [0, 3],
          [4, 7],
        ],
        count: 6,
      },
      { verdict: 'missing', reason: 'never-started', ranges: [[8, 10]], count: 2 },
      { verdict: 'missing', reason: 'failed', ranges: [[3, 4]], count: 1 },
      { verdict: 'torn', reason: 'truncated', ranges: [[7, 8]], count: 1 },
    ],
    next: 8,
    frontiers: [{ from: 0, to: 10, next: 8 }],
    folders: [
      { path: `rows_0-5${name}`, from: 0, to: 5, files: 4, counts: { ...counts, sound: 4, missing: 1, torn: 0 } },
      { path: 'rows_5-10', from: 5, to: 10, files: 3, counts: { ...counts, sound: 2, missing: 2 } },
    ],
    extras: [{ path: `rows_0-5/${name}`, kind: 'other', bytes: 12, reclaimableBytes: 4096 }],
    running: null,
    remembered: { files: 3, since: '2026-03-14T06:00:00.000Z' },
    segments: [{ id: name, ranges: [[0, 3]], state: { [name]: name } }],
    crash: {
      lastWrite: { value: '2026-03-14T04:00:00.000Z', source: name },
      bootedAt: { value: '2026-03-14T04:41:00.000Z', source: 'boot log' },
      cause: { value: name, source: name },
      suspectWindow: null,
      containerStartedAt: { value: '2026-03-14T04:42:00.000Z', source: name },
      logEvents: [{ at: '2026-03-14T03:59:00.000Z', kind: 'io-error', text: name, source: name }],
      logsNotRead: [{ path: name, why: name }],
    },
    space: { value: { totalBytes: 2e12, freeBytes: 1e12 }, source: name },
    pace: {
      plateau: 1.09,
      whole: 0.21,
      stalls: [{ from: '2026-03-14T02:00:00.000Z', to: '2026-03-14T03:00:00.000Z' }],
      stallCount: 1,
      stalledSeconds: 3600,
      source: name,
    },
    placement: {
      kind: 'round-robin',
      ranks: 2,
      starts: [0, 5],
      batch: 4,
      holds: [
        [0, 5, 0, 2],
        [5, 10, 1, 2],
      ],
      holdsLeftOut: 0,
      strangers: [],
      copies: [],
    },
    findings: [
      {
        code: 'TM-S01',
        severity: 'error',
        title: `1 file is torn: ${name}`,
        evidence: name,
        ranges: [[7, 8]],
        remedy: { text: name, kind: 'fix', commands: [['tidemark', 'resume', `/data/${name}`]] },
      },
    ],
    plan: {
      steps: [{ what: 'extract', text: 'extract', ranges: [[7, 10]], count: 3 }],
      extract: {
        ranges: [[7, 10]],
        count: 3,
        tokens: 33,
        bytes: 3_000_000,
        seconds: [3, 14],
        rates: [
          { perSecond: 1.09, tokensPerSecond: 11, seconds: 3, source: name },
          { perSecond: 0.21, seconds: 14, source: 'whole' },
        ],
      },
      blockers: [],
    },
    digest: null,
    ...more,
  };
}

describe('the report page', () => {
  it('keeps a hostile name inert wherever it stands', () => {
    const page = renderReportPage(report(HOSTILE));
    expect(page).not.toContain('<img');
    const attack = `</script><script>alert(1)</script><!--\u202e"'`;
    const broken = renderReportPage(report(attack));
    // Only our own two scripts: the document and the copy buttons.
    expect(broken.match(/<script/g)).toHaveLength(2);
    expect(broken).not.toContain('<!--');
    expect(broken).not.toContain('\u202e<');
  });

  it('holds the whole document, byte for byte', () => {
    for (const name of ['plain', HOSTILE, '</script>', '\u2028&amp;']) {
      const page = renderReportPage(report(name));
      const json = /<script type="application\/json" id="report">(.*?)<\/script>/s.exec(page)?.[1] ?? '';
      expect(JSON.parse(json)).toEqual(report(name));
    }
  });

  it('needs nothing from outside, and lets nothing run but its own script', () => {
    const page = renderReportPage(report('plain'));
    expect(page).not.toMatch(/\b(?:src|href)="(?!#)/);
    expect(page).not.toMatch(/url\((?!#)/);
    expect(page).not.toMatch(/\sstyle="|\son[a-z]+="/);
    const policy = /Content-Security-Policy" content="([^"]*)"/.exec(page)?.[1] ?? '';
    expect(policy).toContain("default-src 'none'");
    const [script = ''] = page.match(/<script>(.*?)<\/script>/s)?.slice(1) ?? [];
    const [style = ''] = page.match(/<style>(.*?)<\/style>/s)?.slice(1) ?? [];
    for (const text of [script, style]) expect(policy).toContain(createHash('sha256').update(text).digest('base64'));
  });

  it('says which file holds which row where numbers do not, and what the machine’s logs said', () => {
    const page = renderReportPage(report('plain'));
    expect(page).toContain('Dealt to 2 ranks in turn, in batches of 4: rank 0 from number 0, rank 1 from number 5.');
    expect(page).toContain('<td>io-error</td>');
    expect(page).toContain('1 pause, 1\u00a0h in all');
    expect(renderReportPage(report('plain', { placement: null }))).not.toContain('Which file holds which row');
  });

  it('gives no percentage without a dataset', () => {
    expect(renderReportPage(report('plain', { dataset: null }))).not.toMatch(/\d %/);
    expect(renderReport(report('plain', { dataset: null }))).not.toMatch(/\d %|To finish/);
  });

  it('has every id once, even where a code was found twice', () => {
    const [finding] = report('plain').findings;
    const twice = finding === undefined ? [] : [finding, { ...finding, title: 'another log' }];
    const ids = [...renderReportPage(report('plain', { findings: twice })).matchAll(/ id="([^"]+)"/g)].map((match) => match[1]);
    expect(ids).toContain('TM-S01-2');
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('counts one as one, and no folder size as none', () => {
    const one = { ...counts, sound: 1, missing: 0, torn: 0, rows: 1, files: 1, bytes: 5 };
    const page = renderReportPage(
      report('plain', {
        totals: one,
        dataset: { path: 'd.jsonl', rows: 1, identity: 'ab' },
        layout: { name: 'flat', pattern: '{index}', codec: 'x', groupSize: 0 },
      }),
    );
    expect(page).toContain('<h1>The one row is done</h1>');
    expect(page).toContain('all rows in one folder');
    expect(page).not.toMatch(/\b[01] (rows a folder|rows|files|samples)\b/);
  });

  it('says what is in doubt, what was read deeper, which engine made what, and which logs could not be read', () => {
    const page = renderReportPage(
      report('plain', { suspect: [[0, 2]], segments: [{ id: 'e0', ranges: [[0, 3]], state: { build: '0.22.1' } }] }),
    );
    expect(page).toContain('2 suspect: bytes not proved yet');
    expect(page).toContain('<svg class="lane" role="img" aria-label="bytes in doubt, 2 rows: 0-1">');
    expect(page).toContain('2 rows to <i>content</i>: <span class="path">4-5</span>');
    expect(page).toContain('<span class="soft">build</span> 0.22.1');
    expect(page).toContain('Logs not read: plain (plain)');
  });

  it('stays small whatever the report holds: the document, and at most a megabyte beside it', () => {
    const holes = Array.from({ length: 100_000 }, (_, at): [number, number] => [at * 10, at * 10 + 9]);
    const lost = Array.from({ length: 100_000 }, (_, at): [number, number] => [at * 10 + 9, at * 10 + 10]);
    const folders = Array.from({ length: 5000 }, (_, at) => ({
      path: `rows_${at * 200}-${at * 200 + 200}`,
      from: at * 200,
      to: at * 200 + 200,
      files: 180,
      counts: { ...counts, sound: 180, missing: 20, torn: 0 },
    }));
    const large = report('plain', {
      totals: { ...counts, sound: 900_000, missing: 100_000, torn: 0, rows: 1_000_000, files: 900_000, bytes: 1e12 },
      folders,
      suspect: holes,
      levels: [{ level: 'content', ranges: lost }],
      extras: Array.from({ length: 10_000 }, (_, at) => ({ path: `t/${at}.tmp`, kind: 'temp' as const, bytes: at, reclaimableBytes: at })),
      verdicts: [
        { verdict: 'sound', reason: 'checked', ranges: holes, count: 900_000 },
        { verdict: 'missing', reason: 'failed', ranges: lost, count: 100_000 },
      ],
    });
    const page = renderReportPage(large);
    expect(page.length - JSON.stringify(large).length).toBeLessThan(1_000_000);
    // Too many folders for a cell each: equal parts, and the counts are still those of the report.
    expect(page).toContain('aria-label="rows 0 to 19999: 18\u00a0000 sound, 2\u00a0000 missing"');
  });
});
