import { assessAt } from '../../src/app/assessment.ts';
import { parseSettings } from '../../src/app/config-settings.ts';
import { renderReport } from '../../src/cli/render-report.ts';
import { isTidemarkError, messageOf } from '../../src/core/errors.ts';
import type { Report } from '../../src/core/report.ts';
import type { RunIdentity } from '../../src/core/settings.ts';
import { encodeLine, parseLines } from '../../src/format/checked-lines.ts';
import { readScope } from '../../src/ledger/journal.ts';
import { listLeases } from '../../src/ledger/lease.ts';
import type { LedgerReader } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { runIdOf } from '../../src/ledger/run-record.ts';
import { openRunWriter } from '../../src/ledger/write.ts';
import type { Random } from '../support/seeded-random.ts';
import { FOLDER, type FolderFiles, folderWith, goodFolder } from './ledger-folder.ts';
import { damaged, oddNumber, oneOf } from './mutate.ts';
import { type FuzzTarget, input, keep } from './target.ts';

const DEEP = '['.repeat(100_000);

/** A whole `.tidemark/` of which one file is damaged, or was made on purpose. The kind of the file names the target. */
export async function ledgerTargets(): Promise<readonly FuzzTarget[]> {
  const good = await goodFolder();
  const kinds: readonly [string, RegExp][] = [
    ['ledger-run', /run\.json$/],
    ['ledger-settings', /settings\.json$/],
    ['ledger-rows', /rows\.bin$/],
    ['ledger-lease', /\/leases\//],
    ['ledger-journal', /\.log$/],
  ];
  return Promise.all(
    kinds.map(([name, pattern]) =>
      targetOf(
        name,
        good,
        [...good.keys()].filter((path) => pattern.test(path)),
      ),
    ),
  );
}

async function targetOf(name: string, good: FolderFiles, paths: readonly string[]): Promise<FuzzTarget> {
  const truth = await ledgerOf(good, paths[0] ?? '', null);
  const bytesOf = (path: string): Uint8Array => good.get(path) ?? new Uint8Array(0);
  const everything = [...good.keys()];
  return {
    name,
    make(random) {
      const path = oneOf(random, paths);
      if (random.chance(0.25)) return { ...input(hostile(random, path, bytesOf(path)), 'made on purpose'), file: path };
      const { bytes, made } = damaged(random, bytesOf(path), bytesOf(oneOf(random, random.chance(0.7) ? paths : everything)));
      return { ...input(bytes, made, { sealed: true }), file: path };
    },
    async check(fuzz) {
      const path = fuzz.file ?? '';
      const seen = await ledgerOf(good, path, fuzz.bytes);
      if (fuzz.sealed) {
        for (const part of ['run', 'settings', 'table', 'holder'] as const)
          keep(seen[part] === null || seen[part] === truth[part], `it believes a damaged ${part}: ${seen[part]}`);
        if (path.endsWith('.log')) await keepJournals(good, path, fuzz.bytes);
        await keepLocked(good, path, fuzz.bytes);
      }
      const report = await keepTold(() => assessAt(folderWith(good, path, fuzz.bytes, 'dead'), FOLDER, ASSESSED));
      if (report !== null) keepReadable(report);
    },
  };
}

const ASSESSED = { dataset: null, model: null, level: 'identity', cwd: '/' } as const;

interface Seen {
  readonly run: string | null;
  readonly settings: string | null;
  readonly table: string | null;
  readonly holder: string | null;
}

const NOTHING: Seen = { run: null, settings: null, table: null, holder: null };

/** What the ledger says of a folder, each part as text; all of it is read. */
async function ledgerOf(good: FolderFiles, path: string, bytes: Uint8Array | null): Promise<Seen> {
  const host = folderWith(good, bytes === null ? '' : path, bytes ?? new Uint8Array(0), 'alive');
  const ledger = await keepTold(() => openLedger(host, FOLDER, { parseSettings }));
  if (ledger === null) return NOTHING;
  keep((ledger.settings === null) === (ledger.settingsProblem !== null), 'settings are there and not there');
  keep((ledger.table === null) === (ledger.tableProblem !== null), 'rows are there and not there');
  await keepRecords(ledger);
  const table = ledger.table?.encode();
  return {
    run: JSON.stringify(ledger.run),
    settings: ledger.settings === null ? null : JSON.stringify(ledger.settings),
    table: table === undefined ? null : Buffer.from(table).toString('base64'),
    holder: holderOf(await ledger.holder()),
  };
}

/** That a lease cannot be read is no belief in anybody; that nobody holds it is. */
function holderOf(holder: Awaited<ReturnType<LedgerReader['holder']>>): string | null {
  return holder?.alive === 'unreadable' ? null : JSON.stringify(holder);
}

async function keepRecords(ledger: LedgerReader): Promise<void> {
  const problems = [...(await ledger.history()).problems];
  for (const [from, to] of await ledger.accepted()) keep(Number.isSafeInteger(from) && from >= 0 && to > from, `rows ${from} to ${to}`);
  for (let shard = 0; shard < Math.min(ledger.shardCount, 8); shard += 1) {
    const state = await ledger.shard(shard);
    problems.push(...state.problems);
    for (const row of state.rows.keys()) keep(row >= state.range[0] && row < state.range[1], `shard ${shard} speaks of row ${row}`);
  }
  for (const { detail } of problems) keepShort(detail);
  for (const said of [ledger.settingsProblem, ledger.tableProblem]) if (said !== null) keepShort(said);
}

/** Only what a writer of the run wrote is believed, and a journal that another stands behind is missed when it changes. */
async function keepJournals(good: FolderFiles, path: string, bytes: Uint8Array): Promise<void> {
  const before = folderWith(good, '', bytes, 'alive');
  const after = folderWith(good, path, bytes, 'alive');
  const scope = path.includes('/run.') ? 'run' : (/shard-\d+/.exec(path)?.[0] as 'shard-0');
  const run = idOfRun(good);
  const leases = (await listLeases(before.files, FOLDER)).get(scope) ?? [];
  const [was, is] = [await readScope(before.files, FOLDER, run, scope, leases), await readScope(after.files, FOLDER, run, scope, leases)];
  // A line of another journal that comes to stand right behind a whole one is not told from its own: its rows are others then, or its kind is.
  const known = new Set([...good.values()].flatMap((content) => parseLines(content).values.map((value) => JSON.stringify(value))));
  for (const { lease, record } of is.records) {
    keep(known.has(JSON.stringify(record)), `it believes a record of lease ${lease} that nobody wrote: ${JSON.stringify(record)}`);
  }
  const complete = JSON.stringify(is.records) === JSON.stringify(was.records);
  const newest = path.endsWith(`.${leases.at(-1)}.log`);
  keep(complete || newest || is.problems.length > 0, 'records of an earlier start are gone, and nothing is said');
  keep(!is.closed || was.closed, 'it takes a journal for closed that is not');
}

function idOfRun(good: FolderFiles): string {
  const bytes = good.get(`${FOLDER}/.tidemark/run.json`) ?? new Uint8Array(0);
  return (JSON.parse(Buffer.from(bytes).toString('utf8')) as { id: string }).id;
}

/** While the holder lives nobody else gets in, whatever happened to one file. */
async function keepLocked(good: FolderFiles, path: string, bytes: Uint8Array): Promise<void> {
  const host = folderWith(good, path, bytes, 'alive');
  const writer = await keepTold(() => openRunWriter(host, FOLDER, { takeOver: false }));
  keep(writer === null, 'a second driver gets in beside a live one');
}

/** Null when it is refused in the words of the contract. */
async function keepTold<T>(act: () => Promise<T>): Promise<T | null> {
  try {
    return await act();
  } catch (error) {
    if (!isTidemarkError(error, 'format-refused', 'run-locked', 'run-unknown-holder', 'no-run', 'decision-needed')) throw error;
    keepShort(messageOf(error));
    return null;
  }
}

function keepReadable(report: Report): void {
  const text = renderReport(report);
  keep(text.length < 200_000, `the report has ${text.length} characters`);
  keep(!/[\p{Cc}]/u.test(text.replaceAll('\n', '')), 'the report has control characters');
}

function keepShort(text: string): void {
  keep(text.length < 20_000, `it says ${text.length} characters`);
  keep(![...text].some((character) => character < ' '), `it says control characters: ${JSON.stringify(text).slice(0, 300)}`);
}

/** What somebody would write on purpose: every checksum is right, and the content is not what a writer of ours writes. */
function hostile(random: Random, path: string, good: Uint8Array): Buffer {
  if (path.endsWith('rows.bin')) return Buffer.from(oneOf(random, ['', 'TMROWS01', 'TMROWS02'.padEnd(64, '\0'), DEEP]));
  if (path.endsWith('.json')) return hostileDocument(random, good);
  const { values } = parseLines(good);
  const lines = values.map((value) => JSON.stringify(value));
  const count = 1 + random.below(3);
  for (let turn = 0; turn < count; turn += 1) {
    const at = random.below(lines.length);
    lines[at] = strange(random, lines[at] ?? '');
    if (random.chance(0.2)) lines.splice(at, 0, oneOf(random, lines));
  }
  return Buffer.concat(lines.filter(isJson).map((line) => encodeLine(JSON.parse(line))));
}

/** Without its checksum, and with the digest that its strange identity has. */
function hostileDocument(random: Random, good: Uint8Array): Buffer {
  if (random.chance(0.1)) return Buffer.from(oneOf(random, [DEEP, 'null', '[]', '"x"', '', `{"check":${DEEP}`]));
  const { check: _, ...rest } = JSON.parse(Buffer.from(good).toString('utf8')) as Readonly<Record<string, unknown>>;
  let text = strange(random, JSON.stringify(rest));
  if (random.chance(0.2)) text = strange(random, text);
  if (!isJson(text)) return Buffer.from(text);
  const value = JSON.parse(text) as { identity?: RunIdentity };
  return Buffer.from(JSON.stringify(value.identity === undefined ? value : { ...value, id: runIdOf(value.identity) }));
}

/** One value of a JSON text replaced by one that nobody expects there. */
function strange(random: Random, text: string): string {
  const values = [...text.matchAll(/:\s*("(?:[^"\\]|\\.)*"|-?[\d.]+|null|true|false)/g)];
  const one = values[random.below(Math.max(values.length, 1))];
  if (one === undefined) return text;
  const odd = [
    'null',
    '-1',
    '1e308',
    '9007199254740991',
    '9007199254740992',
    `${oddNumber(random, 12)}`,
    '[]',
    '{}',
    '{"__proto__":{"x":1}}',
    '""',
    '"\\u001b[2J\\u0000"',
    `"${'x'.repeat(100_000)}"`,
    '"../../etc/passwd"',
    '"tidemark.run/2"',
    '"tidemark.journal/2"',
    '[[0,9007199254740991]]',
    '[[5,3]]',
    '[0]',
  ];
  return `${text.slice(0, one.index)}:${oneOf(random, odd)}${text.slice(one.index + one[0].length)}`;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
