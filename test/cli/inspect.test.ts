import { mkdtempSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import pc from 'picocolors';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createHost } from '../../src/app/host.ts';
import type { Inspection } from '../../src/app/inspect.ts';
import { failureText } from '../../src/cli/failure.ts';
import { inspectCommand } from '../../src/cli/inspect.ts';
import { identityOf } from '../../src/core/identity.ts';
import { crc32 } from '../../src/format/crc32.ts';
import { writeSafetensors } from '../../src/format/safetensors-writer.ts';
import type { Dtype, TensorSource } from '../../src/format/tensors.ts';
import { writeTorchZip } from '../../src/format/torch-zip-writer.ts';
import { ROOT } from '../support/processes.ts';
import { seededRandom } from '../support/seeded-random.ts';

// The command over real files: what it says, what it exits with, and that it obeys nothing in them.

const TOKENS = 40;
const WIDTH = 64;
const GOLDEN = join(ROOT, 'test/interop/golden');
let place: string;

beforeAll(() => {
  place = mkdtempSync(join(tmpdir(), 'tidemark-inspect-'));
});
afterAll(() => rmSync(place, { recursive: true }));

interface Said {
  readonly code: number;
  readonly text: string;
}

async function inspect(...argv: string[]): Promise<Said> {
  let code = 0;
  let text = '';
  const stream = {
    write: (piece: string, done: () => void) => {
      text += piece;
      done();
    },
  } as unknown as NodeJS.WriteStream;
  const exitWith = (exit: number): void => {
    code = exit;
  };
  const command = inspectCommand({
    host: createHost(),
    terminal: { out: stream, err: stream, colors: pc.createColors(false) },
    argv,
    cwd: place,
    exitWith,
  });
  try {
    await command.exitOverride().parseAsync(argv, { from: 'user' });
  } catch (error) {
    const failure = failureText(error);
    return { code: failure.exit, text: failure.text };
  }
  return { code, text };
}

const document = async (...argv: string[]): Promise<Inspection> => JSON.parse((await inspect(...argv, '--json')).text) as Inspection;

function tensor(name: string, dtype: Dtype, shape: readonly number[], bytes: Uint8Array): TensorSource {
  return { name, dtype, shape, pieces: () => [bytes] };
}

const ids = Uint32Array.from({ length: TOKENS }, (_, at) => 100 + at);
const int64 = (values: Iterable<number>): Uint8Array => new Uint8Array(BigInt64Array.from([...values], BigInt).buffer);

/** bf16 of values between 1 and 2, so that none is zero or infinite. */
function states(width: number, seed: number): Uint8Array {
  const random = seededRandom(seed);
  return new Uint8Array(Uint16Array.from({ length: TOKENS * width }, () => 0x3f80 + random.below(0x80)).buffer);
}

function sample(change: (bytes: Uint8Array) => void = () => undefined): TensorSource[] {
  const last = states(WIDTH, 1);
  change(last);
  return [
    tensor('input_ids', 'I64', [TOKENS], int64(ids)),
    tensor('loss_mask', 'I64', [TOKENS], int64(ids.map((_, at) => (at > 9 ? 1 : 0)))),
    tensor('hidden_state', 'BF16', [1, TOKENS, WIDTH], last),
    tensor('aux_hidden_state', 'BF16', [1, TOKENS, 3 * WIDTH], states(3 * WIDTH, 2)),
  ];
}

async function save(name: string, pieces: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces) parts.push(Uint8Array.from(piece));
  writeFileSync(join(place, name), Buffer.concat(parts));
  return name;
}

const torch = (name: string, change?: (bytes: Uint8Array) => void): Promise<string> =>
  save(name, writeTorchZip(sample(change), { stem: 'data_7' }));

function flip(name: string, at: number): string {
  const bytes = readFileSync(join(place, name));
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(join(place, name), bytes);
  return name;
}

describe('a torch zip', () => {
  it('is told with its tensors, storages, records and what they prove', async () => {
    const said = await inspect(await torch('data_7.ckpt'));
    expect(said.code).toBe(0);
    for (const part of [
      'sound (checked)',
      'torch 2.7 or later',
      'saved as data_7',
      'hidden_state',
      '[1, 40, 64]',
      'BF16',
      'data/2',
      'not read',
      '--level checksum',
    ]) {
      expect(said.text).toContain(part);
    }
  });

  it('shows every stored checksum beside the computed one, and the identity of its ids', async () => {
    const name = await torch('sums.ckpt');
    const seen = await document(name, '--checksums');
    expect(seen.level).toBe('checksum');
    expect(seen.records.length).toBeGreaterThan(6);
    for (const record of seen.records) expect(record.computed).toBe(record.stored);
    expect(seen.crc32).toBe(
      crc32(readFileSync(join(place, name)))
        .toString(16)
        .padStart(8, '0'),
    );
    expect(seen.identity).toMatchObject({ tensor: 'input_ids', tokens: TOKENS, identity: identityOf(ids), stripped: { tokens: TOKENS } });
  });

  it('names the record whose bytes are not those that were written', async () => {
    const name = await torch('flipped.ckpt');
    const place2 = (await document(name)).records.find((record) => record.name === 'data/2');
    flip(name, (place2?.offset ?? 0) + 100);
    expect((await inspect(name)).code).toBe(0);
    const said = await inspect(name, '--checksums');
    expect(said.code).toBe(3);
    expect(said.text).toContain('corrupt (checksum)');
    expect(said.text).toMatch(/data\/2 .*DIFFERS/);
  });

  it('sums up values, and calls bad states what an assessment calls them', async () => {
    const good = await document(await torch('values.ckpt'), '--level', 'content');
    const last = good.tensors.find(({ name }) => name === 'hidden_state')?.values;
    expect(last).toMatchObject({ nan: 0, inf: 0, rows: TOKENS, zeroRows: 0, zeros: 0, min: 1 });
    expect(last?.rms).toBeGreaterThan(1);
    expect(good.tensors.find(({ name }) => name === 'input_ids')?.values).toMatchObject({ min: 100, max: 139, rms: null, rows: null });
    const nan = await inspect(await torch('nan.ckpt', (bytes) => bytes.set([0xc0, 0x7f], 20)), '--level', 'content');
    expect(nan).toMatchObject({ code: 3, text: expect.stringContaining('poisoned (nan)') });
    const zero = await inspect(await torch('zero.ckpt', (bytes) => bytes.fill(0, 2 * WIDTH * 38)), '--level', 'content');
    expect(zero.text).toContain('poisoned (zero)');
    expect(zero.text).toContain('2 of 40 rows are zero, first 38, 2 of them at the end');
  });

  it('is torn where it was cut, and nothing where it was zeroed', async () => {
    const cut = await torch('cut.ckpt');
    truncateSync(join(place, cut), 9000);
    expect(await inspect(cut)).toMatchObject({ code: 3, text: expect.stringContaining('torn (truncated)') });
    writeFileSync(join(place, 'zeros.ckpt'), Buffer.alloc(5000));
    expect(await inspect('zeros.ckpt')).toMatchObject({ code: 3, text: expect.stringContaining('torn (zero-filled)') });
    writeFileSync(join(place, 'empty.ckpt'), '');
    expect(await inspect('empty.ckpt')).toMatchObject({ code: 3, text: expect.stringContaining('torn (empty)') });
  });

  it('reads what newer torches wrote: views, shared storages, no checksums', async () => {
    const views = await inspect(join(GOLDEN, 'views.pt'));
    expect(views.code).toBe(0);
    expect(views.text).toContain('is shared by');
    expect(views.text).toContain('stride [');
    const off = await document(join(GOLDEN, 'crc-off.pt'), '--checksums');
    expect(off.verdict).toEqual({ kind: 'sound', reason: 'unprovable', detail: null });
    expect(off.notProved.join(' ')).toContain('computed no checksums');
    expect(off.records.every((record) => record.stored === null && record.computed !== null)).toBe(true);
  });
});

describe('other forms', () => {
  it('says of safetensors that nothing in it proves its bytes', async () => {
    const tensors = [tensor('token_ids', 'I64', [TOKENS], int64(ids)), tensor('hidden_states', 'BF16', [TOKENS, 4, 16], states(64, 3))];
    const name = await save('hs_7.safetensors', writeSafetensors(tensors, new Map([['format', 'pt']])));
    const seen = await document(name, '--level', 'content');
    expect(seen).toMatchObject({
      form: 'safetensors',
      verdict: { kind: 'sound', reason: 'unprovable' },
      records: [],
      metadata: [{ name: 'format', value: 'pt' }],
    });
    expect(seen.identity?.identity).toBe(identityOf(ids));
    expect(seen.tensors.find((one) => one.name === 'hidden_states')?.values).toMatchObject({ rows: TOKENS * 4 });
    truncateSync(join(place, name), 900);
    expect(await inspect(name)).toMatchObject({ code: 3, text: expect.stringContaining('torn (truncated)') });
  });

  it('reads a torch zip inside gzip, and proves it where it reads all of it', async () => {
    const bytes = gzipSync(readFileSync(join(place, await torch('inner.ckpt'))));
    writeFileSync(join(place, 'data_7.ckpt.gz'), bytes);
    const seen = await document('data_7.ckpt.gz', '--level', 'content');
    expect(seen).toMatchObject({ form: 'gzip', verdict: { kind: 'sound', reason: 'checked' } });
    expect(seen.tensors.map((one) => one.name).sort()).toEqual(['aux_hidden_state', 'hidden_state', 'input_ids', 'loss_mask']);
    expect(seen.identity?.identity).toBe(identityOf(ids));
    writeFileSync(join(place, 'cut.ckpt.gz'), bytes.subarray(0, bytes.length - 3));
    expect((await inspect('cut.ckpt.gz', '--checksums')).code).toBe(3);
  });

  it('refuses by name what it does not open', async () => {
    const refused = async (name: string, bytes: Uint8Array | string, words: string): Promise<void> => {
      writeFileSync(join(place, name), bytes);
      const said = await inspect(name);
      expect(said, name).toMatchObject({ code: 7, text: expect.stringContaining(words) });
    };
    await refused('old.pt', Buffer.from('8002 8a0a 6cfc9c46f9206aa85019 2e80024d e9032e'.replaceAll(' ', ''), 'hex'), 'refused (legacy)');
    await refused('pointer.safetensors', 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n', 'Git LFS pointer');
    await refused('x.gguf', 'GGUF\u0003\0\0\0', 'a GGUF model');
    await refused('pickle.pkl', Buffer.from('\x80\x04cos\nsystem\n', 'latin1'), 'runs code');
    await refused('what', 'something else', 'no format that tidemark knows');
  });

  it('shows the records of a file whose pickle would run code, and runs nothing', async () => {
    const bytes = readFileSync(join(place, await torch('hostile.ckpt')));
    const at = bytes.indexOf('ctorch._utils\n_rebuild_tensor_v2\n');
    // Another global of the same length, with the sums that belong to it.
    bytes.write('cbuiltins\x2eaa\nexec_everything_v2\n'.padEnd(33, '\n').slice(0, 33), at, 'latin1');
    const inner = await document('sums.ckpt');
    const pickle = inner.records.find((record) => record.name === 'data.pkl');
    const sum = crc32(bytes.subarray(pickle?.offset ?? 0, (pickle?.offset ?? 0) + (pickle?.bytes ?? 0)));
    const old = Buffer.alloc(4);
    old.writeUInt32LE(Number.parseInt(pickle?.stored ?? '0', 16));
    for (let found = bytes.indexOf(old); found >= 0; found = bytes.indexOf(old, found + 1)) bytes.writeUInt32LE(sum, found);
    writeFileSync(join(place, 'hostile.ckpt'), bytes);
    const said = await inspect('hostile.ckpt');
    expect(said.code).toBe(7);
    expect(said.text).toContain('refused (hostile)');
    expect(said.text).toContain('nothing was run');
    expect(said.text).toContain('data/3');
  });
});

describe('the command', () => {
  it('tells a path that is not there from a folder', async () => {
    expect(await inspect('nowhere.ckpt')).toMatchObject({ code: 6, text: expect.stringContaining('there is no file') });
    expect(await inspect('.')).toMatchObject({ code: 2, text: expect.stringContaining('tidemark assess') });
  });

  it('follows a link that a person named', async () => {
    await torch('real.ckpt');
    symlinkSync('real.ckpt', join(place, 'link.ckpt'));
    expect((await inspect('link.ckpt')).code).toBe(0);
  });

  it('shows control characters of names and obeys none', async () => {
    const evil = [tensor('\u001b[2J\u202etxt', 'U8', [2], Uint8Array.of(1, 2))];
    const name = await save('evil.safetensors', writeSafetensors(evil, new Map([['\u0007bell', '\u001b]0;owned\u0007']])));
    const said = await inspect(name);
    expect([...said.text].filter((character) => character < ' ' && character !== '\n')).toEqual([]);
    expect(said.text).not.toContain('\u202e');
    expect(said.text).toContain('\\x1b[2J');
  });
});
