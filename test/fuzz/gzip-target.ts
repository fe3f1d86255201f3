import { deflateRawSync, gunzipSync, gzipSync } from 'node:zlib';
import { DamageFound } from '../../src/format/damage.ts';
import { GzipStream } from '../../src/format/gzip-stream.ts';
import { TorchStream } from '../../src/format/torch-stream.ts';
import type { Random } from '../support/seeded-random.ts';
import { damaged, oddNumber, oneOf } from './mutate.ts';
import { boundedFile, type FuzzInput, type FuzzTarget, input, keep, sameBytes } from './target.ts';
import { keepDamage } from './torch-targets.ts';

const MIB = 1024 * 1024;

/** A torch zip inside gzip, read forwards to its end. */
export function gzipTarget(torch: readonly Uint8Array[]): FuzzTarget {
  // Members that differ only in their header's time are the same file to every reader.
  const seeds = torch.map((bytes) => gzipSync(bytes, { level: 6 }));
  return {
    name: 'gzip',
    make(random) {
      switch (random.below(8)) {
        case 0:
        case 1: {
          // The damage is inside, and gzip's own sum is right.
          const { bytes, made } = damaged(random, oneOf(random, torch), oneOf(random, torch));
          return input(gzipSync(bytes, { level: 1 }), `inside: ${made}`);
        }
        case 2:
          return hostileGzip(random, seeds);
        default: {
          const { bytes, made } = damaged(random, oneOf(random, seeds), oneOf(random, seeds));
          return input(bytes, made, { sealed: true });
        }
      }
    },
    async check(fuzz) {
      const file = boundedFile(fuzz, { largest: MIB, total: 2 * fuzz.bytes.length + 4 * MIB });
      let stream: GzipStream | null = null;
      try {
        stream = await GzipStream.open(file);
        const whole = await TorchStream.open(stream);
        for (const tensor of whole.tensors.values())
          keep(Number.isSafeInteger(tensor.bytes) && tensor.bytes >= 0, `${tensor.name} has no whole size`);
        await whole.finish();
      } catch (error) {
        if (!(error instanceof DamageFound)) throw error;
        return keepDamage(error.damage);
      } finally {
        stream?.close();
      }
      // Headers differ in what says nothing of the content, and deflate has bits that nobody reads: what counts is what comes out.
      if (fuzz.sealed) {
        const content = gunzipSync(fuzz.bytes, { maxOutputLength: 16 * MIB });
        keep(torch.some((seed) => sameBytes(seed, content)) || (fuzz.bytes[3] ?? 0) > 1, 'a damaged file is said to be sound');
      }
    },
  };
}

let made: readonly Uint8Array[] | null = null;

/** Zeros without end, and something that begins as a torch zip with a pickle of 80 MiB. Made once: they take a second. */
function bombs(): readonly Uint8Array[] {
  const start = Buffer.from('PK\x03\x04'.padEnd(26, '\0').concat('\x0a\x00\x00\x00x/data.pkl'), 'latin1');
  made ??= [Buffer.alloc(8 * MIB), Buffer.alloc(64 * MIB), Buffer.concat([start, Buffer.alloc(80 * MIB)])].map((bytes) =>
    deflateRawSync(bytes),
  );
  return made;
}

function hostileGzip(random: Random, seeds: readonly Uint8Array[]): FuzzInput {
  const head = Buffer.from([0x1f, 0x8b, 8, oneOf(random, [0, 1, 2, 4, 8, 16, 30, 224]), 0, 0, 0, 0, 0, 3]);
  const trailer = Buffer.alloc(8);
  trailer.writeUInt32LE(oddNumber(random, 0) >>> 0, 0);
  trailer.writeUInt32LE(oddNumber(random, 64) >>> 0, 4);
  switch (random.below(4)) {
    case 0:
      return input(Buffer.concat([head, oneOf(random, bombs()), trailer]), 'a bomb of zeros');
    case 1: {
      const at = random.below(seeds.length);
      return input(Buffer.concat([seeds[at]?.subarray(0, -8) ?? head, oneOf(random, bombs()), trailer]), 'a bomb behind a good stream');
    }
    case 2:
      return input(Buffer.concat([oneOf(random, seeds), oneOf(random, seeds)]), 'two members');
    default:
      return input(Buffer.concat([head, random.bytes(random.below(200)), trailer]), 'a header and noise');
  }
}
