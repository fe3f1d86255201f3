import { describe, expect, it } from 'vitest';
import type { Report } from '../../src/core/report.ts';
import type { FileLock, FileReader, Machine, MountFacts } from '../../src/host/host.ts';
import { faultyHost } from '../support/faulty-host.ts';
import type { MemoryHost } from '../support/memory-host.ts';
import { FOLDER, find, type LookOptions, layout, look, rowsOf, START, sums, timed, treeOf } from './assess-tree.ts';

// Is anything still writing? Then the report says so first, and nothing that is in flight is taken for torn.

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);
const pathOf = (row: number): string => `${FOLDER}/${layout.pathOf(row)}`;

/** Rows 0 to 39 of 50; of the last file only the first bytes are there. */
async function tornTree(): Promise<MemoryHost> {
  const host = await treeOf(range(0, 40).map((number) => ({ number })));
  const whole = (await host.files.readSmall(pathOf(39), 1 << 20)) ?? new Uint8Array();
  host.files.plant(pathOf(39), whole.subarray(0, 700));
  return host;
}

const mounted = (mount: Partial<MountFacts>): Partial<Machine> => ({
  mountOf: async () => ({
    known: true,
    value: { mountPoint: FOLDER, filesystem: 'ext4', source: '/dev/vdb', options: 'rw', device: 'memory', ...mount },
    source: '/proc/self/mountinfo',
  }),
});

const lock = (more: Partial<FileLock>): FileLock => ({
  kind: 'flock',
  exclusive: true,
  pid: 77,
  command: 'python3 dump.py',
  device: 'memory',
  inode: '0',
  path: null,
  ...more,
});

const locked = (...locks: readonly FileLock[]): Partial<Machine> => ({
  ...mounted({}),
  locks: async () => ({ known: true, value: locks, source: '/proc/locks' }),
});

/** Files long written, by everybody's clock. */
const old = (host: MemoryHost): Partial<FileReader> => timed(host, (number) => number);

function lookTorn(host: MemoryHost, options: Partial<LookOptions>): Promise<Report> {
  return look(host, { rows: rowsOf(50), files: old(host), machine: mounted({}), ...options });
}

function expectRunning(report: Report, process: string): void {
  expect(report.running?.process).toBe(process);
  expect(report.crash).toBeNull();
  expect(report.totals).toMatchObject({ sound: 39, torn: 0 });
  expect(report.missing['in-flight']).toBeGreaterThan(0);
  expect(report.suspect).toEqual([]);
  expect(sums(report)).toEqual({ rows: 50, missing: report.totals.missing });
}

describe('nobody writes', () => {
  it('so that a broken file is torn', async () => {
    const report = await lookTorn(await tornTree(), {});
    expect(report.running).toBeNull();
    expect(report.totals.torn).toBe(1);
    expect(find(report, 'TM-H01')).toBeUndefined();
    expect(find(report, 'TM-H08')).toBeUndefined();
  });
});

describe('a lock', () => {
  it('on a file below the folder is a sign, also where only its inode is told', async () => {
    const host = await tornTree();
    const named = await lookTorn(host, { machine: locked(lock({ path: pathOf(39) })) });
    expectRunning(named, 'pid 77 python3 dump.py');
    expect(find(named, 'TM-H01')?.evidence).toBe(
      '/proc/locks: pid 77 (python3 dump.py) holds rows_0-100/data_39.ckpt locked (flock, exclusive)',
    );
    const inode = (await host.files.stat(pathOf(39)))?.inode ?? '';
    const hidden = await lookTorn(host, { machine: locked(lock({ inode, command: '' })) });
    expectRunning(hidden, 'pid 77');
    const nobody = await lookTorn(host, { machine: locked(lock({ inode, pid: null, command: '', kind: 'ofd' })) });
    expectRunning(nobody, 'a process that the kernel does not name');
  });

  it('on something beside the samples is one, too', async () => {
    const host = await tornTree();
    host.files.plant(`${FOLDER}/writer.lock`, '');
    const inode = (await host.files.stat(`${FOLDER}/writer.lock`))?.inode ?? '';
    expectRunning(await lookTorn(host, { machine: locked(lock({ inode })) }), 'pid 77 python3 dump.py');
  });

  it('is none where it is shared, elsewhere, or on another filesystem', async () => {
    const host = await tornTree();
    const inode = (await host.files.stat(pathOf(39)))?.inode ?? '';
    const others = [
      lock({ path: pathOf(39), exclusive: false }),
      lock({ path: '/tree-beside/x' }),
      lock({ inode, device: '9' }),
      lock({ inode: '999' }),
    ];
    const report = await lookTorn(host, { machine: locked(...others) });
    expect(report.running).toBeNull();
    expect(report.totals.torn).toBe(1);
    expect(find(report, 'TM-H08')).toBeUndefined();
  });

  it('is unknown where inode numbers mean nothing', async () => {
    const host = await tornTree();
    const inode = (await host.files.stat(pathOf(39)))?.inode ?? '';
    const machine = { ...locked(lock({ inode, device: '52' })), ...mounted({ filesystem: 'btrfs', device: '52' }) };
    const report = await lookTorn(host, { machine });
    expect(report.running).toBeNull();
    expect(find(report, 'TM-H08')?.evidence).toBe(
      '/proc/locks: 1 exclusive locks on the same btrfs, whose inode numbers do not say which file they are on',
    );
  });
});

describe('a process that hangs in the kernel', () => {
  const hangs = (mayWrite: boolean): Partial<Machine> => ({
    ...mounted({}),
    blockedBelow: async () => ({
      known: true,
      value: [{ pid: 78, command: 'python3', path: pathOf(39), waitsIn: 'nfs_wait_bit_killable', mayWrite }],
      source: '/proc/*/stat',
    }),
  });

  it('may write when the storage comes back', async () => {
    const report = await lookTorn(await tornTree(), { machine: hangs(true) });
    expectRunning(report, 'pid 78 python3');
    expect(find(report, 'TM-H15')).toBeDefined();
  });

  it('is no writer where it only reads', async () => {
    const report = await lookTorn(await tornTree(), { machine: hangs(false) });
    expect(report.running).toBeNull();
    expect(report.totals.torn).toBe(1);
    expect(find(report, 'TM-H15')).toBeDefined();
  });
});

describe('files that change between two looks', () => {
  /** A writer that nobody sees: what it does happens once the files were read the first time. */
  function writing(host: MemoryHost, secondsOf: (number: number) => number, act: () => void): Partial<FileReader> {
    const files = timed(host, secondsOf);
    let opened = 0;
    return {
      ...files,
      open: async (path) => {
        if (path.endsWith('data_39.ckpt')) {
          opened += 1;
          if (opened === 2) act();
        }
        return (await files.open?.(path)) ?? null;
      },
    };
  }

  it.each([
    ['the same clock', START],
    ['a file server whose clock is an hour behind', 1_700_000_000_000 - 3_600_000],
    ['one that is an hour ahead', 1_700_000_000_000 + 3_600_000],
  ])('tell of a writer that is not seen: %s', async (_, at) => {
    const host = await tornTree();
    const grow = async (): Promise<void> => {
      host.files.plant(pathOf(39), new Uint8Array(900));
      host.files.plant(pathOf(40), new Uint8Array(10));
    };
    const files = writing(
      host,
      (number) => (at - START) / 1000 + number,
      () => void grow(),
    );
    const report = await lookTorn(host, { files });
    expectRunning(report, 'a writer that is not seen here');
    expect(report.running?.host).toBe('unknown: perhaps another machine');
    expect(find(report, 'TM-H01')?.evidence).toMatch(
      /^two looks, .* apart: 1 file has another size or time \(39\); 1 row has a file now \(40\)$/,
    );
    // Row 40 came after the first look: it is on its way, whatever its first bytes are.
    expect(report.verdicts.find((group) => group.reason === 'in-flight')?.ranges).toEqual([[39, 41]]);
  });

  it.each(['data_40.ckpt.tidemark-L3.1.tmp', '.tmpAb12Cd', 'data_40.ckpt.lock'])('count %s that is new', async (name) => {
    const host = await tornTree();
    const files = writing(
      host,
      (number) => number,
      () => host.files.plant(`${FOLDER}/rows_0-100/${name}`, 'x'),
    );
    const report = await lookTorn(host, { files });
    expectRunning(report, 'a writer that is not seen here');
    expect(find(report, 'TM-H01')?.evidence).toMatch(`new or grown beside them: rows_0-100/${name}`);
  });

  it('count a temporary that grows, and not a note of somebody', async () => {
    const host = await tornTree();
    const temporary = `${FOLDER}/rows_0-100/.tmpAb12Cd`;
    host.files.plant(temporary, 'x');
    const note = (): void => host.files.plant(`${FOLDER}/rows_0-100/README`, 'x');
    const noted = await lookTorn(host, { files: writing(host, (number) => number, note) });
    expect(noted.running).toBeNull();
    const grow = (): void => host.files.plant(temporary, 'xy');
    expectRunning(await lookTorn(host, { files: writing(host, (number) => number, grow) }), 'a writer that is not seen here');
  });

  it('are waited for where the last one is fresh, and not where a run of ours left no lease', async () => {
    const host = await tornTree();
    const fresh = timed(host, (number) => 10_000_000 + number - 40);
    const began = host.clock.monotonicMs();
    const report = await lookTorn(host, { files: fresh });
    // One file a second: two of its gaps.
    expect(host.clock.monotonicMs() - began).toBeGreaterThanOrEqual(2000);
    expect(report.running).toBeNull();
    expect(report.totals.torn).toBe(1);
  });
});

describe('a volume that other machines may write to', () => {
  it('is not called quiet while its last file is minutes old', async () => {
    const host = await tornTree();
    const files = timed(host, (number) => 10_000_000 + number - 140);
    const report = await lookTorn(host, { files, machine: mounted({ filesystem: 'nfs4', source: 'box:/x' }) });
    expect(report.running).toBeNull();
    expect(find(report, 'TM-H18')).toMatchObject({
      severity: 'warning',
      title: expect.stringMatching(/^the last file was written 1(\.\d)? min.* ago, and nobody of this machine has it open/),
      evidence: expect.stringMatching(/^nfs4, which other machines may write to; 40 files were looked at twice/),
    });
    const hours = await lookTorn(host, { machine: mounted({ filesystem: 'nfs4' }) });
    expect(find(hours, 'TM-H18')).toBeUndefined();
    expect(find(await lookTorn(host, { files, machine: mounted({}) }), 'TM-H18')).toBeUndefined();
  });
});

describe('a mount that answers from a cache', () => {
  const nfs = mounted({ filesystem: 'nfs4', source: 'box:/x' });

  /** As an NFS client: a folder is listed, and a name looked up, as the client last saw them, until the folder or the file was opened anew. */
  function cached(host: MemoryHost, hidden: number, short: number): { readonly files: Partial<FileReader>; readonly listed: string[] } {
    const { files: times } = { files: old(host) };
    const listed: string[] = [];
    const seen = new Set<string>();
    return {
      listed,
      files: {
        ...times,
        list: async (path) => {
          listed.push(path);
          const entries = await host.files.list(path);
          if (listed.filter((one) => one === path).length > 1) return entries;
          return entries?.filter((entry) => !entry.name.includes(`data_${hidden}.`)) ?? null;
        },
        open: async (path) => {
          const first = !seen.has(path);
          seen.add(path);
          const file = (await times.open?.(path)) ?? null;
          if (file === null || !first || !path.includes(`data_${short}.`)) return file;
          return { ...file, size: 700, stat: { ...file.stat, bytes: 700 }, read: (offset, length) => file.read(offset, length) };
        },
      },
    };
  }

  it('is asked again before a file is called missing or torn', async () => {
    const host = await treeOf(range(0, 40).map((number) => ({ number })));
    const stale = cached(host, 7, 9);
    const report = await look(host, { rows: rowsOf(50), files: stale.files, machine: nfs });
    expect(report.totals).toMatchObject({ sound: 40, missing: 10, torn: 0, files: 40 });
    expect(report.missing).toMatchObject({ 'never-started': 10, failed: 0, 'in-flight': 0 });
    expect(report.running).toBeNull();
    expect(find(report, 'TM-H19')).toMatchObject({
      title: 'nfs4 was asked twice before anything was called missing, lost or torn',
      evidence: expect.stringMatching(
        /^1 folder listed and 2 files opened anew: 1 file came up, 1 file was whole the second time; NFS keeps attributes/,
      ),
      remedy: { text: 'the answers are the server\u2019s own' },
    });
  });

  it('is believed the second time', async () => {
    const host = await tornTree();
    await host.files.unlink(pathOf(20));
    const report = await lookTorn(host, { machine: nfs });
    expect(report.totals).toMatchObject({ sound: 38, missing: 11, torn: 1 });
    expect(find(report, 'TM-H19')?.evidence).toMatch(/^1 folder listed and 1 file opened anew: nothing changed/);
  });

  it('is not asked where it is a disk of this machine, and not believed where opening does not help', async () => {
    const host = await tornTree();
    expect(find(await lookTorn(host, {}), 'TM-H19')).toBeUndefined();
    for (const mount of [mounted({ filesystem: 'fuse.sshfs' }), mounted({ filesystem: 'nfs', options: 'rw,nocto' })]) {
      const found = find(await lookTorn(host, { machine: mount }), 'TM-H19');
      expect(found?.remedy?.text).toBe('look again in a minute: the second answer may be as old as the first');
    }
  });

  it('that does not answer the second time leaves the first answer', async () => {
    const host = await tornTree();
    const faulty = faultyHost(host, { faults: [{ kind: 'unreadable', path: /data_39/ }] });
    const report = await look(host, { rows: rowsOf(50), files: { ...old(host), open: faulty.files.open }, machine: nfs });
    expect(report.totals).toMatchObject({ sound: 39, unreadable: 1, torn: 0 });
  });
});
