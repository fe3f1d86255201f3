import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Report } from '../src/core/report.ts';
import { CLI, freePort, MODEL, ROOT, Running, startEngine, tidemark } from '../test/support/processes.ts';
import { losePageCache } from './lose-page-cache.ts';

// The main job, from nothing to a finished set of hidden states, with a real kill in the middle. The prompts were made by
// `python3 models/tide-5m/make_text.py prompts --count 240 --seed 9`.
const output = join(ROOT, 'demo-output');
const folder = join(output, 'hidden_states');
const plain = join(output, 'plain_writer');
const reference = join(output, 'uninterrupted');
const staging = join(output, 'staging');
const dataset = join(output, 'merged.jsonl');
const began = performance.now();

function say(text: string): void {
  console.log(`\n[${((performance.now() - began) / 1000).toFixed(0).padStart(3)} s] ${text}`);
}

function fail(why: string): never {
  console.error(`the demo failed: ${why}`);
  process.exit(1);
}

/** Shows a command with paths as a reader would type them. */
function show(argv: readonly string[]): void {
  console.log(`\n$ tidemark ${argv.map((word) => (word.startsWith(ROOT) ? relative(process.cwd(), word) || '.' : word)).join(' ')}`);
}

/** Runs a command of tidemark, showing it and all it says. */
async function command(argv: readonly string[], wanted: number): Promise<void> {
  show(argv);
  const running = new Running(CLI, argv);
  running.child.stdout?.on('data', (data: Buffer) => process.stdout.write(data));
  running.child.stderr?.on('data', (data: Buffer) => process.stderr.write(data));
  const end = await running.finished;
  console.log(`(exit code ${end.code})`);
  if (end.code !== wanted) fail(`it should have ended with ${wanted}`);
}

async function reportOf(argv: readonly string[]): Promise<Report> {
  const end = await tidemark([...argv, '--json']);
  if (end.stdout === '') fail(end.stderr);
  return JSON.parse(end.stdout) as Report;
}

function freshOutput(): void {
  const marker = join(output, '.made-by-the-demo');
  if (existsSync(output) && !existsSync(marker)) fail(`${output} is not the demo's own; move it away`);
  rmSync(output, { recursive: true, force: true });
  mkdirSync(staging, { recursive: true });
  writeFileSync(marker, '');
}

freshOutput();
const port = await freePort();
const url = `http://127.0.0.1:${port}`;
const extractArgs = (to: string): string[] => [
  ...['extract', '--output', to, '--dataset', dataset, '--model', MODEL, '--url', url, '--staging', staging],
  ...['--group-size', '50', '--in-flight', '4', '--reserve', '100MB'],
];

say('1. the engine: a 5-million-parameter Llama, served by its own process in the dialect of vLLM');
show(['engine', '--model', MODEL, '--port', `${port}`, '--staging', staging]);
let engine = await startEngine(port, staging, ['--threads', '2']);

try {
  say('2. generate: the target answers 240 prompts');
  await command(['generate', join(ROOT, 'demo/prompts.jsonl'), '--output', dataset, '--url', url, '--max-tokens', '120', '--seed', '9'], 0);
  const rows = readFileSync(dataset, 'utf8').trimEnd().split('\n').length;

  say(`3. extract: hidden states of ${rows} samples; driver and engine will be killed part-way`);
  show(extractArgs(folder));
  const driver = new Running(CLI, [...extractArgs(folder), '--events']);
  driver.child.stderr?.on('data', (data: Buffer) => process.stderr.write(data));
  let committed = 0;
  driver.onLine((line) => {
    if ((JSON.parse(line) as { kind: string }).kind !== 'committed') return;
    committed += 1;
    if (committed === Math.floor(rows * 0.45)) {
      driver.kill('SIGKILL');
      engine.kill('SIGKILL');
    }
  });
  const died = await driver.finished;
  await engine.finished;
  if (died.signal !== 'SIGKILL') fail(`the driver ended with ${died.code} before the kill: ${died.stderr}`);
  console.log(`kill -9 of driver and engine after ${committed} samples that it had called committed`);

  say('   beside it: the same samples by a plain writer (final names, no fsync), and then a power cut');
  engine = await startEngine(port, staging, ['--threads', '2']);
  // Node itself and no wrapper around it: a kill must reach the writer.
  const writer = new Running('--import', [
    pathToFileURL(join(ROOT, 'node_modules/tsx/dist/loader.mjs')).href,
    join(ROOT, 'demo/plain-writer.ts'),
    ...['--dataset', dataset, '--output', plain],
    ...['--url', url, '--staging', staging, '--model', MODEL],
  ]);
  writer.onLine((line) => {
    if (Number(line) === Math.floor(rows * 0.45)) writer.kill('SIGKILL');
  });
  await writer.finished;
  const lost = losePageCache(plain, 8);
  for (const { path, what } of lost) console.log(`  ${path}: ${what}`);
  console.log('  (SIGKILL leaves the page cache alone; these pages were taken by hand, the way a power cut takes what was never synced)');

  say('4. assess: the plain writer’s folder, then ours');
  await command(['assess', plain, '--dataset', dataset, '--model', MODEL], 3);
  const page = join(output, 'report.html');
  await command(['assess', folder, '--html', page], 3);
  const [theirs, ours] = [await reportOf(['assess', plain, '--dataset', dataset, '--model', MODEL]), await reportOf(['assess', folder])];
  const damaged = (report: Report): number => report.totals.torn + report.totals.corrupt + report.totals.poisoned;
  if (damaged(theirs) < lost.length || damaged(ours) !== 0 || ours.totals.sound < committed) fail('assess does not tell the two apart');
  console.log(
    `\nplain writer: ${damaged(theirs)} damaged files under good names; ours: ${damaged(ours)}, and all ${committed} committed samples are sound`,
  );

  say('5. resume: only what the plan names');
  await command(['resume', folder], 0);

  say('6. verify: every byte of every sample');
  await command(['verify', folder, '--level', 'content'], 0);

  say('   the same job without a crash, to compare');
  const whole = await tidemark(extractArgs(reference));
  if (whole.code !== 0) fail(whole.stderr);
  const [a, b] = [await reportOf(['verify', folder]), await reportOf(['verify', reference])];
  console.log(`digest after kill and resume: ${a.digest}\ndigest of an uninterrupted run: ${b.digest}`);
  if (a.digest === null || a.digest !== b.digest) fail('the digests differ');

  say('done: killed, assessed, resumed, verified; the digests are equal');
  console.log(`report: ${page}\nsamples: ${folder}`);
} finally {
  engine.kill('SIGTERM');
  await engine.finished;
}
