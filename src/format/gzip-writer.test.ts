import { execFileSync } from 'node:child_process';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { memoryFile, seeded } from '../../test/support/scenes/emit.ts';
import { crc32 } from './crc32.ts';
import { GzipStream } from './gzip-stream.ts';
import { gzipSizeMost, writeGzip } from './gzip-writer.ts';
import type { WrittenFile } from './tensors.ts';

/** One buffer for all pieces, as the writers of tensors have: it is another piece as soon as the next one is asked for. */
async function* source(pieces: readonly Uint8Array[], asked?: () => void): AsyncGenerator<Uint8Array, WrittenFile> {
  const shared = new Uint8Array(Math.max(0, ...pieces.map((piece) => piece.length)));
  for (const piece of pieces) {
    asked?.();
    shared.set(piece);
    yield shared.subarray(0, piece.length);
    shared.fill(0xee);
  }
  return { bytes: 0, crc32: 0, records: [] };
}

async function written(inner: AsyncGenerator<Uint8Array, WrittenFile>): Promise<{ file: Buffer; account: WrittenFile }> {
  const parts: Uint8Array[] = [];
  const pieces = writeGzip(inner);
  for (;;) {
    const next = await pieces.next();
    if (next.done === true) return { file: Buffer.concat(parts), account: next.value };
    parts.push(Uint8Array.from(next.value));
  }
}

function noise(bytes: number, seed: number): Uint8Array {
  const next = seeded(seed);
  return Uint8Array.from({ length: bytes }, () => next(256));
}

const CASES = [
  { name: 'one byte', pieces: [Uint8Array.of(7)] },
  { name: 'noise in pieces of all sizes', pieces: [noise(3, 1), noise(200_000, 2), noise(0, 3), noise(65_536, 4), noise(1_000_000, 5)] },
  { name: 'a long run of zeros', pieces: [new Uint8Array(3_000_000), noise(9, 6)] },
];

describe('a gzip file', () => {
  for (const { name, pieces } of CASES) {
    it(`holds ${name}, for zlib, for Python and for our reader`, async () => {
      const whole = Buffer.concat(pieces);
      const { file, account } = await written(source(pieces));
      expect(gunzipSync(file).equals(whole)).toBe(true);
      const python = 'import gzip, sys, zlib; print(zlib.crc32(gzip.decompress(sys.stdin.buffer.read())))';
      expect(execFileSync('python3', ['-c', python], { input: file, encoding: 'utf8' }).trim()).toBe(`${crc32(whole)}`);
      expect(account).toEqual({ bytes: file.length, crc32: crc32(file), records: [] });
      expect(file.length).toBeLessThanOrEqual(gzipSizeMost(whole.length));
      const stream = await GzipStream.open(memoryFile(file));
      await stream.finish();
      expect(stream.offset).toBe(whole.length);
      expect(stream.fileCrc32).toBe(account.crc32);
      stream.close();
      expect((await written(source(pieces))).file.equals(file)).toBe(true);
    });
  }

  it('asks for no more than it can pass on', async () => {
    const pieces = Array.from({ length: 64 }, (_, at) => noise(256 * 1024, at));
    let asked = 0;
    const output = writeGzip(
      source(pieces, () => {
        asked += 1;
      }),
    );
    await output.next();
    await output.next();
    // What nobody takes stops deflate, and deflate stops the source: sixty pieces are still with it, however long we wait.
    for (let turn = 0; turn < 200; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(asked).toBeLessThanOrEqual(4);
    await output.return({ bytes: 0, crc32: 0, records: [] });
  });

  it('fails as its source does, and closes a source that it leaves', async () => {
    async function* bad(): AsyncGenerator<Uint8Array, WrittenFile> {
      yield noise(100_000, 1);
      throw new Error('a value that is not a number');
    }
    await expect(written(bad())).rejects.toThrow('a value that is not a number');
    let closed = false;
    async function* endless(): AsyncGenerator<Uint8Array, WrittenFile> {
      try {
        for (;;) yield noise(500_000, 2);
      } finally {
        closed = true;
      }
    }
    const output = writeGzip(endless());
    for (let taken = 0; taken < 5; taken += 1) await output.next();
    await output.return({ bytes: 0, crc32: 0, records: [] });
    expect(closed).toBe(true);
  });
});
