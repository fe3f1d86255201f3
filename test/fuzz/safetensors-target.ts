import { readSafetensors } from '../../src/format/safetensors.ts';
import { DTYPE_BYTES, elementCount } from '../../src/format/tensors.ts';
import type { Random } from '../support/seeded-random.ts';
import { damaged, oddNumber, oneOf } from './mutate.ts';
import { boundedFile, type FuzzInput, type FuzzTarget, input, keep, sameBytes } from './target.ts';
import { keepDamage } from './torch-targets.ts';

const HEADER_BYTES_MAX = 100_000_000;
const BOUNDS = { largest: HEADER_BYTES_MAX, total: HEADER_BYTES_MAX + 64 * 1024 };

export function safetensorsTarget(seeds: readonly Uint8Array[]): FuzzTarget {
  return {
    name: 'safetensors',
    make(random) {
      if (random.chance(0.3)) {
        // Only its length: the header tells what it was.
        const good = oneOf(random, seeds);
        const bytes = random.chance(0.5)
          ? good.subarray(0, random.below(good.length))
          : Buffer.concat([good, random.bytes(1 + random.below(50))]);
        return input(bytes, 'another length', { sealed: true });
      }
      if (random.chance(0.5)) return hostileHeader(random);
      const { bytes, made } = damaged(random, oneOf(random, seeds), oneOf(random, seeds));
      return input(bytes, made);
    },
    async check(fuzz) {
      const file = boundedFile(fuzz, BOUNDS);
      const read = await readSafetensors(file);
      if (!read.ok) return keepDamage(read.damage);
      keep(!fuzz.sealed || seeds.some((seed) => sameBytes(seed, fuzz.bytes)), 'a file of another length is said to be whole');
      const { tensors, dataOffset } = read.value;
      // The data is filled from its first byte to the file's last, and a reader of JSON agrees with ours.
      let expected = dataOffset;
      for (const tensor of tensors.values()) {
        keep(tensor.fileOffset === expected, `${tensor.name} begins at ${tensor.fileOffset} and not at ${expected}`);
        keep(tensor.bytes === elementCount(tensor.shape) * DTYPE_BYTES[tensor.dtype], `${tensor.name} has other bytes than its shape`);
        expected += tensor.bytes;
      }
      keep(expected === file.size, `the tensors end at ${expected} of ${file.size}`);
      if (fuzz.hole !== null) return;
      const json = JSON.parse(Buffer.from(fuzz.bytes.subarray(8, dataOffset)).toString('utf8')) as Record<
        string,
        { dtype?: unknown; shape?: unknown }
      >;
      const names = Object.keys(json).filter((name) => name !== '__metadata__');
      keep(names.length === tensors.size || Object.hasOwn(json, '__proto__') || tensors.has('__proto__'), 'JSON has other tensors');
      for (const name of names) {
        const tensor = tensors.get(name);
        keep(
          tensor !== undefined && tensor.dtype === json[name]?.dtype && JSON.stringify(tensor.shape) === JSON.stringify(json[name]?.shape),
          `JSON has another ${name}`,
        );
      }
    },
  };
}

function hostileHeader(random: Random): FuzzInput {
  const number = (): string =>
    oneOf(random, [
      `${oddNumber(random, 24)}`,
      '1e3',
      '-1',
      '0.5',
      '00',
      '9'.repeat(400),
      'null',
      '"3"',
      '1E400',
      '[]',
      `${random.below(9)}`,
    ]);
  const list = (): string => `[${Array.from({ length: random.below(random.chance(0.05) ? 200 : 4) }, number).join(',')}]`;
  const name = (): string =>
    oneOf(random, [
      '"a"',
      '"b"',
      '"__proto__"',
      '"__metadata__"',
      '"constructor"',
      '"\\u0061"',
      '"\\ud800"',
      '"\\x"',
      '"a\\u0000b"',
      '"',
      '"é"',
      '""',
    ]);
  const dtype = (): string => oneOf(random, ['"F32"', '"BF16"', '"I64"', '"F4"', '"toString"', '"__proto__"', '7']);
  const tensor = (): string =>
    oneOf(random, [
      `{"dtype":${dtype()},"shape":${list()},"data_offsets":${list()}}`,
      `{"dtype":"U8","shape":[${random.below(9)}],"data_offsets":[0,${random.below(9)}]}`,
      `{"shape":[],"dtype":"F32","data_offsets":[0,4],"dtype":"F32"}`,
      `{"dtype":"BF16","shape":[2147483648,2147483648,0],"data_offsets":[0,0]}`,
      '[['.repeat(oneOf(random, [1, 100, 100_000])),
      '{"a":'.repeat(oneOf(random, [1, 100, 100_000])),
      '{"format":"pt"}',
    ]);
  const json = Buffer.from(
    `{${Array.from({ length: random.below(4) }, () => `${name()}:${tensor()}`).join(',')}}${' '.repeat(random.below(9))}`,
  );
  const length = Buffer.alloc(8);
  const claimed = random.chance(0.6)
    ? json.length
    : oneOf(random, [oddNumber(random, json.length), HEADER_BYTES_MAX, HEADER_BYTES_MAX - 1, HEADER_BYTES_MAX + 1]);
  length.writeBigUInt64LE(BigInt(Math.min(claimed, 2 ** 63)));
  const bytes = Buffer.concat([length, json, random.bytes(random.below(40))]);
  // A hole of terabytes makes every claim of the header fit into the file.
  const hole = random.chance(0.2) ? { at: bytes.length, length: oneOf(random, [16, HEADER_BYTES_MAX, 2 ** 40]) } : null;
  return input(bytes, hole === null ? 'a header made on purpose' : 'a header made on purpose, and a hole', { hole });
}
