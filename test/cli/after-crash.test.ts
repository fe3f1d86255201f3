import { spawn } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Plan, Report } from '../../src/core/report.ts';
import { CLI, freePort, MODEL, ROOT, type Running, startEngine, tidemark } from '../support/processes.ts';

// What an operator does after a crash that is no `resume`: adopt, plan, repair, accept, look at a page, ask the head.

const ROWS = 10;
let place: string;
let engine: Running;
let dataset: string;
/** A complete run; copied, never changed. */
let good: string;
let engineFlags: string[];

beforeAll(async () => {
  place = mkdtempSync(join(tmpdir(), 'tidemark-after-'));
  dataset = join(place, 'merged.jsonl');
  writeFileSync(dataset, `${readFileSync(join(ROOT, 'test/support/dialogues.jsonl'), 'utf8').split('\n').slice(0, ROWS).join('\n')}\n`);
  const port = await freePort();
  const staging = join(place, 'staging');
  engine = await startEngine(port, staging);
  engineFlags = ['--dataset', dataset, '--model', MODEL, '--url', `http://127.0.0.1:${port}`, '--staging', staging, '--reserve', '1MB'];
  good = join(place, 'good');
  const end = await tidemark(['extract', '--output', good, '--group-size', '4', ...engineFlags]);
  expect(end.code, end.stderr).toBe(0);
});

afterAll(async () => {
  engine.kill('SIGKILL');
  await engine.finished;
  rmSync(place, { recursive: true });
});

function copy(name: string, withMemory: boolean): string {
  const folder = join(place, name);
  cpSync(good, folder, { recursive: true, preserveTimestamps: true });
  if (!withMemory) rmSync(join(folder, '.tidemark'), { recursive: true });
  return folder;
}

const files = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.startsWith('rows_'))
    .sort()
    .map((name) => `${name} ${statSync(join(folder, name)).ino} ${statSync(join(folder, name)).mtimeMs}`);

describe('adopt', () => {
  it('makes a foreign tree a run without touching a file, and extract fills it with files of the same kind', async () => {
    const folder = copy('foreign', false);
    const lost = join(folder, 'rows_4-8/data_5.ckpt');
    const bytes = readFileSync(lost);
    rmSync(lost);
    truncateSync(join(folder, 'rows_0-4/data_1.ckpt'), 3000);
    const before = files(folder);
    const asked = await tidemark(['adopt', folder, ...engineFlags]);
    expect(asked.code).toBe(4);
    expect(asked.stderr).toContain('8 sound files');
    expect(asked.stdout).toMatch(/next: tidemark adopt .* --layers 2,4,5 --yes/);
    const unnamed = await tidemark(['adopt', folder, ...engineFlags, '--yes']);
    expect(unnamed.code).toBe(4);
    expect(unnamed.stderr).toContain('which layers the files hold cannot be inferred, and was not named: --layers');
    expect(readdirSync(folder)).not.toContain('.tidemark');
    const adopted = await tidemark(['adopt', folder, ...engineFlags, '--layers', '2,4,5', '--yes']);
    expect(adopted.code, adopted.stderr).toBe(3);
    expect(files(folder)).toEqual(before);
    const report = JSON.parse((await tidemark(['assess', folder, '--json'])).stdout) as Report;
    expect(report.totals).toMatchObject({ sound: 8, torn: 1, missing: 1 });
    expect(report.findings.map((finding) => finding.code)).not.toContain('TM-S10');
    const resumed = await tidemark(['resume', folder]);
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(readFileSync(lost).equals(bytes)).toBe(true);
    const [a, b] = await Promise.all(
      [folder, good].map(async (one) => (JSON.parse((await tidemark(['verify', one, '--json'])).stdout) as Report).digest),
    );
    expect(a).toBe(b);
  });

  it('refuses a target that does not fit the files', async () => {
    const folder = copy('misfit', false);
    const end = await tidemark(['adopt', folder, ...engineFlags, '--layers', '2,4', '--yes']);
    expect(end.code).toBe(4);
    expect(end.stderr).toContain('the files hold 3 auxiliary layers, 2 were named');
    expect(readdirSync(folder)).not.toContain('.tidemark');
  });
});

describe('repair, plan and accept', () => {
  it('sets aside and records without an engine, and says the same beforehand', async () => {
    const folder = copy('repair', true);
    truncateSync(join(folder, 'rows_0-4/data_1.ckpt'), 3000);
    rmSync(join(folder, '.tidemark/journal/shard-1.1.log'));
    const dry = await tidemark(['repair', folder, '--dry-run']);
    expect(dry.stdout).toContain('1 would be set aside: rows 1');
    expect(dry.stdout).toContain('4 would be proved and recorded: rows 4-7');
    const plan = JSON.parse((await tidemark(['plan', folder, '--json'])).stdout) as Plan;
    expect(plan.steps.map((step) => step.what)).toEqual(['set-aside', 'adopt', 'extract']);
    const done = await tidemark(['repair', folder]);
    expect(done.code, done.stderr).toBe(3);
    expect(done.stdout).toContain('4 proved and recorded');
    expect(readdirSync(join(folder, 'rows_0-4'))).not.toContain('data_1.ckpt');
    const accepted = await tidemark(['accept', folder, '1', '--reason', 'the answer is cut']);
    expect(accepted.code, accepted.stderr).toBe(0);
    const sound = await tidemark(['accept', folder, '2', '--reason', 'x']);
    expect(sound.code).toBe(2);
    const report = JSON.parse((await tidemark(['assess', folder, '--json'])).stdout) as Report;
    expect(report.missing.accepted).toBe(1);
    expect((await tidemark(['assess', folder])).code).toBe(0);
  });

  it('calls malformed rows failed, and not accepted by anybody', async () => {
    const folder = join(place, 'malformed');
    const rows = join(place, 'malformed.jsonl');
    writeFileSync(rows, `${readFileSync(dataset, 'utf8')}{"input_ids": [1, 2, 3], "loss_mask": [1]}\n`);
    const end = await tidemark(['extract', '--output', folder, ...engineFlags, '--dataset', rows]);
    expect(end.code).toBe(4);
    expect(end.stderr).toContain('line 11');
    expect(end.stderr).toContain('loss_mask has 1 entries and input_ids 3');
  });
});

describe('what is lost of .tidemark', () => {
  it('goes on as the same run when run.json is gone', async () => {
    const folder = copy('no-run-json', true);
    rmSync(join(folder, '.tidemark/run.json'));
    rmSync(join(folder, 'rows_4-8/data_5.ckpt'));
    const assessed = await tidemark(['assess', folder, '--dataset', dataset, '--model', MODEL]);
    expect(assessed.stdout).toContain('TM-L07');
    const other = await tidemark(['extract', '--output', folder, '--group-size', '4', ...engineFlags, '--layers', '2,4,6']);
    expect(other.code).toBe(4);
    const end = await tidemark(['extract', '--output', folder, '--group-size', '4', ...engineFlags]);
    expect(end.code, end.stderr).toBe(0);
  });

  it('assesses without settings, and refuses what a newer tidemark wrote', async () => {
    const folder = copy('damaged-memory', true);
    writeFileSync(join(folder, '.tidemark/settings.json'), '{');
    const assessed = await tidemark(['assess', folder]);
    expect(assessed.code).toBe(0);
    expect(assessed.stdout).toContain('TM-L08');
    const table = readFileSync(join(folder, '.tidemark/rows.bin'));
    table.write('TMROWS02', 0, 'latin1');
    writeFileSync(join(folder, '.tidemark/rows.bin'), table);
    for (const argv of [
      ['assess', folder],
      ['extract', '--output', folder, '--group-size', '4', ...engineFlags],
    ]) {
      const end = await tidemark(argv);
      expect(end.code).toBe(7);
      expect(end.stderr).toContain('TMROWS02');
    }
    expect(readFileSync(join(folder, '.tidemark/rows.bin')).equals(table)).toBe(true);
  });

  it('starts again although a lease file is gone', async () => {
    const folder = copy('no-lease', true);
    rmSync(join(folder, '.tidemark/leases/shard-1.1'));
    rmSync(join(folder, 'rows_4-8/data_5.ckpt'));
    expect((await tidemark(['resume', folder])).code).toBe(0);
  });
});

describe('output that nobody takes', () => {
  const withOutputs = (argv: readonly string[], out: number | 'pipe', err: number | 'pipe') =>
    new Promise<{ code: number | null; stderr: string }>((done) => {
      const child = spawn(process.execPath, [CLI, ...argv], { stdio: ['ignore', out, err] });
      let stderr = '';
      child.stderr?.on('data', (data: Buffer) => {
        stderr += data.toString('utf8');
      });
      // A reader that goes away at once.
      if (out === 'pipe') child.stdout?.destroy();
      child.once('close', (code) => done({ code, stderr }));
    });

  it('says in one line that a report could not be written, and nothing of ours falls over', async () => {
    const full = openSync('/dev/full', 'w');
    const end = await withOutputs(['assess', good, '--json'], full, 'pipe');
    expect(end.code).toBe(1);
    expect(end.stderr).toContain('the output could not be written');
    expect(end.stderr).not.toContain('    at ');
    const gone = await withOutputs(['assess', good, '--json'], 'pipe', 'pipe');
    expect(gone.stderr).toBe('');
  });

  it('finishes an extraction whose log and events have nowhere to go', async () => {
    const full = openSync('/dev/full', 'w');
    const folder = copy('no-log', true);
    for (const row of [1, 2, 5]) rmSync(join(folder, `rows_${row - (row % 4)}-${row - (row % 4) + 4}/data_${row}.ckpt`));
    expect((await withOutputs(['resume', folder, '--events'], 'pipe', full)).code).toBe(0);
    expect((await tidemark(['assess', folder])).code).toBe(0);
  });
});

describe('verify --head and --html', () => {
  it('asks the target about the stored states', async () => {
    const end = await tidemark(['verify', good, '--head', MODEL, '--dataset', dataset]);
    expect(end.code, end.stdout + end.stderr).toBe(0);
    expect(end.stdout).toContain('post-norm');
  });

  it('never writes a page over a sample, a dataset, or into the folder', async () => {
    const sample = join(good, 'rows_0-4/data_0.ckpt');
    const before = readFileSync(sample);
    for (const path of [sample, dataset, join(good, 'report.html')]) {
      const end = await tidemark(['assess', good, '--html', path]);
      expect(end.code).toBe(2);
    }
    expect(readFileSync(sample).equals(before)).toBe(true);
    const page = join(place, 'page.html');
    expect((await tidemark(['assess', good, '--html', page])).code).toBe(0);
    expect((await tidemark(['assess', good, '--html', page])).code).toBe(0);
  });

  it('refuses an empty argument, as of an unset variable', async () => {
    mkdirSync(join(place, 'empty'));
    const end = await tidemark(['purge', '']);
    expect(end.code).toBe(2);
    expect(end.stderr).toContain('empty');
  });
});
