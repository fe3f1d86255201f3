import { describe, expect, it } from 'vitest';
import { readLog } from '../../src/assess/gather-log.ts';
import { renderReport } from '../../src/cli/render-report.ts';
import type { Machine } from '../../src/host/host.ts';
import type { MemoryHost } from '../support/memory-host.ts';
import { find, look, rowsOf, START, timed, treeOf } from './assess-tree.ts';

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);
async function write(host: MemoryHost, path: string, text: string): Promise<void> {
  await host.files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
  const file = await host.files.create(path, 0o644);
  await file.write(Buffer.from(text));
  await file.close();
}

describe('the crash itself', () => {
  const booted = (at: number): Partial<Machine> => ({
    facts: async () => ({
      hostname: 'box',
      bootId: { known: true, value: 'boot-2', source: 'proc' },
      bootedAt: { known: true, value: new Date(START + at * 1000).toISOString(), source: '/proc/stat' },
      initStartedAt: { known: true, value: new Date(START + at * 1000 + 3_600_000).toISOString(), source: '/proc/1/stat' },
      memoryBytes: { known: true, value: 2 ** 36, source: '/proc/meminfo' },
      dirty: {
        known: true,
        value: { expireCentisecs: 3000, writebackCentisecs: 500, ratio: 20, bytes: 0 },
        source: '/proc/sys/vm/dirty_*',
      },
      platform: 'linux',
      node: 'v20',
    }),
  });

  it('is told from the logs of the boot before, with what of them was not read', async () => {
    const host = await treeOf(range(0, 40).map((number) => ({ number })));
    const line = new Date(START + 20_000).toISOString();
    await write(
      host,
      '/var/log/kern.log.1',
      `old\n${line} box kernel: blk_update_request: I/O error, dev vdb, sector 8\n${line} box kernel: link up\n`,
    );
    await write(host, '/var/log/kern.log.2.gz', 'x');
    await host.files.makeDirectory('/var/log/journal');
    const report = await look(host, { rows: rowsOf(50), files: timed(host, (number) => number), machine: booted(2400) });
    expect(report.crash?.cause?.value).toContain('the kernel reported I/O errors');
    expect(report.crash?.cause?.source).toBe('/var/log/kern.log.1');
    expect(report.crash?.logEvents).toMatchObject([{ kind: 'io-error', at: line, source: '/var/log/kern.log.1' }]);
    expect(report.crash?.logsNotRead.map((log) => log.path)).toEqual(['/var/log/kern.log.2.gz', '/var/log/journal', 'dmesg']);
    expect(report.crash?.containerStartedAt?.value).toBe(new Date(START + 2400_000 + 3_600_000).toISOString());
    expect(find(report, 'TM-H16')?.evidence).toContain('not read: ');
  });

  it('begins its suspect window before the storage fell silent, and prints the formula', async () => {
    const host = await treeOf(range(0, 200).map((number) => ({ number })));
    // Files 0 to 189 a second apart; then 45 s of silence, and ten more.
    const times = (number: number): number => (number < 190 ? number : number + 45);
    const report = await look(host, { rows: rowsOf(200), level: 'structure', files: timed(host, times), machine: booted(9000) });
    const window = report.crash?.suspectWindow;
    expect(window?.value.from).toBe(new Date(START + (189 - 40) * 1000).toISOString());
    expect(window?.source).toContain('vm.dirty_expire 30 s + 2 x vm.dirty_writeback 5 s before the storage fell silent');
    expect(report.suspect).toEqual([[149, 200]]);
  });

  it('reads a bounded window to the end at once, and says how large it was and by which formula', async () => {
    const host = await treeOf(range(0, 200).map((number) => ({ number })));
    const report = await look(host, { rows: rowsOf(200), files: timed(host, (number) => number), machine: booted(9000) });
    expect(report.suspect).toEqual([]);
    expect(report.levels).toEqual([{ level: 'content', ranges: [[159, 200]] }]);
    const found = find(report, 'TM-H20');
    expect(found?.title).toMatch(/^41 files, .* kB, may have been in the page cache only and were read to the end$/);
    expect(found?.ranges).toEqual([[159, 200]]);
    for (const input of [
      'vm.dirty_expire 30 s + 2 x vm.dirty_writeback 5 s before the last write',
      'at most 13.7 GB (vm.dirty_ratio 20 % of 68.7 GB)',
      '/proc/sys/vm/dirty_* of this machine',
    ])
      expect(found?.evidence).toContain(input);
    expect(report.crash?.suspectWindow?.source).toBe(found?.evidence);
    // What is in flight when nobody says how wide the run was: 64 rows.
    const holes = await treeOf(
      range(0, 200)
        .filter((number) => number !== 135 && number !== 136)
        .map((number) => ({ number })),
    );
    const inferred = await look(holes, { rows: rowsOf(200), files: timed(holes, (number) => number), machine: booted(9000) });
    expect(inferred.missing).toMatchObject({ failed: 1, 'in-flight': 1 });
    expect(find(inferred, 'TM-S08')?.evidence).toContain('a hole more than 64 rows (concurrency assumed)');
  });

  it.each([
    ['newer than now', (number: number) => (number === 7 ? 20_000_000 : number), 'the newest file is dated 2024-03-'],
    ['all of one moment', () => 5, '600 of 600 files are dated '],
    ['from before there were any', (number: number) => number - 690_000_000, 'before hidden states were a thing'],
  ])('takes the whole tree for suspect where times are %s, and plans a scrub with its bytes', async (_, times, why) => {
    const host = await treeOf(range(0, 600).map((number) => ({ number })));
    const report = await look(host, { rows: rowsOf(600), files: timed(host, times), machine: booted(9000) });
    expect(find(report, 'TM-H11')?.evidence).toContain(why);
    expect(report.suspect).toEqual([[0, 600]]);
    expect(report.levels).toEqual([]);
    expect(report.pace).toBeNull();
    const suspects = find(report, 'TM-H09');
    expect(suspects?.title).toMatch(/^the bytes of 600 files, .*B, are not proved and may have been lost$/);
    expect(suspects?.evidence).toContain(`the whole tree: `);
    expect(suspects?.evidence).toContain(why);
    expect(report.plan.steps.find((step) => step.what === 'verify')).toMatchObject({ count: 600 });
  });

  it('names processes that hang on the folder', async () => {
    const host = await treeOf(range(0, 5).map((number) => ({ number })));
    const blockedBelow: Machine['blockedBelow'] = async (folder) => ({
      known: true,
      value: [{ pid: 77, command: 'python3', path: `${folder}/rows_0-100/data_5.ckpt`, waitsIn: 'ext4_sync_file', mayWrite: true }],
      source: '/proc/*/stat',
    });
    const report = await look(host, { rows: rowsOf(9), machine: { blockedBelow } });
    expect(find(report, 'TM-H15')?.evidence).toContain('pid 77 (python3) has rows_0-100/data_5.ckpt open and waits in ext4_sync_file');
  });
});

describe('rates', () => {
  it('keeps plateau, whole run and the operator\u2019s apart, shows the stall, and gives the time left as a range', async () => {
    const host = await treeOf(range(0, 100).map((number) => ({ number })));
    const times = (number: number): number => number + (number >= 50 ? 3600 : 0);
    const report = await look(host, { rows: rowsOf(200), files: timed(host, times), rate: 2 });
    expect(report.plan.extract.rates.map((rate) => [Number(rate.perSecond.toPrecision(2)), rate.source])).toEqual([
      [1, "the plateau's, from the files' own times without pauses"],
      [0.027, "the whole run's, from the files' own times"],
      [2, 'given with --rate'],
    ]);
    // Rows have 3 to 5 tokens: what is left is weighed by them, the operator's word is taken as it is.
    const [plateau, whole, given] = report.plan.extract.rates;
    expect(plateau?.tokensPerSecond).toBeCloseTo(4, 1);
    expect(given).toEqual({ perSecond: 2, source: 'given with --rate', seconds: 50 });
    expect(report.plan.extract.seconds).toEqual([50, whole?.seconds]);
    expect(report.pace).toMatchObject({ stallCount: 1, stalledSeconds: 3601 });
    expect(report.pace?.stalls).toEqual([{ from: new Date(START + 49_000).toISOString(), to: new Date(START + 3_650_000).toISOString() }]);
    expect(find(report, 'TM-H17')?.title).toBe('the run stood still once, 1 h in all');
    const text = renderReport(report);
    expect(text).toContain('50 s at 2/s (given with --rate)');
  });
});

describe('an old log', () => {
  it('names rows as failed that would have been taken for something else', async () => {
    const host = await treeOf(
      range(0, 80)
        .filter((number) => number !== 3 && number !== 75)
        .map((number) => ({ number })),
    );
    await write(
      host,
      '/old/driver.log',
      'start\nERROR row 75: CUDA error\nerror: sample 3 timed out\nERROR row 20 failed, later done\nERROR row 81: refused\n',
    );
    const log = await readLog(host.files, '/old/driver.log');
    const plain = await look(host, { rows: rowsOf(90) });
    expect(plain.missing).toMatchObject({ 'in-flight': 1, 'never-started': 10 });
    const report = await look(host, { rows: rowsOf(90), logs: [log] });
    expect(report.missing).toMatchObject({ failed: 3, 'in-flight': 0, 'never-started': 9 });
    const found = find(report, 'TM-S18');
    expect(found?.evidence).toContain('/old/driver.log: line 3: error: sample 3 timed out; line 2: ERROR row 75: CUDA error');
    expect(found?.ranges).toEqual([
      [3, 4],
      [75, 76],
      [81, 82],
    ]);
    expect(renderReport(report)).toContain('(the log)');
  });

  it('is refused when it is compressed or not there', async () => {
    const host = await treeOf([]);
    await expect(readLog(host.files, '/none.log')).rejects.toMatchObject({ code: 'usage' });
    const file = await host.files.create('/run.log.gz', 0o644);
    await file.write(Uint8Array.of(0x1f, 0x8b, 8, 0));
    await file.close();
    await expect(readLog(host.files, '/run.log.gz')).rejects.toThrow('compressed');
  });
});
