import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Report } from '../../src/core/report.ts';
import { CLI, type Finished, freePort, MODEL, ROOT, Running, startEngine, tidemark } from '../support/processes.ts';

// The driver as an operator meets it: the built command, a real engine, real files. Names in brackets are the reports
// (docs/field-reports.md) whose kind is tested.

const ROWS = 12;
let place: string;
let port: number;
let engine: Running | null = null;
let count = 0;

beforeAll(async () => {
  place = mkdtempSync(join(tmpdir(), 'tidemark-extract-'));
  port = await freePort();
});

afterEach(async () => {
  await stopEngine();
});

afterAll(() => rmSync(place, { recursive: true }));

async function stopEngine(): Promise<void> {
  engine?.kill('SIGKILL');
  await engine?.finished;
  engine = null;
}

async function serve(...misbehave: string[]): Promise<void> {
  await stopEngine();
  engine = await startEngine(
    port,
    join(place, 'staging'),
    misbehave.flatMap((spec) => ['--misbehave', spec]),
  );
}

interface Run {
  readonly folder: string;
  readonly dataset: string;
  extract(...more: string[]): Promise<Finished>;
  resume(...more: string[]): Promise<Finished>;
  report(...more: string[]): Promise<Report>;
  argv(...more: string[]): string[];
}

function newRun(): Run {
  count += 1;
  const home = join(place, `run-${count}`);
  mkdirSync(home);
  const dataset = join(home, 'merged.jsonl');
  const lines = readFileSync(join(ROOT, 'test/support/dialogues.jsonl'), 'utf8').split('\n').slice(0, ROWS);
  writeFileSync(dataset, `${lines.join('\n')}\n`);
  const folder = join(home, 'hidden_states');
  const argv = (...more: string[]): string[] => [
    ...['extract', '--output', folder, '--dataset', dataset, '--model', MODEL, '--url', `http://127.0.0.1:${port}`],
    ...['--staging', join(place, 'staging'), '--group-size', '4', '--in-flight', '2', '--reserve', '1MB', ...more],
  ];
  return {
    folder,
    dataset,
    argv,
    extract: (...more) => tidemark(argv(...more)),
    resume: (...more) => tidemark(['resume', folder, ...more]),
    report: async (...more) => JSON.parse((await tidemark(['assess', folder, '--json', ...more])).stdout) as Report,
  };
}

/** Every path below a folder with its bytes, time and inode. */
function snapshot(folder: string): string {
  const hash = createHash('sha256');
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()) {
    const path = join(folder, name);
    const stat = statSync(path);
    hash.update(`${name}\0${stat.ino}\0${stat.mtimeMs}\0`);
    if (stat.isFile()) hash.update(readFileSync(path));
  }
  return hash.digest('hex');
}

const samples = (folder: string): Map<string, string> =>
  new Map(
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.startsWith('rows_') && name.endsWith('.ckpt'))
      .map((name) => [name, `${statSync(join(folder, name)).ino} ${statSync(join(folder, name)).mtimeMs}`]),
  );

const committedRows = (end: Finished): number[] =>
  end.stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as { kind: string; record?: { row: number } })
    .flatMap((event) => (event.kind === 'committed' && event.record !== undefined ? [event.record.row] : []));

describe('a run', () => {
  it('is complete, and a second resume does nothing [P01]', async () => {
    await serve();
    const run = newRun();
    expect((await run.extract()).code).toBe(0);
    const before = samples(run.folder);
    expect(before.size).toBe(ROWS);
    const again = await run.resume('--events');
    expect(again.code).toBe(0);
    expect(committedRows(again)).toEqual([]);
    expect(samples(run.folder)).toEqual(before);
  });

  it('makes exactly the sample that vanished behind its back, from disk and ledger and not from a cache [P01]', async () => {
    await serve();
    const run = newRun();
    await run.extract();
    rmSync(join(run.folder, 'rows_4-8/data_6.ckpt'));
    const report = await run.report();
    expect(report.missing.lost).toBe(1);
    expect(report.plan.extract.ranges).toEqual([[6, 7]]);
    const before = samples(run.folder);
    const end = await run.resume('--events');
    expect(end.code).toBe(0);
    expect(committedRows(end)).toEqual([6]);
    const after = samples(run.folder);
    for (const [path, seen] of before) expect(after.get(path)).toBe(seen);
  });

  it('sets a damaged file aside, makes its row again and comes to the same bytes [P31]', async () => {
    await serve();
    const run = newRun();
    await run.extract();
    const path = join(run.folder, 'rows_0-4/data_2.ckpt');
    const good = readFileSync(path);
    truncateSync(path, 5000);
    const before = snapshot(run.folder);
    const report = await run.report();
    expect(report.verdicts).toContainEqual({ verdict: 'torn', reason: 'truncated', ranges: [[2, 3]], count: 1 });
    expect(snapshot(run.folder)).toBe(before);
    const end = await run.resume('--events');
    expect(end.code).toBe(0);
    expect(committedRows(end)).toEqual([2]);
    expect(readFileSync(path).equals(good)).toBe(true);
    const aside = join(run.folder, '.tidemark/quarantine/rows_0-4');
    expect(readdirSync(aside).sort()).toEqual(['data_2.ckpt.1.torn', 'data_2.ckpt.1.torn.json']);
    expect(JSON.parse(readFileSync(join(aside, 'data_2.ckpt.1.torn.json'), 'utf8'))).toMatchObject({ kind: 'torn', reason: 'truncated' });
  });

  it('sees that a file is not the one that was committed, and loses nothing of it', async () => {
    await serve();
    const run = newRun();
    await run.extract();
    const [a, b] = [join(run.folder, 'rows_0-4/data_1.ckpt'), join(run.folder, 'rows_0-4/data_3.ckpt')];
    renameSync(a, `${a}.x`);
    renameSync(b, a);
    renameSync(`${a}.x`, b);
    expect((await run.report()).verdicts).toContainEqual({
      verdict: 'corrupt',
      reason: 'checksum',
      ranges: [
        [1, 2],
        [3, 4],
      ],
      count: 2,
    });
    const end = await run.resume('--events');
    expect(end.code).toBe(0);
    expect(committedRows(end).sort((x, y) => x - y)).toEqual([1, 3]);
    const aside = readdirSync(join(run.folder, '.tidemark/quarantine/rows_0-4'));
    expect(aside.filter((name) => name.endsWith('.corrupt'))).toHaveLength(2);
  });

  it('drains on SIGINT with 130 and goes on', async () => {
    await serve('slow=1000');
    const run = newRun();
    const driver = new Running(CLI, run.argv('--events'));
    await driver.line(/"committed"/);
    driver.kill('SIGINT');
    const end = await driver.finished;
    expect(end.code).toBe(130);
    const done = committedRows(end);
    expect(done.length).toBeGreaterThan(0);
    expect(done.length).toBeLessThan(ROWS);
    const rest = await run.resume('--events');
    expect(rest.code).toBe(0);
    expect([...done, ...committedRows(rest)].sort((x, y) => x - y)).toEqual([...Array(ROWS).keys()]);
  });

  it('grows with its dataset', async () => {
    await serve();
    const run = newRun();
    await run.extract();
    const line = readFileSync(join(ROOT, 'test/support/dialogues.jsonl'), 'utf8').split('\n')[40] ?? '';
    writeFileSync(run.dataset, `${readFileSync(run.dataset, 'utf8')}${line}\n`);
    const end = await run.resume('--events');
    expect(end.code).toBe(0);
    expect(committedRows(end)).toEqual([ROWS]);
  });
});

describe('what a run refuses', () => {
  it('another configuration in its folder, naming the field and writing nothing [P04]', async () => {
    await serve();
    const run = newRun();
    await run.extract();
    const before = snapshot(run.folder);
    const end = await run.extract('--layers', '2,4,6');
    expect(end.code).toBe(4);
    expect(end.stderr).toContain('layers.auxiliary: [2,4,5] here, [2,4,6] asked');
    expect(snapshot(run.folder)).toBe(before);
  });

  it('a dataset in which one character changed, naming the row [P05d]', async () => {
    await serve();
    const run = newRun();
    await run.extract();
    const before = snapshot(run.folder);
    const lines = readFileSync(run.dataset, 'utf8').split('\n');
    lines[7] = (lines[7] ?? '').replace(/"content": "(\w)/, (_, letter: string) => `"content": "${letter === 'A' ? 'B' : 'A'}`);
    writeFileSync(run.dataset, lines.join('\n'));
    const end = await run.resume();
    expect(end.code).toBe(4);
    expect(end.stderr).toContain('rows 7 are others now');
    expect(snapshot(run.folder)).toBe(before);
  });

  it('a second driver on the same folder, with pid and host [P17]', async () => {
    // It hangs after two samples, so the first driver is still there however slow this machine is.
    await serve('hang:after=2');
    const run = newRun();
    const first = new Running(CLI, run.argv('--events'));
    await first.line(/"committed"/);
    const second = await run.resume();
    expect(second.code).toBe(5);
    expect(second.stderr).toContain(`process ${first.child.pid}`);
    expect((await run.report()).running).not.toBeNull();
    first.kill('SIGKILL');
    await first.finished;
    await serve();
    expect((await run.resume()).code).toBe(0);
  });

  it('to start what will not fit, and says how many would [P33]', async () => {
    await serve();
    const run = newRun();
    const end = await run.extract('--reserve', '90TB');
    expect(end.code).toBe(1);
    expect(end.stderr).toMatch(/12 samples need .* and .* are free: 0 would fit/);
  });

  it('a folder of somebody else', async () => {
    await serve();
    const run = newRun();
    mkdirSync(run.folder);
    writeFileSync(join(run.folder, 'thesis.tex'), 'x');
    const end = await run.extract();
    expect(end.code).toBe(4);
    expect(readdirSync(run.folder)).toEqual(['thesis.tex']);
  });

  it('a target whose final norm it does not know, or cannot read', async () => {
    await serve();
    const run = newRun();
    const model = join(place, `model-${count}`);
    cpSync(MODEL, model, { recursive: true });
    const config = JSON.parse(readFileSync(join(model, 'config.json'), 'utf8')) as Record<string, unknown>;
    writeFileSync(join(model, 'config.json'), JSON.stringify({ ...config, architectures: ['MysteryForCausalLM'] }));
    const unknown = await run.extract('--model', model);
    expect(unknown.code).toBe(1);
    expect(unknown.stderr).toContain('MysteryForCausalLM');
    writeFileSync(join(model, 'config.json'), JSON.stringify(config));
    rmSync(join(model, 'model.safetensors'));
    const without = await run.extract('--model', model);
    expect(without.code).toBe(1);
    expect(without.stderr).toContain('next:');
    expect(existsSync(run.folder)).toBe(false);
  });
});

describe('trouble', () => {
  it('needs nothing of the place that a run was started from [P28]', async () => {
    await serve();
    const run = newRun();
    const home = join(place, 'started-from');
    mkdirSync(home);
    const yaml = `output: ${run.folder}\ndataset: ${run.dataset}\ntarget: {model: ${MODEL}}\nengine: {urls: ["http://127.0.0.1:${port}"], staging: ${place}/staging, inFlight: 1}\nlayout: {groupSize: 4}\nlimits: {reserve: 1MB}\n`;
    writeFileSync(join(home, 'tidemark.yaml'), yaml);
    const driver = new Running(CLI, ['extract', '--events'], {}, home);
    await driver.line(/"committed"/);
    driver.kill('SIGKILL');
    await driver.finished;
    rmSync(home, { recursive: true });
    expect((await run.resume()).code).toBe(0);
  });

  it('gives a row up after its tries, records why, and tries it again only when told to [P10]', async () => {
    await serve('nan:on=5');
    const run = newRun();
    const end = await run.extract('--attempts', '1');
    expect(end.code).toBe(4);
    const report = await run.report();
    expect(report.totals.sound).toBe(ROWS - 1);
    expect(report.missing.failed).toBe(1);
    expect(JSON.stringify(report.findings)).toMatch(/bad-capture.*layer slot \d has a value that is not a number in row \d/);
    const again = await run.resume('--events');
    expect(again.code).toBe(4);
    expect(committedRows(again)).toEqual([]);
    expect((await run.resume('--retry-failed')).code).toBe(0);
  });

  it('tries a bad capture again by itself', async () => {
    await serve('nan:on=3', 'zero-states:on=6', 'wrong-ids:on=8', 'short:on=10', '503:on=12', '500:on=14');
    const run = newRun();
    const end = await run.extract('--attempts', '3', '--timeout', '3s');
    expect(end.code, end.stderr).toBe(0);
    expect(end.stderr).toContain('not a number');
  });

  it.each([
    ['nothing but NaN [P09]', 'nan'],
    ['nothing but zeros [P08]', 'zero-states'],
    ['states shortened by a prefix cache [P06]', 'short'],
  ])('stops when the server is sick: %s', async (_, spec) => {
    await serve(spec);
    const run = newRun();
    const end = await run.extract('--consecutive-failures', '4', '--timeout', '3s');
    expect(end.code).toBe(1);
    expect(end.stderr).toContain('the server is sick, not the rows');
    expect(samples(run.folder).size).toBe(0);
    await serve();
    expect((await run.resume('--retry-failed')).code).toBe(0);
  });

  it('stops at once when the server has no extraction [C.3]', async () => {
    await serve('no-path');
    const run = newRun();
    const end = await run.extract();
    expect(end.code).toBe(1);
    expect(end.stderr).toContain('extract_hidden_states');
  });

  it('stops when the server answers health and nothing else [P20, P23]', async () => {
    await serve('hang:after=4;health-lies');
    const run = newRun();
    const end = await run.extract('--timeout', '1s', '--consecutive-failures', '4');
    expect(end.code).toBe(1);
    expect(samples(run.folder).size).toBe(4);
    await serve();
    expect((await run.resume('--retry-failed')).code).toBe(0);
  });

  it('waits for an engine that comes back [P23]', async () => {
    await serve('slow=700');
    const run = newRun();
    const driver = new Running(CLI, run.argv('--events'));
    await driver.line(/"committed"/);
    await stopEngine();
    await driver.line(/"engine-lost"/);
    await serve();
    expect((await driver.finished).code).toBe(0);
  });

  it('stops at the first write that fails when the folder goes away, and ends with an error [P14]', async () => {
    await serve('slow=500');
    const run = newRun();
    const driver = new Running(CLI, run.argv('--events', '--in-flight', '1'));
    await driver.line(/"committed"/);
    renameSync(run.folder, `${run.folder}-gone`);
    const end = await driver.finished;
    expect(end.code).toBe(1);
    expect(end.stderr).toContain('next:');
    renameSync(`${run.folder}-gone`, run.folder);
    expect((await run.resume()).code).toBe(0);
  });

  it('counts what crashes leave, and gives it back when told to [P27]', async () => {
    await serve();
    const run = newRun();
    await run.extract();
    const orphan = join(run.folder, 'rows_0-4/data_1.ckpt.tidemark-L1.9.tmp');
    writeFileSync(orphan, 'x'.repeat(1000));
    writeFileSync(join(run.folder, 'rows_0-4/.tmpAb12Cd'), 'of somebody else');
    const report = await run.report();
    expect(
      report.extras
        .filter((extra) => extra.kind === 'temp')
        .map((extra) => extra.path)
        .sort(),
    ).toEqual(['rows_0-4/.tmpAb12Cd', 'rows_0-4/data_1.ckpt.tidemark-L1.9.tmp']);
    const purged = await tidemark(['purge', run.folder]);
    expect(purged.code).toBe(0);
    expect(existsSync(orphan)).toBe(false);
    expect(existsSync(join(run.folder, 'rows_0-4/.tmpAb12Cd'))).toBe(true);
  });
});
