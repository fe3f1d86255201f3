import { deflateRawSync } from 'node:zlib';
import { crc32 } from '../../src/format/crc32.ts';
import { DamageFound } from '../../src/format/damage.ts';
import { parsePickle } from '../../src/format/pickle.ts';
import type { Damage } from '../../src/format/tensors.ts';
import { tensorsOf } from '../../src/format/torch-tensors.ts';
import { readTorchZip, type TorchZip } from '../../src/format/torch-zip.ts';
import { checkRecords } from '../../src/format/torch-zip-records.ts';
import * as zip from '../../src/format/zip-headers.ts';
import type { Random } from '../support/seeded-random.ts';
import { damaged, oddNumber, oneOf } from './mutate.ts';
import { hostilePickle } from './pickles.ts';
import { boundedFile, type FuzzInput, type FuzzTarget, input, keep, sameBytes } from './target.ts';

const MIB = 1024 * 1024;
/** As `readTorchZip` states it: windows of 64 KiB, a directory of 16 MiB, a pickle of 64 MiB, a search of 1 MiB. */
const BOUNDS = { largest: 64 * MIB, total: 16 * MIB + 64 * MIB + 4 * MIB };
const KINDS: Readonly<Record<Damage['kind'], readonly Damage['reason'][]>> = {
  torn: ['empty', 'truncated', 'zero-filled', 'structure', 'trailing-bytes'],
  corrupt: ['checksum'],
  refused: ['hostile', 'legacy', 'version'],
};

/** Every answer of a parser of ours is one of the words, and short whatever the file holds. */
export function keepDamage(damage: Damage): void {
  keep(KINDS[damage.kind].includes(damage.reason), `it says ${damage.kind}/${damage.reason}`);
  keep(damage.detail.length > 0 && damage.detail.length < 2000, `its detail has ${damage.detail.length} characters`);
  keep(![...damage.detail].some((character) => character < ' '), 'its detail has control characters');
}

export function torchZipTarget(seeds: readonly Uint8Array[], pickles: readonly Uint8Array[]): FuzzTarget {
  return {
    name: 'torch-zip',
    make(random) {
      if (random.chance(0.7)) {
        const { bytes, made } = damaged(random, oneOf(random, seeds), oneOf(random, seeds));
        return input(bytes, made, { sealed: true });
      }
      return hostileZip(random, pickles);
    },
    async check(fuzz) {
      const file = boundedFile(fuzz, { ...BOUNDS, total: BOUNDS.total + 4 * fuzz.bytes.length });
      const read = await readTorchZip(file);
      if (!read.ok) return keepDamage(read.damage);
      for (const tensor of read.value.tensors.values()) {
        keep(Number.isSafeInteger(tensor.fileOffset) && Number.isSafeInteger(tensor.bytes), `${tensor.name} has no whole place`);
        keep(
          tensor.fileOffset >= 0 && tensor.bytes >= 0 && tensor.fileOffset + tensor.bytes <= file.size,
          `${tensor.name} lies outside the file`,
        );
      }
      if (fuzz.hole !== null) return;
      const sums = await checkRecords(boundedFile(fuzz, { largest: 8 * MIB, total: fuzz.bytes.length }), read.value);
      if (!sums.ok) return keepDamage(sums.damage);
      keep(sums.value.fileCrc32 === crc32(fuzz.bytes), 'the sum of the file is not that of its bytes');
      if (fuzz.sealed) keepGood(fuzz, read.value, seeds);
    },
  };
}

/** Damage to good files that passes structure and sums is no damage: it gave a good file again, but for two bytes that nobody reads. */
function keepGood(fuzz: FuzzInput, value: TorchZip, seeds: readonly Uint8Array[]): void {
  if (!value.crcComputed) return;
  const madeBy = fuzz.bytes.length - 98 + 12;
  const same = seeds.some(
    (seed) =>
      seed.length === fuzz.bytes.length &&
      sameBytes(seed.subarray(0, madeBy), fuzz.bytes.subarray(0, madeBy)) &&
      sameBytes(seed.subarray(madeBy + 2), fuzz.bytes.subarray(madeBy + 2)),
  );
  keep(same, 'a damaged file is said to be sound');
}

/** What somebody would write on purpose: sums and headers that agree, and contents that do not. */
function hostileZip(random: Random, pickles: readonly Uint8Array[]): FuzzInput {
  const pickle = random.chance(0.5) ? damaged(random, oneOf(random, pickles), oneOf(random, pickles)).bytes : hostilePickle(random);
  const storages = [48, 48, 96, 288].map((bytes, key): [string, Uint8Array] => [`data/${key}`, random.bytes(bytes)]);
  const records: [string, Uint8Array][] = [['data.pkl', pickle], ...storages];
  const words: readonly [string, string][] = [
    ['version', '3\n'],
    ['byteorder', 'little'],
    ['.format_version', '1'],
    ['.storage_alignment', '64'],
    ['.data/serialization_id', '0'.repeat(40)],
  ];
  for (const [name, text] of words) {
    if (random.chance(0.5))
      records.push([
        name,
        Buffer.from(random.chance(0.7) ? text : oneOf(random, ['', '99', '-1', '0', 'big', '9'.repeat(60), '9'.repeat(100), '\0'])),
      ]);
  }
  switch (random.below(7)) {
    case 0:
      return input(zipOf(records, {}), 'a zip of ours around a strange pickle');
    case 1: {
      const bomb = deflateRawSync(Buffer.alloc(MIB));
      return input(zipOf([...records, ['data/9', bomb]], { method: 8, wide: oddNumber(random, MIB) }), 'compressed records');
    }
    case 2: {
      const many = Array.from({ length: 1 + random.below(3000) }, (_, key): [string, Uint8Array] => [`data/${key + 10}`, Buffer.alloc(0)]);
      return input(zipOf([...records, ...many], { claimed: oddNumber(random, many.length) }), 'many records');
    }
    case 3:
      return input(zipOf(records, { shift: random.below(400) - 200, victim: random.below(records.length) }), 'records that overlap');
    case 4:
      return input(zipOf([...records, oneOf(random, records)], {}), 'a name twice');
    case 5: {
      const names = ['../../x', '/etc/passwd', '', 'data/../data.pkl', 'a'.repeat(60_000), 'data/\u202e', 'data/\u001b[2J', 'DATA.PKL'];
      return input(
        zipOf([...records, [oneOf(random, names), random.bytes(8)]], {
          prefix: oneOf(random, ['x', '', '.', '..', 'é', 'p'.repeat(3000)]),
        }),
        'strange names',
      );
    }
    default: {
      const good = zipOf(records, {});
      return input(good, 'a hole of terabytes', {
        hole: { at: random.below(good.length), length: oneOf(random, [1, 4096, 2 ** 31, 2 ** 32, 2 ** 40, 2 ** 45]) },
      });
    }
  }
}

interface ZipLies {
  readonly prefix?: string;
  readonly method?: number;
  /** Uncompressed size to claim. */
  readonly wide?: number;
  /** Records that the end claims. */
  readonly claimed?: number;
  /** Moves what the directory says of one record's place. */
  readonly shift?: number;
  readonly victim?: number;
}

function zipOf(records: readonly (readonly [string, Uint8Array])[], lies: ZipLies): Buffer {
  const pieces: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  records.forEach(([name, content], index) => {
    const entry = {
      fullName: Buffer.from(`${lies.prefix ?? 'x'}/${name}`),
      bytes: content.length,
      headerOffset: offset,
      crc32: crc32(content),
    };
    const head = zip.localHeader(entry, 64);
    const moved = index === lies.victim ? Math.max(0, offset + (lies.shift ?? 0)) : offset;
    const central = zip.centralHeader({ ...entry, headerOffset: moved });
    if (lies.method !== undefined) {
      head.writeUInt16LE(lies.method, 8);
      central.writeUInt16LE(lies.method, 10);
    }
    if (lies.wide !== undefined) central.writeUInt32LE(Math.min(lies.wide, 0xffffffff), 24);
    for (const piece of [head, content, zip.dataDescriptor(entry)]) {
      pieces.push(piece);
      offset += piece.length;
    }
    directory.push(central);
  });
  const central = Buffer.concat(directory);
  return Buffer.concat([
    ...pieces,
    central,
    zip.endRecords(Math.min(lies.claimed ?? records.length, Number.MAX_SAFE_INTEGER), offset, central.length),
  ]);
}

export function pickleTarget(pickles: readonly Uint8Array[]): FuzzTarget {
  return {
    name: 'pickle',
    make(random) {
      if (random.chance(0.4)) return input(hostilePickle(random), 'a pickle made on purpose');
      const { bytes, made } = damaged(random, oneOf(random, pickles), oneOf(random, pickles));
      return input(bytes, made);
    },
    async check({ bytes }) {
      const read = parsePickle(bytes);
      if (!read.ok) return keepDamage(read.damage);
      for (const recordBytes of [48, 96, 288]) {
        try {
          const { tensors, values } = tensorsOf(read.value, () => ({ offset: 64, bytes: recordBytes }));
          keep(tensors.size + values.size <= 200_000, `it names ${tensors.size + values.size} things`);
          for (const tensor of tensors.values())
            keep(
              tensor.fileOffset >= 64 && tensor.fileOffset + tensor.bytes <= 64 + recordBytes,
              `${tensor.name} lies outside its storage`,
            );
        } catch (error) {
          if (!(error instanceof DamageFound)) throw error;
          keepDamage(error.damage);
        }
      }
    },
  };
}

/** The pickles of good files. */
export async function picklesOf(files: readonly Uint8Array[]): Promise<readonly Uint8Array[]> {
  const pickles: Uint8Array[] = [];
  for (const bytes of files) {
    const read = await readTorchZip(boundedFile(input(bytes, 'good'), BOUNDS));
    const record = read.ok ? read.value.records.find(({ name }) => name === 'data.pkl') : undefined;
    if (record !== undefined) pickles.push(bytes.subarray(record.offset, record.offset + record.bytes));
  }
  return pickles;
}
