import { beforeAll, describe, expect, it } from 'vitest';
import { FOLDER, type FolderFiles, folderWith, goodFolder } from '../../test/fuzz/ledger-folder.ts';
import { parseSettings } from '../app/config-settings.ts';
import { encodeLine, parseLines } from '../format/checked-lines.ts';
import { readScope } from './journal.ts';
import type { LedgerReader } from './ledger.ts';
import { openLedger } from './open.ts';
import { readRunRecord, runIdOf } from './run-record.ts';

// What the fuzzer found in ledger files (docs/fuzzing.md), each as the smallest case of its kind.
const at = (name: string): string => `${FOLDER}/.tidemark/${name}`;
let good: FolderFiles;
beforeAll(async () => {
  good = await goodFolder();
});
const bytesOf = (name: string): Buffer => Buffer.from(good.get(at(name)) ?? []);

async function ledgerWith(name: string, bytes: Uint8Array): Promise<LedgerReader> {
  const ledger = await openLedger(folderWith(good, at(name), bytes, 'alive'), FOLDER, { parseSettings });
  if (ledger === null) throw new Error('there is a run');
  return ledger;
}

describe('a lease that cannot be read', () => {
  it.each([
    ['torn', (bytes: Buffer) => bytes.subarray(0, bytes.length - 3)],
    ['empty', () => Buffer.alloc(0)],
    ['with the content of the lease before it', () => bytesOf('leases/run.1')],
    ['with the content of another scope', () => bytesOf('leases/shard-0.3')],
    ['far too large', (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc(100_000)])],
  ])('is held by somebody, not by nobody (%s)', async (_, damage) => {
    const ledger = await ledgerWith('leases/run.3', damage(bytesOf('leases/run.3')));
    expect(await ledger.holder()).toEqual({ scope: 'run', lease: 3, alive: 'unreadable' });
  });

  it('names its holder when it is whole', async () => {
    expect(await (await ledgerWith('', Buffer.alloc(0))).holder()).toMatchObject({ lease: 3, alive: 'alive', process: { pid: 4242 } });
  });
});

describe('a journal', () => {
  const scopeOf = async (name: string, bytes: Uint8Array) => {
    const { id } = JSON.parse(bytesOf('run.json').toString('utf8')) as { id: string };
    return readScope(folderWith(good, at(name), bytes, 'alive').files, FOLDER, id, 'run', [1, 2, 3]);
  };

  it('ends where another file begins, whichever stands behind it', async () => {
    const own = bytesOf('journal/run.3.log');
    const before = await scopeOf('journal/run.3.log', own);
    for (const other of ['journal/run.1.log', 'journal/run.3.log', 'journal/shard-0.1.log', 'leases/run.1']) {
      const read = await scopeOf('journal/run.3.log', Buffer.concat([own, bytesOf(other)]));
      expect(read.records).toEqual(before.records);
      expect(read.fence).toEqual(before.fence);
      expect(read.problems.map(({ kind }) => kind)).toEqual(['torn-tail']);
    }
  });

  it('is not closed by the last word of another', async () => {
    const own = bytesOf('journal/run.3.log');
    const last = (name: string): Uint8Array => encodeLine(parseLines(bytesOf(name)).values.at(-1));
    for (const other of ['journal/run.2.log', 'journal/shard-0.2.log'])
      expect((await scopeOf('journal/run.3.log', Buffer.concat([own, last(other)]))).closed).toBe(false);
    const closing = encodeLine({ kind: 'close', scope: 'run', lease: 3 });
    expect((await scopeOf('journal/run.3.log', Buffer.concat([own, closing]))).closed).toBe(true);
  });

  it('gives no record whose time no date can hold, and no words of its own to messages', async () => {
    const lines = parseLines(bytesOf('journal/run.3.log')).values as Readonly<Record<string, unknown>>[];
    const withLines = (change: (line: Readonly<Record<string, unknown>>) => object): Buffer =>
      Buffer.concat(lines.map((line) => encodeLine(change(line))));
    const timeless = await ledgerWith(
      'journal/run.3.log',
      withLines((line) => (line.kind === 'accept' ? { ...line, at: 1e308 } : line)),
    );
    expect((await timeless.history()).records.filter((record) => record.kind === 'accept' && record.lease === 3)).toEqual([]);
    const wordy = await ledgerWith(
      'journal/run.3.log',
      withLines((line) => (line.kind === 'accept' ? { ...line, reason: 'x'.repeat(1_000_000) } : line)),
    );
    const [quoted] = (await wordy.history()).records.filter((record) => record.kind === 'accept' && record.lease === 3);
    expect(quoted?.kind === 'accept' ? quoted.reason.length : 0).toBe(2000);
    for (const key of ['run', 'scope', 'format']) {
      const { problems } = await scopeOf(
        'journal/run.3.log',
        withLines((line) => (key in line ? { ...line, [key]: '\u001b[2J' } : line)),
      );
      expect(problems).toEqual([expect.objectContaining({ kind: 'no-header', detail: expect.not.stringContaining('\u001b') })]);
    }
  });
});

describe('run.json and settings.json', () => {
  it('carry a checksum, so that a wrong digit in any member is no other run', async () => {
    const text = bytesOf('run.json').toString('utf8');
    for (const bytes of [text.replace('ffff', 'fffe'), text.replace(/"createdAt": "(\d{4})/, '"createdAt": "1999')]) {
      const { files } = folderWith(good, at('run.json'), Buffer.from(bytes), 'alive');
      await expect(readRunRecord(files, FOLDER)).rejects.toMatchObject({
        code: 'format-refused',
        message: expect.stringContaining('checksum'),
      });
    }
    const settings = bytesOf('settings.json').toString('utf8').replace('/staging', '/staginh');
    const ledger = await ledgerWith('settings.json', Buffer.from(settings));
    expect([ledger.settings, ledger.settingsProblem]).toEqual([null, expect.stringContaining('checksum')]);
  });

  it('are read without one, as a person left them', async () => {
    const { check: _, ...rest } = JSON.parse(bytesOf('settings.json').toString('utf8')) as Readonly<Record<string, unknown>>;
    const ledger = await ledgerWith('settings.json', Buffer.from(JSON.stringify({ ...rest, fileMode: 0o600 })));
    expect(ledger.settings?.fileMode).toBe(0o600);
  });

  it('are refused in words when nested without end', async () => {
    const deep = Buffer.from(`{"check":"00000000","x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`);
    expect((await ledgerWith('settings.json', deep)).settingsProblem).toContain('nested too deeply');
  });

  it('state no more rows than a table may have, and no layout that a terminal would obey', async () => {
    const { check: _, ...run } = JSON.parse(bytesOf('run.json').toString('utf8')) as {
      check: string;
      identity: Parameters<typeof runIdOf>[0];
    };
    const { identity } = run;
    for (const strange of [
      { ...identity, dataset: { ...identity.dataset, rows: Number.MAX_SAFE_INTEGER } },
      { ...identity, layout: { ...identity.layout, name: '\u001b[2J' } },
    ]) {
      const bytes = Buffer.from(JSON.stringify({ ...run, identity: strange, id: runIdOf(strange) }));
      const { files } = folderWith(good, at('run.json'), bytes, 'alive');
      await expect(readRunRecord(files, FOLDER)).rejects.toMatchObject({ code: 'format-refused' });
    }
  });
});
