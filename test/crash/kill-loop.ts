import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { indicesOf } from '../../src/core/ranges.ts';
import type { Report } from '../../src/core/report.ts';
import { readTrace } from '../support/gated-host.ts';
import { freePort, MODEL, program, ROOT, Running, startEngine, tidemark } from '../support/processes.ts';
import { type Random, seededRandom } from '../support/seeded-random.ts';
import { COMMIT_STEPS, type CommitStep, gateOf, OTHER_GATES, stepOf } from './steps.ts';

export interface CampaignOptions {
  readonly kills: number;
  readonly seed: number;
  /** An empty folder of ours. */
  readonly workspace: string;
  log(line: string): void;
}

export interface CampaignResult {
  readonly kills: number;
  readonly hits: ReadonlyMap<CommitStep | 'elsewhere', number>;
  readonly engineKills: number;
  readonly runs: number;
  /** What went wrong, with the kill after which it was seen. Empty when every promise held. */
  readonly broken: readonly string[];
}

const GATED = join(ROOT, '.tmp/crash-build/test/crash/gated-main.js');
const DATASET = join(ROOT, 'test/support/dialogues.jsonl');

interface Seen {
  readonly digest: string;
  readonly inode: number;
  readonly modifiedMs: number;
}

/**
 * Kills a real driver (and now and then the engine under it) at seeded moments, half of them aimed at a step
 * of a commit, half at a random time; after each kill assesses, and goes on from there. The laws: a sample that
 * was committed is never lost, nothing torn is called sound, no sound file is rewritten, and the end equals an uninterrupted run.
 */
export async function killCampaign(options: CampaignOptions): Promise<CampaignResult> {
  await program('npx', ['tsc', '-p', 'tsconfig.crash.json']);
  const campaign = new Campaign(options);
  try {
    return await campaign.run();
  } finally {
    await campaign.close();
  }
}

class Campaign {
  readonly #options: CampaignOptions;
  readonly #random: Random;
  readonly #staging: string;
  readonly #broken: string[] = [];
  readonly #hits = new Map<CommitStep | 'elsewhere', number>();
  #engine: Running | null = null;
  #port = 0;
  #reference = new Map<string, string>();
  #referenceDigest = '';
  #kills = 0;
  #engineKills = 0;
  #runs = 0;

  constructor(options: CampaignOptions) {
    this.#options = options;
    this.#random = seededRandom(options.seed);
    this.#staging = join(options.workspace, 'staging');
    mkdirSync(this.#staging, { recursive: true });
  }

  async run(): Promise<CampaignResult> {
    this.#port = await freePort();
    await this.#ensureEngine();
    await this.#makeReference();
    while (this.#kills < this.#options.kills) await this.#oneRun();
    return { kills: this.#kills, hits: this.#hits, engineKills: this.#engineKills, runs: this.#runs, broken: this.#broken };
  }

  async close(): Promise<void> {
    this.#engine?.kill('SIGKILL');
    await this.#engine?.finished;
  }

  async #ensureEngine(): Promise<void> {
    if (this.#engine !== null && this.#engine.child.exitCode === null && this.#engine.child.signalCode === null) return;
    this.#engine = await startEngine(this.#port, this.#staging);
  }

  #extractArgs(folder: string): string[] {
    return [
      ...['extract', '--output', folder, '--dataset', DATASET, '--model', MODEL, '--url', `http://127.0.0.1:${this.#port}`],
      ...['--staging', this.#staging, '--group-size', '16', '--in-flight', '4', '--layers', '2,4,5', '--reserve', '1MB'],
    ];
  }

  async #makeReference(): Promise<void> {
    const folder = join(this.#options.workspace, 'reference');
    const end = await tidemark(this.#extractArgs(folder));
    if (end.code !== 0) throw new Error(`the uninterrupted run ended with ${end.code}: ${end.stderr}`);
    for (const [path, seen] of samplesIn(folder)) this.#reference.set(path, seen.digest);
    this.#referenceDigest = await this.#digestOf(folder);
  }

  async #digestOf(folder: string): Promise<string> {
    const { report, code } = await assess(folder, ['verify', '--level', 'content']);
    if (code !== 0 || report.digest === null) throw new Error(`verify of ${folder} ended with ${code} and digest ${report.digest}`);
    return report.digest;
  }

  /** One folder, killed until it is complete (or enough kills were made), then finished and compared. */
  async #oneRun(): Promise<void> {
    this.#runs += 1;
    const folder = join(this.#options.workspace, `run-${this.#runs}`);
    const acknowledged = new Set<number>();
    const sound = new Map<string, Seen>();
    for (;;) {
      await this.#ensureEngine();
      if (this.#kills >= this.#options.kills) break;
      const killed = await this.#startAndKill(folder, acknowledged);
      if (!killed) break;
      this.#kills += 1;
      await this.#check(folder, acknowledged, sound);
    }
    const end = await tidemark(this.#commandFor(folder));
    if (end.code !== 0) this.#break(`the last resume of ${folder} ended with ${end.code}: ${end.stderr}${end.stdout}`);
    else await this.#compare(folder, sound);
    if (this.#broken.length === 0) rmSync(folder, { recursive: true });
  }

  #commandFor(folder: string): string[] {
    return existsSync(join(folder, '.tidemark/run.json')) ? ['resume', folder] : this.#extractArgs(folder);
  }

  /** @returns false when the driver came to its end before the kill */
  async #startAndKill(folder: string, acknowledged: Set<number>): Promise<boolean> {
    const trace = join(this.#options.workspace, 'trace');
    const random = this.#random;
    // Every second kill is aimed, so that a share of the campaign still meets every step.
    const aimed = this.#kills % 2 === 0;
    const place = aimed ? this.#nextPlace() : null;
    const gate =
      place === null
        ? {}
        : { TIDEMARK_TEST_GATE: gateOf(place, 1 + random.below(place.startsWith('lease') || place.startsWith('run-record') ? 2 : 5)) };
    const withEngine = random.chance(0.15);
    const after = random.below(10);
    const delayMs = random.below(60);
    const driver = new Running(GATED, [...this.#commandFor(folder), '--events'], { TIDEMARK_TEST_TRACE: trace, ...gate });
    let committed = 0;
    driver.onLine((line) => {
      const event = JSON.parse(line) as { kind: string; record?: { row: number } };
      if (event.kind !== 'committed' || event.record === undefined) return;
      acknowledged.add(event.record.row);
      committed += 1;
      // A time counted from an event and not from the start: a slow machine moves the moment, not the law.
      if (!aimed && committed === after) setTimeout(() => this.#killBoth(driver, withEngine), delayMs);
    });
    if (!aimed && after === 0) setTimeout(() => this.#killBoth(driver, withEngine), 400 + 20 * delayMs);
    const end = await driver.finished;
    if (end.signal !== 'SIGKILL') {
      if (end.code !== 0) this.#break(`a start of ${folder} that was not killed ended with ${end.code}: ${end.stderr}`);
      // It came to its end before the gate: the place is still to be hit.
      if (place !== null) this.#places.push(place);
      return false;
    }
    if (aimed && withEngine) await this.#killEngine();
    const last = existsSync(trace) ? readTrace(trace) : null;
    // A gate is where the driver was stopped, whatever another lane wrote into the trace at the same moment.
    const [pathClass = '', op = ''] = place === null ? [last?.class, last?.op] : place.split(':');
    const step = stepOf({ class: pathClass, op });
    this.#hits.set(step ?? 'elsewhere', (this.#hits.get(step ?? 'elsewhere') ?? 0) + 1);
    this.#options.log(
      `kill ${this.#kills + 1}: ${aimed ? `aimed at ${gate.TIDEMARK_TEST_GATE}` : 'at a random time'}, ${last === null ? 'before the first step' : `${last.phase} ${last.class} ${last.op}`}${withEngine ? ', with the engine' : ''}`,
    );
    return true;
  }

  #killBoth(driver: Running, withEngine: boolean): void {
    driver.kill('SIGKILL');
    if (withEngine) void this.#killEngine();
  }

  async #killEngine(): Promise<void> {
    this.#engineKills += 1;
    this.#engine?.kill('SIGKILL');
    await this.#engine?.finished;
  }

  /** Every step once before any twice, in seeded order: no step of a commit is left out by chance. */
  readonly #places: string[] = [];
  #nextPlace(): string {
    if (this.#places.length === 0) {
      const all = [
        ...Object.values(COMMIT_STEPS).map((places) => places[this.#random.below(places.length)] ?? places[0]),
        ...OTHER_GATES.slice(0, 2),
      ];
      for (let left = all.length; left > 0; left -= 1) this.#places.push(...all.splice(this.#random.below(left), 1));
    }
    return this.#places.pop() ?? 'sample:link:before';
  }

  async #check(folder: string, acknowledged: ReadonlySet<number>, sound: Map<string, Seen>): Promise<void> {
    if (!existsSync(join(folder, '.tidemark/run.json'))) {
      if (acknowledged.size > 0) this.#break(`${folder} is no run any more`);
      return;
    }
    const { report, code } = await assess(folder, ['assess']);
    if (code !== 0 && code !== 3) this.#break(`assess after kill ${this.#kills} ended with ${code}`);
    const counted = report.verdicts.reduce((sum, group) => sum + group.count, 0);
    if (counted !== report.totals.rows) this.#break(`kill ${this.#kills}: verdicts add up to ${counted} of ${report.totals.rows} rows`);
    for (const kind of ['torn', 'corrupt', 'drifted', 'poisoned', 'unreadable'] as const) {
      if (report.totals[kind] > 0) this.#break(`kill ${this.#kills}: ${report.totals[kind]} rows are ${kind}`);
    }
    const rows = new Set(indicesOf(report.verdicts.filter((group) => group.verdict === 'sound').flatMap((group) => [...group.ranges])));
    for (const row of acknowledged) if (!rows.has(row)) this.#break(`kill ${this.#kills}: row ${row} was committed and is not sound`);
    const files = samplesIn(folder);
    for (const row of rows) {
      const path = `rows_${row - (row % 16)}-${row - (row % 16) + 16}/data_${row}.ckpt`;
      const file = files.get(path);
      if (file === undefined) this.#break(`kill ${this.#kills}: row ${row} is called sound and ${path} is not there`);
      else if (file.digest !== this.#reference.get(path)) this.#break(`kill ${this.#kills}: ${path} is called sound and has other bytes`);
    }
    this.#unchanged(files, sound);
    for (const [path, file] of files) sound.set(path, file);
  }

  #unchanged(files: ReadonlyMap<string, Seen>, sound: ReadonlyMap<string, Seen>): void {
    for (const [path, before] of sound) {
      const now = files.get(path);
      if (now?.inode !== before.inode || now.modifiedMs !== before.modifiedMs)
        this.#break(`kill ${this.#kills}: ${path} was sound and has been rewritten`);
    }
  }

  async #compare(folder: string, sound: ReadonlyMap<string, Seen>): Promise<void> {
    const files = samplesIn(folder);
    this.#unchanged(files, sound);
    if (files.size !== this.#reference.size) this.#break(`${folder} ends with ${files.size} files, not ${this.#reference.size}`);
    for (const [path, digest] of this.#reference)
      if (files.get(path)?.digest !== digest) this.#break(`${folder}: ${path} ends with other bytes`);
    const digest = await this.#digestOf(folder);
    if (digest !== this.#referenceDigest) this.#break(`${folder} ends with digest ${digest}, not ${this.#referenceDigest}`);
    await this.#purge(folder);
    const again = await tidemark(['resume', folder]);
    const second = samplesIn(folder);
    this.#unchanged(second, files);
    if (again.code !== 0) this.#break(`a resume of the complete ${folder} ended with ${again.code}`);
  }

  /** What the kills left behind can be given back, and nothing else goes. */
  async #purge(folder: string): Promise<void> {
    const end = await tidemark(['purge', folder]);
    if (end.code !== 0) this.#break(`purge of ${folder} ended with ${end.code}: ${end.stderr}`);
    const left = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.tmp'));
    if (left.length > 0) this.#break(`purge of ${folder} left ${left.join(', ')}`);
  }

  #break(what: string): void {
    this.#broken.push(what);
    this.#options.log(`BROKEN: ${what}`);
  }
}

async function assess(folder: string, argv: readonly string[]): Promise<{ report: Report; code: number | null }> {
  const end = await tidemark([...argv, folder, '--json']);
  if (end.stdout === '') throw new Error(`${argv.join(' ')} of ${folder} printed nothing: ${end.stderr}`);
  return { report: JSON.parse(end.stdout) as Report, code: end.code };
}

/** Every sample file under its final name, read by nobody's code but this: path, SHA-256, inode, time. */
function samplesIn(folder: string): Map<string, Seen> {
  const found = new Map<string, Seen>();
  for (const group of readdirSync(folder)) {
    if (!group.startsWith('rows_')) continue;
    for (const name of readdirSync(join(folder, group))) {
      if (!name.endsWith('.ckpt')) continue;
      const path = join(folder, group, name);
      const stat = statSync(path);
      found.set(`${group}/${name}`, {
        digest: createHash('sha256').update(readFileSync(path)).digest('hex'),
        inode: stat.ino,
        modifiedMs: stat.mtimeMs,
      });
    }
  }
  return found;
}
