import { Buffer } from 'node:buffer';
import { beforeAll, describe, expect, test } from 'vitest';
import { type EmitFile, emit, memoryFile, seeded } from '../../test/support/scenes/emit.ts';
import type { RandomAccess } from '../core/random-access.ts';
import { crc32 } from './crc32.ts';
import type { Parsed } from './tensors.ts';
import { readTorchZip, type TorchZip } from './torch-zip.ts';
import { checkRecords } from './torch-zip-records.ts';
import * as zip from './zip-headers.ts';

const LAYOUTS = ['1.13', '2.1', '2.7'] as const;
let files: Map<string, Buffer>;

beforeAll(async () => {
  const random = seeded(4);
  const tensor = (dtype: string, shape: readonly number[], bytes: number) => ({
    tensor: dtype,
    shape,
    data: Buffer.from(Array.from({ length: bytes }, () => random(256))).toString('base64'),
  });
  const small = (out: string, rest: Partial<EmitFile>): EmitFile => {
    const states = ['hidden_state', tensor('bfloat16', [1, 6, 8], 96)];
    const object = { dict: [['input_ids', tensor('int64', [6], 48)], ['none', tensor('int64', [0], 0)], states] };
    return { out, kind: 'torch', stem: 'data_7', object, ...rest };
  };
  files = await emit([...LAYOUTS.map((layout) => small(layout, { layout })), small('crc-off', { crc: false })]);
});

function file(name: string): Buffer {
  return Buffer.from(files.get(name) ?? Buffer.alloc(0));
}

/** Opens and, where that succeeds, checks; fails when a read is larger than the file or than any stated limit. */
async function open(bytes: Uint8Array): Promise<Parsed<TorchZip>> {
  const source = memoryFile(bytes);
  const read = await readTorchZip(source);
  expect(source.seen.largest).toBeLessThanOrEqual(Math.min(bytes.length, 64 << 20));
  if (read.ok) {
    for (const tensor of read.value.tensors.values()) {
      expect(tensor.fileOffset >= 0 && tensor.fileOffset + tensor.bytes <= bytes.length).toBe(true);
    }
  }
  return read;
}

/** A zip of stored records under a prefix, with the writer's own headers: what an attacker would write. */
function zipOf(records: readonly (readonly [string, Uint8Array])[], prefix = 'x'): Buffer {
  const pieces: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  const add = (bytes: Uint8Array): void => {
    pieces.push(bytes);
    offset += bytes.length;
  };
  for (const [name, content] of records) {
    const entry = { fullName: Buffer.from(`${prefix}/${name}`), bytes: content.length, headerOffset: offset, crc32: crc32(content) };
    add(zip.localHeader(entry, 64));
    add(content);
    add(zip.dataDescriptor(entry));
    directory.push(zip.centralHeader(entry));
  }
  const central = Buffer.concat(directory);
  return Buffer.concat([...pieces, central, zip.endRecords(records.length, offset, central.length)]);
}

describe('a damaged torch zip', () => {
  test.each(LAYOUTS)('of layout %s never passes with a bit changed outside its tensors', async (layout) => {
    const good = file(layout);
    const whole = await open(good);
    if (!whole.ok) throw new Error(whole.damage.detail);
    const tensorAt = (at: number): boolean =>
      [...whole.value.tensors.values()].some((t) => at >= t.fileOffset && at < t.fileOffset + t.bytes);
    const passed: number[] = [];
    for (let at = 0; at < good.length; at += 1) {
      if (tensorAt(at)) continue;
      const bit = 1 << (at % 8);
      good[at] = (good[at] as number) ^ bit;
      if ((await open(good)).ok) passed.push(at);
      good[at] = (good[at] as number) ^ bit;
    }
    // Who made the zip64 end record (two bytes) means nothing to any reader.
    const madeBy = good.length - 98 + 12;
    expect(passed.filter((at) => at !== madeBy && at !== madeBy + 1)).toEqual([]);
  });

  test('never passes when cut or appended to', async () => {
    for (const name of files.keys()) {
      const good = file(name);
      for (let length = 0; length < good.length; length += 1) {
        expect(await open(good.subarray(0, length)), `${name} cut at ${length}`).toMatchObject({ ok: false, damage: { kind: 'torn' } });
      }
      for (const extra of [1, 2, 20, 22, 98, 4096, 100_000]) {
        const zeros = Buffer.concat([good, Buffer.alloc(extra)]);
        expect(await open(zeros), `${name} and ${extra} zeros`).toMatchObject({ ok: false, damage: { reason: 'trailing-bytes' } });
        const own = Buffer.concat([good, good.subarray(-extra)]);
        expect(await open(own), `${name} and its own end`).toMatchObject({ ok: false, damage: { reason: 'trailing-bytes' } });
      }
    }
  });

  test('gives an answer whatever is done to it', async () => {
    const random = seeded(2024);
    const names = [...files.keys()];
    for (let round = 0; round < 4000; round += 1) {
      const good = file(names[random(names.length)] ?? '');
      const other = file(names[random(names.length)] ?? '');
      const from = random(good.length);
      const length = 1 + random(random(2) === 0 ? 16 : 600);
      let changed: Buffer = good;
      switch (random(6)) {
        case 0:
          for (let k = 1 + random(4); k > 0; k -= 1) good[random(good.length)] = random(256);
          break;
        case 1:
          good.fill(0, from, Math.min(good.length, from + length));
          break;
        case 2:
          other.copy(good, from, random(other.length));
          break;
        case 3:
          changed = Buffer.concat([good.subarray(0, from), other.subarray(random(other.length))]);
          break;
        case 4:
          changed = Buffer.concat([good.subarray(0, from), good.subarray(Math.min(good.length, from + length))]);
          break;
        default: {
          // A number near the end, where sizes and offsets stand.
          const at = good.length - 4 - random(Math.min(good.length - 4, 500));
          good.writeUInt32LE([0, 1, 0xffffffff, 0xfffffffe, 0x7fffffff, good.length, random(2 ** 32)][random(7)] ?? 0, at);
        }
      }
      const read = await open(changed);
      if (!read.ok) continue;
      // What still opens still holds its records where it says, or its sums tell.
      await checkRecords(memoryFile(changed), read.value);
    }
  });

  test('is not believed for the numbers in its headers', async () => {
    const good = file('2.7');
    const end = good.length - 98;
    const wide = [0xffffffffffffffffn, 1n << 53n, 1n << 40n, 1n << 32n, 0n, 1n];
    for (const at of [end + 4, end + 24, end + 32, end + 40, end + 48, end + 64]) {
      for (const value of wide) {
        const bytes = Buffer.from(good);
        bytes.writeBigUInt64LE(value, at);
        expect(await open(bytes)).toMatchObject({ ok: false, damage: { kind: 'torn' } });
      }
    }
    // All of the end agrees on a directory of 3 GiB, in a file that is no longer than its end.
    const lying = zip.endRecords(50_000_000, 0, 3 * 2 ** 30);
    const tail = { size: 3 * 2 ** 30 + 98, seen: 0 };
    const source: RandomAccess = {
      size: tail.size,
      read(offset, length) {
        tail.seen = Math.max(tail.seen, length);
        const bytes = Buffer.alloc(length);
        lying.copy(bytes, tail.size - 98 - offset);
        return Promise.resolve(bytes);
      },
    };
    expect(await readTorchZip(source)).toMatchObject({ ok: false, damage: { kind: 'refused', reason: 'hostile' } });
    expect(tail.seen).toBeLessThanOrEqual(1 << 20);
  });

  test('an error of the machine is not damage', async () => {
    const broken: RandomAccess = { size: 1000, read: () => Promise.reject(new Error('EIO')) };
    await expect(readTorchZip(broken)).rejects.toThrow('EIO');
    const bytes = file('2.7');
    const read = await open(bytes);
    if (!read.ok) throw new Error(read.damage.detail);
    await expect(checkRecords({ size: bytes.length, read: broken.read }, read.value)).rejects.toThrow('EIO');
  });
});

describe('a hostile torch zip', () => {
  const pickle = (text: string): Buffer => Buffer.from(text, 'latin1');
  const none = pickle('\x80\x02}q\x00.');

  test('that would run code is refused by name', async () => {
    const system = zipOf([['data.pkl', pickle('\x80\x02cposix\nsystem\nq\x00X\x02\x00\x00\x00idq\x01\x85q\x02Rq\x03.')]]);
    const read = await open(system);
    expect(read).toMatchObject({ ok: false, damage: { kind: 'refused', reason: 'hostile' } });
    expect(read.ok ? '' : read.damage.detail).toContain('posix.system');
  });

  test('is refused for compression, big-endian order, newer versions, and a pickle too large', async () => {
    expect((await open(zipOf([['data.pkl', none]]))).ok).toBe(true);
    const refused = async (bytes: Buffer, reason: string) =>
      expect(await open(bytes)).toMatchObject({ ok: false, damage: { kind: 'refused', reason } });
    await refused(
      zipOf([
        ['data.pkl', none],
        ['byteorder', pickle('big')],
      ]),
      'version',
    );
    await refused(
      zipOf([
        ['data.pkl', none],
        ['version', pickle('11\n')],
      ]),
      'version',
    );
    await refused(
      zipOf([
        ['data.pkl', none],
        ['version', Buffer.alloc(1000, '1')],
      ]),
      'hostile',
    );
    await refused(zipOf([['data.pkl', Buffer.alloc((64 << 20) + 1)]]), 'hostile');
    const deflated = zipOf([['data.pkl', none]]);
    deflated.writeUInt16LE(8, 8);
    deflated.writeUInt16LE(8, deflated.indexOf('PK\x01\x02', 0, 'latin1') + 10);
    await refused(deflated, 'version');
  });

  test('with names that differ, repeat or have no folder is damaged structure', async () => {
    const torn = async (bytes: Buffer) =>
      expect(await open(bytes)).toMatchObject({ ok: false, damage: { kind: 'torn', reason: 'structure' } });
    await torn(
      zipOf([
        ['data.pkl', none],
        ['data.pkl', none],
      ]),
    );
    await torn(zipOf([['version', pickle('3\n')]]));
    await torn(zipOf([]));
    const otherFolder = zipOf([
      ['data.pkl', none],
      ['version', pickle('3\n')],
    ]);
    for (let at = otherFolder.indexOf('x/version'); at >= 0; at = otherFolder.indexOf('x/version')) otherFolder[at] = 0x79;
    await torn(otherFolder);
  });

  test('names tensors only inside their storages', async () => {
    const tensor = (offset: number, shape: string, stride: string, elements = 4, key = '0') =>
      zipOf([
        [
          'data.pkl',
          pickle(
            `\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00${key}X\x03\x00\x00\x00cpuK${String.fromCharCode(elements)}tQK${String.fromCharCode(offset)}${shape}${stride}\x89ccollections\nOrderedDict\n)RtR.`,
          ),
        ],
        ['data/0', Buffer.alloc(16)],
      ]);
    expect(await open(tensor(0, 'K\x04\x85', 'K\x01\x85'))).toMatchObject({ ok: true });
    expect(await open(tensor(4, 'K\x00\x85', 'K\x01\x85'))).toMatchObject({ ok: true });
    const bad = { ok: false, damage: { kind: 'torn', reason: 'structure' } };
    expect(await open(tensor(1, 'K\x04\x85', 'K\x01\x85'))).toMatchObject(bad);
    expect(await open(tensor(0, 'K\x04\x85', 'K\x02\x85'))).toMatchObject(bad);
    expect(await open(tensor(0, 'K\x04\x85', 'K\x01\x85', 5))).toMatchObject(bad);
    expect(await open(tensor(0, 'K\x04\x85', 'K\x01\x85', 4, '1'))).toMatchObject(bad);
    expect(await open(tensor(0, 'K\x04\x85', 'K\x01K\x01\x86'))).toMatchObject(bad);
    expect(await open(tensor(0, 'J\xff\xff\xff\xff\x85', 'K\x01\x85'))).toMatchObject(bad);
    // Four bytes that claim to be 2 GiB, and shapes that no number holds.
    const most = '\x8a\x07\xff\xff\xff\xff\xff\xff\x1f';
    expect(await open(tensor(0, 'J\xff\xff\xff\x7f\x85', 'K\x00\x85'))).toMatchObject({ ok: false, damage: { reason: 'hostile' } });
    expect(await open(tensor(0, `(${most.repeat(30)}t`, `(${'K\x00'.repeat(30)}t`))).toMatchObject({ ok: false });
    expect(await open(tensor(0, `(${most.repeat(30)}K\x00t`, `(${'K\x00'.repeat(31)}t`))).toMatchObject({ ok: true });
  });
});
