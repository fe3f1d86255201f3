import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EvidenceManifest, makeEvidence } from '../../src/app/evidence.ts';
import { createHost } from '../../src/app/host.ts';
import type { Report } from '../../src/core/report.ts';
import { makeScene, type Scene, snapshot } from '../damage/scene.ts';
import { CLI, type Finished, freePort, MODEL, program, ROOT, Running, startEngine } from '../support/processes.ts';

// The command over real folders: what goes into the tarball, what must never, and where it may be written.

const ROWS = 10;
/** Whatever stands in logs, settings, names and argument lists, and must be in no member. */
const PLANTED = [
  'hunter2-in-url',
  'sk-Planted0123456789',
  'hf_Planted0123456789Planted0123456789',
  'AKIAPLANTED0123456789',
  'planted-env-value',
  'planted-json-value',
  'planted-flag-value',
  'planted-bearer-0123',
  'carol',
  'gpu-planted-17',
  'nas-planted',
  '10.77.66.55',
  '2001:db8:77::5',
  'carol@planted.example.org',
  '3c:ec:ef:77:66:55',
  'Yesterday my planted dog',
  '70001, 70002, 70003',
  '70001 70002 70003',
];

let place: string;
let run: string;
let dataset: string;
/** A sentence that really stands in the dataset. */
let said: string;

beforeAll(async () => {
  place = mkdtempSync(join(tmpdir(), 'tidemark-evidence-'));
  mkdirSync(join(place, 'home/carol'), { recursive: true });
  dataset = join(place, 'home/carol/merged.jsonl');
  const lines = readFileSync(join(ROOT, 'test/support/dialogues.jsonl'), 'utf8').split('\n').slice(0, ROWS);
  writeFileSync(dataset, `${lines.join('\n')}\n`);
  said = longestText(JSON.parse(lines[0] ?? '{}'));
  const port = await freePort();
  const staging = join(place, 'staging');
  const engine = await startEngine(port, staging);
  run = join(place, 'run');
  const flags = ['--dataset', dataset, '--model', MODEL, '--url', `http://127.0.0.1:${port}`, '--staging', staging, '--reserve', '1MB'];
  const end = await tidemark(['extract', '--output', run, '--group-size', '4', ...flags]);
  engine.kill('SIGKILL');
  await engine.finished;
  expect(end.code, end.stderr).toBe(0);
});

afterAll(() => rmSync(place, { recursive: true }));

function longestText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null) return '';
  return Object.values(value)
    .map(longestText)
    .reduce((a, b) => (b.length > a.length ? b : a), '');
}

function tidemark(argv: readonly string[], cwd = place): Promise<Finished> {
  return new Running(CLI, argv, { HOME: join(place, 'home/carol'), USER: 'carol', LOGNAME: 'carol' }, cwd).finished;
}

interface Unpacked {
  readonly manifest: EvidenceManifest;
  readonly names: readonly string[];
  readonly member: (name: string) => string;
  readonly everything: string;
}

let unpackedCount = 0;

/** By GNU tar, as whoever gets it would. */
async function unpack(path: string): Promise<Unpacked> {
  const into = join(place, `unpacked-${unpackedCount++}`);
  mkdirSync(into);
  await program('tar', ['xzf', path, '-C', into]);
  const names = (await program('tar', ['tzf', path])).trim().split('\n');
  const member = (name: string): string => readFileSync(join(into, 'tidemark-evidence', name), 'utf8');
  const everything = names
    .filter((name) => !name.endsWith('/'))
    .map((name) => readFileSync(join(into, name), 'latin1'))
    .join('\n');
  return { manifest: JSON.parse(member('MANIFEST.json')) as EvidenceManifest, names, member, everything };
}

function copyOfRun(name: string): string {
  const folder = join(place, name);
  cpSync(run, folder, { recursive: true, preserveTimestamps: true });
  return folder;
}

describe('a run whose log and settings hold secrets', () => {
  let folder: string;
  let unpacked: Unpacked;
  let output: string;
  let spoken: Finished;
  let before: string[];

  beforeAll(async () => {
    folder = copyOfRun('crashed');
    rmSync(join(folder, 'rows_4-8/data_5.ckpt'));
    const settings = JSON.parse(readFileSync(join(folder, '.tidemark/settings.json'), 'utf8')) as {
      engine: { urls: string[] };
      check?: string;
    };
    // As somebody does who edits it by hand.
    delete settings.check;
    settings.engine.urls = ['http://carol:hunter2-in-url@gpu-planted-17.corp.example.org:8000'];
    writeFileSync(join(folder, '.tidemark/settings.json'), JSON.stringify(settings));
    writeFileSync(join(folder, 'notes for carol@planted.example.org\nline two \u001b[31m.txt'), 'Yesterday my planted dog');
    writeFileSync(join(folder, 'rows_0-4/HF_TOKEN=planted-env-value.tmp'), '');
    // Behind the valid lines: what a torn write leaves.
    const journal = join(folder, '.tidemark/journal/shard-1.1.log');
    writeFileSync(
      journal,
      `${readFileSync(journal, 'utf8')}000900 00000000 {"kind":"failure","message":"prompt: 'Yesterday my planted dog`,
    );
    const log = join(place, 'server.log');
    writeFileSync(
      log,
      [
        'INFO 03-14 02:10:00 [api_server.py:1] vLLM API server version 0.18.0',
        "ERROR 03-14 02:10:00 args: Namespace(host='0.0.0.0', api_key=['sk-Planted0123456789'], hf_token='hf_Planted0123456789Planted0123456789')",
        ...Array.from({ length: 400 }, (_, at) => `INFO 03-14 02:11:00 [core.py:${at}] step ${at}`),
        'Yesterday my planted dog has eaten the cake, which is an error in sample 5',
        `ERROR 03-14 02:12:00 row 5 failed: http://carol:hunter2-in-url@gpu-planted-17:8000 timed out, peer 10.77.66.55 and 2001:db8:77::5`,
        `{"id": 7, "error": "x", "messages": [{"role": "user", "content": "Yesterday my planted dog"}]}`,
        `{"level": "error", "ts": 1, "api_key": "planted-json-value", "prompt": "Yesterday my planted dog", "msg": "gave up"}`,
        `ERROR 03-14 02:12:01 Received request: prompt: 'Yesterday my planted dog', prompt_token_ids: [70001, 70002, 70003]`,
        `ERROR 03-14 02:12:01 bad ids 70001 70002 70003 ${Array.from({ length: 16 }, (_, at) => 70004 + at).join(' ')}`,
        `ERROR 03-14 02:12:01 row 6 failed: ${said}`,
        'ERROR 03-14 02:12:02 AWS_ACCESS_KEY_ID=AKIAPLANTED0123456789 HF_TOKEN=planted-env-value --api-key planted-flag-value refused',
        'ERROR 03-14 02:12:02 Authorization: Bearer planted-bearer-0123 was not accepted; mail carol@planted.example.org',
        'ERROR 03-14 02:12:03 cannot read /home/carol/models/x, link 3c:ec:ef:77:66:55 is down',
        'ERROR 03-14 02:12:04 nfs: server nas-planted not responding',
        'OSError: [Errno 28] No space left on device',
        '',
      ].join('\n'),
    );
    output = join(place, 'evidence.tar.gz');
    before = await snapshot(folder);
    spoken = await tidemark(['evidence', folder, '--log', log, '--output', output]);
    expect(spoken.code, spoken.stderr).toBe(0);
    unpacked = await unpack(output);
  });

  it('holds none of them in any member, nor in what it prints', () => {
    for (const planted of [...PLANTED, said.slice(0, 60), hostname()].filter((text) => text.length > 3)) {
      expect(unpacked.everything, `${planted} is in the tarball`).not.toContain(planted);
    }
    expect(readFileSync(output).includes('carol')).toBe(false);
    expect(spoken.stdout).not.toContain('hunter2-in-url');
  });

  it('calls the same thing the same wherever it stands, and says how often', () => {
    const settings = JSON.parse(unpacked.member('run/settings.json')) as { engine: { urls: string[] }; dataset: { path: string } };
    const url = settings.engine.urls[0] ?? '';
    expect(url).toMatch(/^http:\/\/<user-1>:<secret-\d+>@<host-\d+>:8000$/);
    expect(settings.dataset.path).toBe(join(place, 'home/<user-1>/merged.jsonl'));
    const secret = /<secret-\d+>/.exec(url)?.[0] ?? 'none';
    const log = unpacked.member('logs/given.txt');
    expect(log).toContain(`row 5 failed: http://<user-1>:${secret}@<host-`);
    const given = unpacked.manifest.members.find(({ name }) => name === 'logs/given.txt');
    expect(given?.redacted.secret).toBeGreaterThanOrEqual(8);
    expect(given?.redacted.text).toBeGreaterThanOrEqual(4);
    expect(unpacked.manifest.rowText).toMatchObject({ compared: 'all', rows: ROWS });
    expect(spoken.stdout).toMatch(/logs\/given\.txt .* replaced: .*secret \d+/);
  });

  it('keeps what the evidence is for', () => {
    const report = JSON.parse(unpacked.member('report.json')) as Report;
    expect(report.totals).toMatchObject({ rows: ROWS, sound: ROWS - 1, missing: 1 });
    expect(report.folder).toBe(folder);
    expect(unpacked.member('report.txt')).toContain('tidemark resume');
    const log = unpacked.member('logs/given.txt');
    for (const kept of ['No space left on device', 'gave up', "left out: not in a log's form", 'vLLM API server version 0.18.0']) {
      expect(log).toContain(kept);
    }
    expect(log).not.toContain('step 100');
    const memory = JSON.parse(unpacked.member('run/memory.json')) as { journals: { name: string; bytes: number; sha256: string }[] };
    const journal = memory.journals.find(({ name }) => name === 'shard-1.1.log');
    const real = readFileSync(join(folder, '.tidemark/journal/shard-1.1.log'));
    expect(journal).toMatchObject({ bytes: real.length, sha256: createHash('sha256').update(real).digest('hex') });
    const identity = /"identity":"([0-9a-f]{32})"/.exec(real.toString('utf8'))?.[1] ?? 'none';
    expect(unpacked.member('run/journal/shard-1.1.log')).toContain(identity);
    expect(unpacked.member('run/run.json')).toContain(JSON.parse(readFileSync(join(folder, '.tidemark/run.json'), 'utf8')).id);
    const tree = JSON.parse(unpacked.member('tree.json')) as { folders: { path: string; ranges: unknown[] }[] };
    expect(tree.folders.find(({ path }) => path === 'rows_4-8')?.ranges).toEqual([
      {
        pattern: 'data_{n}.ckpt',
        ranges: [
          [4, 5],
          [6, 8],
        ],
        count: 3,
      },
    ]);
    const host = JSON.parse(unpacked.member('host.json')) as { facts: { node: string }; places: Record<string, unknown> };
    expect(host.facts.node).toBe(process.version);
    expect(Object.keys(host.places)).toEqual(['folder', 'current', 'dataset', 'model', 'staging']);
  });

  it('names every member with its bytes and digest, in the order of the tarball', () => {
    const { manifest, names, member } = unpacked;
    expect(manifest.format).toBe('tidemark.evidence/1');
    expect(names).toEqual(['', 'MANIFEST.json', ...manifest.members.map(({ name }) => name)].map((name) => `tidemark-evidence/${name}`));
    expect(manifest.members.slice(0, 3).map(({ name }) => name)).toEqual(['report.json', 'report.txt', 'host.json']);
    for (const { name, bytes, sha256 } of manifest.members) {
      const text = Buffer.from(member(name), 'utf8');
      expect([text.length, createHash('sha256').update(text).digest('hex')], name).toEqual([bytes, sha256]);
    }
    expect(manifest.unknown.find(({ what }) => what === 'dmesg')?.why).toContain('dmesg -T');
  });

  it('touches nothing in the folder', async () => {
    expect(await snapshot(folder)).toEqual(before);
  });

  it('knows the rows also where the settings that name them are damaged', async () => {
    const damaged = copyOfRun('damaged-settings');
    const path = join(damaged, '.tidemark/settings.json');
    writeFileSync(path, readFileSync(path, 'utf8').replace(/"check": ?"[0-9a-f]{8}"/, '"check": "00000000"'));
    const log = join(place, 'short.log');
    writeFileSync(log, `ERROR 03-14 02:12:01 row 6 failed: ${said}\n`);
    const into = join(place, 'damaged.tar.gz');
    expect((await tidemark(['evidence', damaged, '--log', log, '--output', into])).code).toBe(0);
    expect((await unpack(into)).everything).not.toContain(said.slice(0, 60));
  });
});

describe('a dry run', () => {
  it('says the same and writes nothing', async () => {
    const cwd = join(place, 'dry');
    mkdirSync(cwd);
    const end = await tidemark(['evidence', run, '--dry-run'], cwd);
    expect(end.code, end.stderr).toBe(0);
    expect(end.stdout).toContain('report.json');
    expect(end.stdout).toMatch(/nothing was written; without --dry-run: .*\/dry\/tidemark-evidence-run-\d{8}T\d{6}Z\.tar\.gz/);
    expect(readdirSync(cwd)).toEqual([]);
  });
});

describe('where it may be written', () => {
  const refused = async (argv: readonly string[], code: number, words: string, cwd = place): Promise<void> => {
    const end = await tidemark(['evidence', ...argv], cwd);
    expect(end.code, end.stdout + end.stderr).toBe(code);
    expect(end.stderr).toContain(words);
    expect(end.stderr).toContain('next:');
  };

  it('is a free name outside of the folder', async () => {
    const taken = join(place, 'taken.tar.gz');
    writeFileSync(taken, 'mine');
    await refused([run, '--output', taken], 2, 'evidence replaces nothing');
    expect(readFileSync(taken, 'utf8')).toBe('mine');
    symlinkSync('nowhere', join(place, 'dangling.tar.gz'));
    await refused([run, '--output', join(place, 'dangling.tar.gz')], 2, 'evidence replaces nothing');
    await refused([run, '--output', join(run, 'e.tar.gz')], 2, 'nothing is written');
    symlinkSync(run, join(place, 'link-to-run'));
    await refused([run, '--output', join(place, 'link-to-run/rows_0-4/e.tar.gz')], 2, 'nothing is written');
    await refused(['.'], 2, '--output /tmp/tidemark-evidence-run-', run);
    await refused([run, '--output', join(place, 'no/such/folder/e.tar.gz')], 2, 'mkdir -p');
    expect(readdirSync(run).filter((name) => name.endsWith('.gz') || name.endsWith('.tmp'))).toEqual([]);
  });

  it('is said to be unwritable where it is', async () => {
    await refused([run, '--output', '/proc/evidence.tar.gz'], 1, '/proc/evidence.tar.gz');
  });

  it('is here by default, under a plain name whatever the folder is called', async () => {
    const cwd = join(place, 'here');
    mkdirSync(cwd);
    const odd = join(place, "odd 'name'\n; rm -rf \u202e");
    cpSync(run, odd, { recursive: true });
    const end = await tidemark(['evidence', odd], cwd);
    expect(end.code, end.stderr).toBe(0);
    const [name = ''] = readdirSync(cwd);
    expect(name).toMatch(/^tidemark-evidence-odd_name_rm_-rf_-\d{8}T\d{6}Z\.tar\.gz$/);
    const { member } = await unpack(join(cwd, name));
    expect((JSON.parse(member('report.json')) as Report).folder).toBe(odd);
    expect(member('report.txt')).not.toContain('\u202e');
    expect([...end.stdout].filter((character) => character < ' ' && character !== '\n')).toEqual([]);
  });
});

describe('folders that are no run', () => {
  let scene: Scene;
  beforeAll(async () => {
    scene = await makeScene({ scene: 'storage-crash', samples: 3000, group: 500 });
  });
  afterAll(() => scene.remove());

  it('packs what an assessment of a foreign tree says', async () => {
    const output = join(place, 'scene.tar.gz');
    const hole = scene.truth.index.find(({ i, state }) => state === 'missing' && i < scene.truth.totals.next)?.i;
    const log = join(place, 'driver.log');
    writeFileSync(log, `Yesterday my planted dog has eaten the cake, which is an error in sample ${hole}\nrow 2 ok\n`);
    const end = await tidemark(['evidence', scene.folder, '--dataset', scene.dataset, '--log', log, '--output', output]);
    expect(end.code, end.stderr).toBe(0);
    const { manifest, member, everything } = await unpack(output);
    const argv = ['assess', scene.folder, '--dataset', scene.dataset, '--log', log, '--json'];
    const assessed = JSON.parse((await tidemark(argv)).stdout) as Report;
    const packed = JSON.parse(member('report.json')) as Report;
    expect({ ...packed.totals, verdicts: packed.verdicts }).toEqual({ ...assessed.totals, verdicts: assessed.verdicts });
    expect(manifest.unknown.find(({ what }) => what === 'run')?.why).toContain('no run of tidemark');
    // A finding of the assessment quotes the line; nothing that is packed does.
    expect(assessed.findings.find(({ code }) => code === 'TM-S18')?.evidence).toContain('planted dog');
    expect(packed.findings.find(({ code }) => code === 'TM-S18')?.evidence).toContain('from line 1 on');
    expect(everything).not.toContain('planted dog');
  });

  it('packs a folder that cannot be assessed, and says why', async () => {
    const empty = join(place, 'empty');
    mkdirSync(empty);
    const newer = copyOfRun('newer');
    writeFileSync(join(newer, '.tidemark/run.json'), '{"format": "tidemark.run/99", "api_key": "planted-json-value"}');
    for (const folder of [empty, newer]) {
      const output = `${folder}.tar.gz`;
      const end = await tidemark(['evidence', folder, '--output', output]);
      expect(end.code, end.stderr).toBe(0);
      const { manifest, names, everything } = await unpack(output);
      expect(names).not.toContain('tidemark-evidence/report.json');
      expect(manifest.unknown.find(({ what }) => what === 'report.json')?.why).toContain('the assessment failed');
      expect(everything).not.toContain('planted-json-value');
    }
  });

  it('tells a folder that is not there from a file', async () => {
    expect((await tidemark(['evidence', join(place, 'nowhere')])).code).toBe(6);
    expect((await tidemark(['evidence', dataset])).code).toBe(2);
    expect((await tidemark(['evidence', run, '--log', join(place, 'no.log')])).code).toBe(2);
  });
});

describe('what cannot be read, or is too much', () => {
  it('is named with the reason', async () => {
    const folder = copyOfRun('unreadable');
    rmSync(join(folder, '.tidemark/journal/shard-0.1.log'));
    await program('mkfifo', [join(folder, '.tidemark/journal/shard-0.1.log')]);
    writeFileSync(join(folder, '.tidemark/settings.json'), 'password: planted-json-value\n'.repeat(20_000));
    const output = join(place, 'unreadable.tar.gz');
    const end = await tidemark(['evidence', folder, '--output', output]);
    expect(end.code, end.stderr).toBe(0);
    const { manifest, everything } = await unpack(output);
    expect(manifest.unknown.find(({ what }) => what === 'run/settings.json')?.why).toContain('at most 262144');
    expect(everything).not.toContain('planted-json-value');
  });

  it('keeps a huge log bounded, with its start and its end', async () => {
    const log = join(place, 'huge.log');
    const trouble = (text: string): string =>
      Array.from({ length: 3000 }, (_, at) => `ERROR row ${at} failed: ${text} ${'x'.repeat(3000)}`).join('\n');
    writeFileSync(log, `${trouble('early')}\n`);
    truncateSync(log, 300 * 1024 * 1024);
    writeFileSync(log, `\n${trouble('late')}\nINFO the last line\n`, { flag: 'a' });
    const output = join(place, 'huge.tar.gz');
    const end = await tidemark(['evidence', run, '--log', log, '--output', output]);
    expect(end.code, end.stderr).toBe(0);
    const { manifest, member } = await unpack(output);
    const slice = member('logs/given.txt');
    expect(slice.length).toBeLessThan(1024 * 1024);
    expect(slice).toContain('1: ERROR row 0 failed: early');
    expect(slice).toContain('row 2999 failed: late');
    expect(slice).toContain('INFO the last line');
    expect(manifest.members.find(({ name }) => name === 'logs/given.txt')?.leftOut.join()).toMatch(/\d+ bytes in the middle were not read/);
    const fullBytes = manifest.members.reduce((sum, { bytes }) => sum + bytes, 0);
    expect(fullBytes).toBeLessThan(4 * 1024 * 1024);
  });

  it("takes the machine's own lines about storage and memory, without its name", async () => {
    const logs = join(place, 'var-log');
    mkdirSync(logs);
    writeFileSync(
      join(logs, 'kern.log'),
      [
        'Mar 14 02:10:00 gpu-planted-17 kernel: nvme0n1: I/O error, dev nvme0n1, sector 123456',
        'Mar 14 02:10:01 gpu-planted-17 kernel: Out of memory: Killed process 4711 (python)',
        'Mar 14 02:10:02 gpu-planted-17 kernel: eth0: link up, 3c:ec:ef:77:66:55',
        '',
      ].join('\n'),
    );
    const output = join(place, 'system.tar.gz');
    const options = { dataset: null, model: null, level: 'names', layout: null, log: null, output, dryRun: false, cwd: place } as const;
    await makeEvidence(createHost(), run, { ...options, environment: {}, renderText: () => '', systemLogs: logs });
    const text = (await unpack(output)).member('logs/system.txt');
    expect(text.split('\n')).toEqual([
      expect.stringMatching(/kern\.log \[io-error\] Mar 14 02:10:00 <host-\d+> kernel: nvme0n1: I\/O error, dev nvme0n1, sector 123456$/),
      expect.stringMatching(
        /kern\.log \[out-of-memory\] Mar 14 02:10:01 <host-\d+> kernel: Out of memory: Killed process 4711 \(python\)$/,
      ),
      '',
    ]);
    expect(existsSync(output)).toBe(true);
  });
});
