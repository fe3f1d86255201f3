import { constants, crc32, deflateRawSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { emit, memoryFile, seeded, tears } from '../../test/support/scenes/emit.ts';
import { parsed } from './damage.ts';
import { GzipStream } from './gzip-stream.ts';
import { TorchStream } from './torch-stream.ts';
import { readTorchZip } from './torch-zip.ts';

function noise(bytes: number, seed = 1): Buffer {
  const next = seeded(seed);
  return Buffer.from(Array.from({ length: bytes }, () => next(256)));
}

const finish = (bytes: Uint8Array) =>
  parsed(async () => {
    const stream = await GzipStream.open(memoryFile(bytes));
    try {
      await stream.finish();
      return { offset: stream.offset, fileCrc32: stream.fileCrc32 };
    } finally {
      stream.close();
    }
  });

const proveTorch = (bytes: Uint8Array) =>
  parsed(async () => {
    const stream = await GzipStream.open(memoryFile(bytes));
    try {
      const torch = await TorchStream.open(stream);
      await torch.finish();
      return torch.tensors;
    } finally {
      stream.close();
    }
  });

describe('gzip streams', () => {
  for (const length of [0, 1, 1000, 70_000, 3_000_000]) {
    it(`inflates ${length} bytes and knows the sum of the file`, async () => {
      const plain = noise(length);
      const file = gzipSync(plain);
      const done = await finish(file);
      if (length === 0) expect(done).toMatchObject({ ok: false, damage: { kind: 'torn' } });
      else expect(done).toEqual({ ok: true, value: { offset: length, fileCrc32: crc32(file) } });
    });
  }

  it('sees bytes behind its end, however many', async () => {
    const file = gzipSync(noise(100_000));
    for (const more of [1, 8, 5000, 3_000_000]) {
      // Its last bytes say a length that all of it could have: then only the end of the stream tells.
      const bytes = Buffer.concat([file, noise(more + 8, 9)]);
      bytes.writeUInt32LE(bytes.length * 2, bytes.length - 4);
      expect(await finish(bytes), `${more}`).toMatchObject({ ok: false, damage: { kind: 'torn', reason: 'trailing-bytes' } });
    }
    expect(await finish(Buffer.concat([file, file]))).toMatchObject({ ok: false, damage: { kind: 'torn', reason: 'structure' } });
  });

  it('sees every cut, every zero page and a flip', async () => {
    const file = gzipSync(noise(200_000));
    for (const length of [1, 9, 17, 18, 4096, 100_000, file.length - 8, file.length - 1]) {
      expect((await finish(file.subarray(0, length))).ok, `cut at ${length}`).toBe(false);
    }
    const hole = Buffer.from(file);
    hole.fill(0, 8192, 16_384);
    expect(await finish(hole)).toMatchObject({ ok: false, damage: { kind: 'torn', reason: 'zero-filled' } });
    const flipped = Buffer.from(file);
    flipped[50_000] = (flipped[50_000] ?? 0) ^ 4;
    expect(await finish(flipped)).toMatchObject({ ok: false, damage: { kind: 'corrupt' } });
  });

  it('stops a bomb at its bound without holding it', async () => {
    const block = deflateRawSync(Buffer.alloc(64 * 1024 * 1024), { finishFlush: constants.Z_FULL_FLUSH });
    const trailer = Buffer.alloc(8, 1);
    trailer.writeUInt32LE(20 * 64 * 1024 * 1024, 4);
    const header = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
    const bomb = Buffer.concat([header, ...Array.from({ length: 20 }, () => block), deflateRawSync(Buffer.alloc(0)), trailer]);
    const before = process.memoryUsage().rss;
    expect(await finish(bomb)).toMatchObject({ ok: false, damage: { kind: 'refused', reason: 'hostile' } });
    expect(process.memoryUsage().rss - before).toBeLessThan(256 * 1024 * 1024);
  }, 60_000);

  it('refuses a trailer that these bytes cannot have', async () => {
    const file = Buffer.from(gzipSync(noise(5000)));
    file.writeUInt32LE(0xfffffff0, file.length - 4);
    await expect(parsed(() => GzipStream.open(memoryFile(file)))).resolves.toMatchObject({ ok: false, damage: { reason: 'structure' } });
  });

  it('reads headers with names, comments and extra fields, and refuses other methods', async () => {
    const bare = gzipSync(noise(300));
    const fields = [Buffer.from([3, 0, 1, 2, 3]), Buffer.from('data_7.ckpt\0'), Buffer.from('a comment\0'), Buffer.alloc(2)];
    const head = Buffer.from(bare.subarray(0, 10));
    head[3] = 0x1e;
    expect(await finish(Buffer.concat([head, ...fields, bare.subarray(10)]))).toMatchObject({ ok: true });
    const other = Buffer.from(bare);
    other[2] = 9;
    expect(await finish(other)).toMatchObject({ ok: false, damage: { kind: 'refused' } });
  });
});

describe('a torch zip read forwards', () => {
  it('says the same as the zip reader', async () => {
    const files = await emitTorch();
    for (const [name, bytes] of files) {
      const direct = await readTorchZip(memoryFile(bytes));
      const forwards = await proveTorch(gzipSync(bytes));
      expect(forwards.ok, `${name}: ${forwards.ok ? '' : forwards.damage.detail}`).toBe(true);
      if (direct.ok && forwards.ok) expect([...forwards.value]).toEqual([...direct.value.tensors]);
    }
  });

  it('finds every damage of the zip inside, and of the gzip around it', async () => {
    const [good] = (await emitTorch()).values();
    if (good === undefined) throw new Error('no file');
    for (const { how, bytes, seen_by } of await tears('data_7.ckpt', good, 3)) {
      if (seen_by === 'none') continue;
      expect((await proveTorch(gzipSync(bytes))).ok, how).toBe(false);
    }
    for (const { how, bytes } of await tears('data_7.ckpt.gz', gzipSync(good), 4)) {
      expect((await proveTorch(bytes)).ok, how).toBe(false);
    }
  });
});

async function emitTorch(): Promise<Map<string, Buffer>> {
  const tensor = (dtype: string, bytes: number, shape: readonly number[], seed: number) => ({
    tensor: dtype,
    shape,
    data: noise(bytes, seed).toString('base64'),
  });
  const dict = [
    ['input_ids', tensor('int64', 40 * 8, [40], 1)],
    ['loss_mask', tensor('bool', 40, [40], 2)],
    ['aux_hidden_state', tensor('bfloat16', 40 * 192 * 2, [1, 40, 192], 3)],
    ['hidden_state', tensor('bfloat16', 40 * 64 * 2, [1, 40, 64], 4)],
    ['nothing', tensor('float32', 0, [0, 3], 5)],
    ['conversation_id', 'c-17'],
  ];
  const object = { dict };
  return emit([
    { out: 'a', kind: 'torch', stem: 'data_7', object, layout: '2.7' },
    { out: 'b', kind: 'torch', stem: 'data_7', object, layout: '2.1' },
    { out: 'c', kind: 'torch', stem: 'archive', object, layout: '1.13' },
    { out: 'd', kind: 'torch', stem: 'data_7', object, crc: false },
    { out: 'e', kind: 'torch', stem: 'data_7', object, align: 4096 },
  ]);
}
