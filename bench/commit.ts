import { execFileSync } from 'node:child_process';
import { closeSync, fsyncSync, mkdirSync, mkdtempSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rowIdentity } from '../src/core/identity.ts';
import type { RunIdentity, Settings } from '../src/core/settings.ts';
import type { Dataset } from '../src/dataset/dataset.ts';
import { createReplayEngine } from '../src/engine/replay.ts';
import { extract } from '../src/extract/extract.ts';
import { RowTableBuilder } from '../src/format/row-table.ts';
import { createLocalHost } from '../src/host/local.ts';
import { createRun, openRunWriter } from '../src/ledger/write.ts';
import { specForgeLayout } from '../src/store/layouts/specforge.ts';
import { createStore } from '../src/store/local-store.ts';
import { compare, type Figure } from './measure.ts';

/** `npm run bench -- commit`: the whole driver against an engine that answers from memory, and what a careful loop does by itself. */
export async function benchCommit(): Promise<readonly Figure[]> {
  const place = mkdtempSync(join(tmpdir(), 'tidemark-bench-'));
  try {
    return [
      // 4 layers of 1,024 bf16: 8,192 bytes a token.
      await figure(place, 'commit.32kB', { samples: 400, tokens: 4, width: 1024 }, 'temp+fsync+rename+fsync, one at a time', careful),
      await figure(place, 'commit.64MB', { samples: 12, tokens: 2000, width: 4096 }, 'dd conv=fsync, one at a time', dd),
    ];
  } finally {
    rmSync(place, { recursive: true });
  }
}

interface Shape {
  readonly samples: number;
  readonly tokens: number;
  readonly width: number;
}

async function figure(
  place: string,
  name: string,
  shape: Shape,
  against: string,
  theirs: (folder: string, shape: Shape) => void,
): Promise<Figure> {
  let turn = 0;
  const fresh = (): string => {
    turn += 1;
    const folder = join(place, `${name}-${turn}`);
    mkdirSync(folder);
    return folder;
  };
  const runOurs = async (): Promise<void> => {
    const folder = fresh();
    await drive(folder, shape);
    rmSync(folder, { recursive: true });
  };
  const runTheirs = (): void => {
    const folder = fresh();
    theirs(folder, shape);
    rmSync(folder, { recursive: true });
  };
  return compare(name, against, 3, runOurs, runTheirs);
}

const bytesOf = (shape: Shape): number => shape.tokens * shape.width * 4 * 2;

function careful(folder: string, shape: Shape): void {
  const bytes = Buffer.alloc(bytesOf(shape), 1);
  for (let index = 0; index < shape.samples; index += 1) {
    const path = join(folder, `data_${index}.ckpt`);
    const file = openSync(`${path}.tmp`, 'w');
    writeSync(file, bytes);
    fsyncSync(file);
    closeSync(file);
    renameSync(`${path}.tmp`, path);
    const directory = openSync(folder, 'r');
    fsyncSync(directory);
    closeSync(directory);
  }
}

function dd(folder: string, shape: Shape): void {
  for (let index = 0; index < shape.samples; index += 1) {
    execFileSync('dd', [
      'if=/dev/zero',
      `of=${join(folder, `${index}`)}`,
      'bs=1M',
      `count=${bytesOf(shape)}`,
      'iflag=count_bytes',
      'conv=fsync',
      'status=none',
    ]);
  }
}

async function drive(folder: string, shape: Shape): Promise<void> {
  const host = createLocalHost();
  const dataset = datasetOf(shape);
  const identity: RunIdentity = {
    dataset: { rows: shape.samples, root: dataset.table.root },
    target: { name: 'replay', revision: null, digest: '' },
    tokenizer: null,
    truncation: { maxTokens: null, policy: 'drop' },
    layers: { convention: 'boundary/1', auxiliary: [1, 2, 3], last: 4 },
    lastState: { stored: 'pre-norm', norm: 'none' },
    dtype: 'BF16',
    layout: { name: 'specforge', extension: 'ckpt', groupSize: 2000 },
    shardRows: 2000,
  };
  await createRun(host, folder, identity, '0'.repeat(32), dataset.table, { output: folder, format: 'bench' } as Settings & {
    format: string;
  });
  const writer = await openRunWriter(host, folder, { takeOver: false });
  const never = new AbortController().signal;
  const outcome = await extract(
    {
      dataset,
      store: createStore(host, folder, specForgeLayout({ extension: 'ckpt', groupSize: 2000 }), { fileMode: 0o644 }),
      norm: null,
      lastState: 'post-norm',
      dtype: 'BF16',
      segment: 'bench',
      now: () => host.clock.now(),
      engines: [createReplayEngine(host.clock, { layers: [1, 2, 3, 4], width: shape.width })],
      writer,
      clock: host.clock,
      random: () => 0.5,
      limits: { attempts: 1, failureSamples: 0, failureShare: 0, consecutiveFailures: 1, reserveBytes: 0 },
      inFlight: 8,
      engineWaitMs: 1000,
      onEvent: () => undefined,
    },
    { extract: [[0, shape.samples]], setAside: [], adopt: [] },
    { drain: never, abort: never },
  );
  if (outcome.committed !== shape.samples)
    throw new Error(`only ${outcome.committed} of ${shape.samples} were committed: ${outcome.stopped?.message}`);
  await writer.close();
}

function datasetOf(shape: Shape): Dataset {
  const table = new RowTableBuilder();
  const lossMask = new Uint8Array(shape.tokens).fill(1);
  const idsOf = (index: number): Uint32Array => Uint32Array.from({ length: shape.tokens }, (_, at) => index * 7 + at + 5);
  for (let index = 0; index < shape.samples; index += 1) table.add(rowIdentity(idsOf(index), lossMask));
  return {
    path: 'bench',
    rows: shape.samples,
    problems: [],
    problemCount: 0,
    table: table.build(),
    read: async (index) => ({ index, id: null, inputIds: idsOf(index), lossMask }),
    close: async () => undefined,
  };
}
