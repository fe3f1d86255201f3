import { describe, expect, it } from 'vitest';
import { rowIdentity } from '../../src/core/identity.ts';
import type { IndexRange } from '../../src/core/ranges.ts';
import type { RunIdentity, Settings } from '../../src/core/settings.ts';
import type { Dataset, Row } from '../../src/dataset/dataset.ts';
import { createReplayEngine } from '../../src/engine/replay.ts';
import { type ExtractOutcome, extract, type Work } from '../../src/extract/extract.ts';
import { proveStored } from '../../src/extract/prove.ts';
import { RowTableBuilder } from '../../src/format/row-table.ts';
import type { Host } from '../../src/host/host.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { readRunRecord } from '../../src/ledger/run-record.ts';
import { createRun, openRunWriter } from '../../src/ledger/write.ts';
import { specForgeLayout } from '../../src/store/layouts/specforge.ts';
import { createStore } from '../../src/store/local-store.ts';
import { faultyHost, SimulatedCrash } from '../support/faulty-host.ts';
import { survivorCorners } from '../support/memory-crash.ts';
import { type MemoryHost, memoryHost } from '../support/memory-host.ts';
import { seededRandom } from '../support/seeded-random.ts';

// The commit protocol against every step at which a machine can stop, and against what a power cut may leave of
// un-synced bytes and names (memory-crash.ts). The real files and the real SIGKILLs are in kill-loop.test.ts.

const FOLDER = '/data/run';
const ROWS = 5;
const GROUP = 2;
const layout = specForgeLayout({ extension: 'ckpt', groupSize: GROUP });

function rowOf(index: number): Row {
  const random = seededRandom(1000 + index);
  const tokens = 3 + random.below(6);
  const inputIds = Uint32Array.from({ length: tokens }, () => 5 + random.below(1000));
  return { index, id: null, inputIds, lossMask: Uint8Array.from(inputIds, (_, at) => (at > 1 ? 1 : 0)) };
}

const rows = Array.from({ length: ROWS }, (_, index) => rowOf(index));

function datasetOf(): Dataset {
  const table = new RowTableBuilder();
  for (const row of rows) table.add(rowIdentity(row.inputIds, row.lossMask));
  return {
    path: '/data/merged.jsonl',
    rows: ROWS,
    problems: [],
    problemCount: 0,
    table: table.build(),
    read: async (index) => rows[index] ?? fail(`row ${index}`),
    close: async () => undefined,
  };
}

function fail(what: string): never {
  throw new Error(what);
}

const dataset = datasetOf();

const identity: RunIdentity = {
  dataset: { rows: ROWS, root: dataset.table.root },
  target: { name: 'replay', revision: null, digest: '0' },
  tokenizer: null,
  truncation: { maxTokens: null, policy: 'drop' },
  layers: { convention: 'boundary/1', auxiliary: [1, 2], last: 3 },
  lastState: { stored: 'pre-norm', norm: 'none' },
  dtype: 'BF16',
  layout: { name: 'specforge', extension: 'ckpt', groupSize: GROUP },
  shardRows: GROUP,
};

const settings = { output: FOLDER } as Settings;

/** What the folder says, from its journals and files alone: rows to extract, rows to adopt, bad files to set aside. */
async function planOf(host: Host): Promise<{ work: Work; committed: Set<number>; sound: Set<number> }> {
  const ledger = await openLedger(host, FOLDER, { parseSettings: () => settings });
  if (ledger === null) fail('no run');
  const store = createStore(host, FOLDER, layout, { fileMode: 0o644 });
  const committed = new Set<number>();
  const sound = new Set<number>();
  const todo: IndexRange[] = [];
  const adopt: IndexRange[] = [];
  const setAside: { row: number; verdict: { kind: 'torn'; reason: 'structure' } }[] = [];
  for (const row of rows) {
    const record = (await ledger.shard(Math.floor(row.index / GROUP))).rows.get(row.index);
    const recorded = record?.kind === 'commit' || record?.kind === 'adopt';
    if (recorded) committed.add(row.index);
    const expected = dataset.table.at(row.index) ?? fail('row');
    const proof = await proveStored(store, row.index, expected);
    if (proof?.ok === true) {
      sound.add(row.index);
      if (recorded) expect(proof.value.crc32).toBe(record.crc32);
      else adopt.push([row.index, row.index + 1]);
    } else {
      if (proof !== null) setAside.push({ row: row.index, verdict: { kind: 'torn', reason: 'structure' } });
      todo.push([row.index, row.index + 1]);
    }
  }
  return { work: { extract: todo, setAside, adopt }, committed, sound };
}

async function start(host: Host, inFlight: number, seen: Set<number>): Promise<ExtractOutcome> {
  if ((await readRunRecord(host.files, FOLDER)) === null)
    await createRun(host, FOLDER, identity, 'f'.repeat(32), dataset.table, { ...settings, format: 'test' });
  const writer = await openRunWriter(host, FOLDER, { takeOver: false });
  const { work } = await planOf(host);
  const engine = createReplayEngine(host.clock, { layers: [1, 2, 3], width: 8 });
  const never = new AbortController().signal;
  const outcome = await extract(
    {
      dataset,
      store: createStore(host, FOLDER, layout, { fileMode: 0o644 }),
      norm: null,
      lastState: 'post-norm',
      dtype: 'BF16',
      segment: 's',
      now: () => host.clock.now(),
      engines: [engine],
      writer,
      clock: host.clock,
      random: () => 0.5,
      limits: { attempts: 2, failureSamples: 3, failureShare: 0, consecutiveFailures: 5, reserveBytes: 0 },
      inFlight,
      engineWaitMs: 1000,
      onEvent: (event) => {
        if (event.kind === 'committed') seen.add(event.record.row);
      },
    },
    work,
    { drain: never, abort: never },
  );
  await writer.close();
  return outcome;
}

/** The bytes of all samples. */
async function samplesOf(host: Host): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const row of rows) {
    const path = `${FOLDER}/${layout.pathOf(row.index)}`;
    const bytes = await host.files.readSmall(path, 1 << 20);
    if (bytes !== null) found.set(path, Buffer.from(bytes).toString('hex'));
  }
  return found;
}

function begin(): MemoryHost {
  const host = memoryHost();
  host.files.plant('/data/.keep', '');
  return host;
}

function rebooted(host: MemoryHost, survivor: Parameters<MemoryHost['files']['crash']>[0], boot: number): MemoryHost {
  return memoryHost({ files: host.files.crash(survivor), identity: { bootId: `boot-${boot}`, pid: 100 + boot }, seed: boot });
}

/** The process died and the machine did not: what was never synced is still in the page cache, and still not on the disk. */
function restarted(host: MemoryHost, start: number): MemoryHost {
  return memoryHost({ files: host.files, identity: { pid: 100 + start }, isAlive: () => 'dead', seed: start });
}

/** Runs until the machine stops; returns the rows that were acknowledged before. */
async function runUntilCrash(host: MemoryHost, step: number, kind: 'stop' | 'tear'): Promise<{ seen: Set<number>; dead: boolean }> {
  const seen = new Set<number>();
  const faulty = faultyHost(host, { faults: [{ kind, at: step }] });
  try {
    await start(faulty, 1, seen);
  } catch (error) {
    if (!(error instanceof SimulatedCrash) && !(error instanceof Error && error.cause instanceof SimulatedCrash)) throw error;
  }
  return { seen, dead: faulty.dead };
}

async function reference(): Promise<{ samples: Map<string, string>; steps: number }> {
  const host = begin();
  const faulty = faultyHost(host);
  await start(faulty, 1, new Set());
  return { samples: await samplesOf(host), steps: faulty.trace.length };
}

describe('the commit protocol', () => {
  it('writes each sample in the order of docs/on-disk.md', async () => {
    const faulty = faultyHost(begin());
    await start(faulty, 1, new Set());
    const sample = `${FOLDER}/${layout.pathOf(0)}`;
    const steps = faulty.trace.map(({ op, path }) => `${op} ${path}`);
    const places = [
      `create ${sample}.tidemark-L1.1.tmp`,
      `write ${sample}.tidemark-L1.1.tmp`,
      `setMode ${sample}.tidemark-L1.1.tmp`,
      `sync ${sample}.tidemark-L1.1.tmp`,
      `link ${sample}`,
      `unlink ${sample}.tidemark-L1.1.tmp`,
      `syncDirectory ${FOLDER}/rows_0-2`,
    ].map((step) => steps.indexOf(step));
    expect(places).not.toContain(-1);
    expect([...places].sort((a, b) => a - b)).toEqual(places);
    const after = steps.slice(places.at(-1));
    const journal = `${FOLDER}/.tidemark/journal/shard-0.1.log`;
    expect(after.indexOf(`write ${journal}`)).toBeGreaterThan(0);
    expect(after.indexOf(`sync ${journal}`)).toBeGreaterThan(after.indexOf(`write ${journal}`));
  });

  it('survives a stop at every step, whatever the power cut leaves', async () => {
    const whole = await reference();
    expect(whole.samples.size).toBe(ROWS);
    let crashes = 0;
    for (let step = 1; step <= whole.steps; step += 1) {
      for (const kind of ['stop', 'tear'] as const) {
        const host = begin();
        const { seen, dead } = await runUntilCrash(host, step, kind);
        expect(dead).toBe(true);
        for (const survivor of [...survivorCorners, 1000 + step]) {
          crashes += 1;
          const where = `step ${step}, ${kind}, ${survivor}`;
          await finishAndCompare(rebooted(host, survivor, 2), seen, whole.samples, where);
        }
      }
    }
    expect(crashes).toBeGreaterThan(300);
  }, 300_000);

  it('survives a kill, a second start, and a power cut in the middle of that', async () => {
    const whole = await reference();
    const random = seededRandom(77);
    for (let round = 0; round < 120; round += 1) {
      const host = begin();
      const first = await runUntilCrash(host, 1 + random.below(whole.steps), random.chance(0.5) ? 'stop' : 'tear');
      const second = restarted(host, 2);
      const next = await runUntilCrash(second, 1 + random.below(whole.steps), random.chance(0.5) ? 'stop' : 'tear');
      const seen = new Set([...first.seen, ...next.seen]);
      await finishAndCompare(
        rebooted(second, random.chance(0.5) ? 'only-durable' : random.below(1e9), 3),
        seen,
        whole.samples,
        `round ${round}`,
      );
    }
  }, 300_000);

  it('keeps through a power cut what a second start only adopted', async () => {
    const whole = await reference();
    for (let step = 1; step <= whole.steps; step += 1) {
      const host = begin();
      const first = await runUntilCrash(host, step, 'stop');
      // The process died, the machine did not: names that were never synced are still there, and are adopted.
      const second = restarted(host, 2);
      const seen = new Set(first.seen);
      await start(second, 1, seen);
      await finishAndCompare(rebooted(second, 'only-durable', 3), new Set([...Array(ROWS).keys()]), whole.samples, `step ${step}`);
    }
  }, 300_000);

  it('stops on a full disk without giving a row up, and goes on when there is room, wherever it ran full', async () => {
    const whole = await reference();
    const bytes = [...whole.samples.values()].reduce((sum, hex) => sum + hex.length / 2, 0);
    let stops = 0;
    for (let capacity = 3000; capacity < 3 * bytes; capacity += 701) {
      const host = begin();
      host.files.resize(capacity);
      const seen = new Set<number>();
      let full = false;
      try {
        const outcome = await start(host, 1, seen);
        full = outcome.stopped?.code === 'storage-full';
        expect(outcome.failed).toBe(0);
        expect(outcome.stopped === null || full).toBe(true);
      } catch (error) {
        // Full before the first sample: the start itself could not be recorded.
        expect(error).toMatchObject({ code: 'storage-full' });
        full = true;
      }
      if (full) stops += 1;
      host.files.resize(Number.POSITIVE_INFINITY);
      await finishAndCompare(restarted(host, 2), seen, whole.samples, `full at ${capacity} bytes`);
    }
    expect(stops).toBeGreaterThan(10);
  });
});

async function finishAndCompare(
  host: MemoryHost,
  seen: ReadonlySet<number>,
  samples: ReadonlyMap<string, string>,
  where: string,
): Promise<void> {
  if ((await readRunRecord(host.files, FOLDER)) !== null) {
    const { sound, committed } = await planOf(host);
    for (const row of seen) if (!sound.has(row)) fail(`${where}: row ${row} was acknowledged and is not sound`);
    for (const row of committed) if (!sound.has(row)) fail(`${where}: row ${row} has a durable record and no sound file`);
  } else if (seen.size > 0) fail(`${where}: the run is gone after ${seen.size} commits`);
  const outcome = await start(host, 1, new Set());
  if (outcome.stopped !== null || outcome.left > 0)
    fail(`${where}: resume ended with ${outcome.stopped?.message ?? `${outcome.left} left`}`);
  const now = await samplesOf(host);
  for (const [path, bytes] of samples) if (now.get(path) !== bytes) fail(`${where}: ${path} differs from an uninterrupted run`);
  const again = await planOf(host);
  if (again.committed.size !== ROWS || again.work.extract.length > 0) fail(`${where}: something is left after resume`);
}
