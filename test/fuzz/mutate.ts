import type { Random } from '../support/seeded-random.ts';

/** Counts and lengths at which arithmetic goes wrong. */
export function oddNumber(random: Random, near: number): number {
  const odd = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0xffff,
    0x7fffffff,
    0x80000000,
    0xfffffffe,
    0xffffffff,
    2 ** 32,
    2 ** 40,
    2 ** 53 - 1,
    2 ** 53,
    2 ** 63,
  ];
  switch (random.below(4)) {
    case 0:
      return Math.max(0, near + random.below(5) - 2);
    case 1:
      return random.below(Math.max(near, 1) * 2);
    default:
      return odd[random.below(odd.length)] ?? 0;
  }
}

export function oneOf<T>(random: Random, items: readonly T[]): T {
  const item = items[random.below(items.length)];
  if (item === undefined) throw new Error('there is something to choose from');
  return item;
}

function writeNumber(bytes: Buffer, at: number, width: 1 | 2 | 4 | 8, value: number): void {
  if (at + width > bytes.length) return;
  const whole = BigInt.asUintN(64, BigInt(Math.min(value, 2 ** 63)));
  for (let k = 0; k < width; k += 1) bytes[at + k] = Number((whole >> BigInt(8 * k)) & 0xffn);
}

interface Change {
  readonly name: string;
  apply(bytes: Buffer, random: Random, other: Uint8Array): Buffer;
}

const place = (bytes: Buffer, random: Random): number =>
  random.chance(0.5) ? random.below(bytes.length + 1) : Math.max(0, bytes.length - random.below(700));
const span = (random: Random): number => 1 + random.below(random.chance(0.5) ? 16 : random.chance(0.5) ? 600 : 5000);

const CHANGES: readonly Change[] = [
  {
    name: 'bit flips',
    apply(bytes, random) {
      for (let k = 1 + random.below(8); k > 0 && bytes.length > 0; k -= 1) {
        const at = Math.min(place(bytes, random), bytes.length - 1);
        bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
      }
      return bytes;
    },
  },
  {
    name: 'random bytes',
    apply(bytes, random) {
      const at = place(bytes, random);
      bytes.set(random.bytes(Math.min(1 + random.below(24), bytes.length - at)), at);
      return bytes;
    },
  },
  {
    name: 'an odd number',
    apply(bytes, random) {
      writeNumber(bytes, place(bytes, random), oneOf(random, [1, 2, 4, 8] as const), oddNumber(random, bytes.length));
      return bytes;
    },
  },
  {
    name: 'a stretch of one byte',
    apply(bytes, random) {
      const at = place(bytes, random);
      return bytes.fill(oneOf(random, [0, 0, 0xff, 0x20, 0x5a]), at, Math.min(bytes.length, at + span(random)));
    },
  },
  {
    name: 'a page of zeros',
    apply: (bytes, random) => {
      const at = random.below(Math.ceil(bytes.length / 4096)) * 4096;
      return bytes.fill(0, at, Math.min(bytes.length, at + 4096 * (1 + random.below(2))));
    },
  },
  { name: 'cut short', apply: (bytes, random) => bytes.subarray(0, place(bytes, random)) },
  { name: 'its beginning cut off', apply: (bytes, random) => bytes.subarray(random.below(bytes.length + 1)) },
  { name: 'zeros appended', apply: (bytes, random) => Buffer.concat([bytes, Buffer.alloc(span(random))]) },
  {
    name: 'its own end appended',
    apply: (bytes, random) => Buffer.concat([bytes, bytes.subarray(Math.max(0, bytes.length - span(random)))]),
  },
  {
    name: 'the end of another',
    apply: (bytes, random, other) =>
      Buffer.concat([bytes.subarray(0, place(bytes, random)), other.subarray(random.below(other.length + 1))]),
  },
  {
    name: 'the same stretch of another',
    apply(bytes, random, other) {
      const at = place(bytes, random);
      const part = other.subarray(at, at + span(random)).subarray(0, Math.max(0, bytes.length - at));
      bytes.set(part, Math.min(at, bytes.length));
      return bytes;
    },
  },
  {
    name: 'another whole file behind it',
    apply: (bytes, _random, other) => Buffer.concat([bytes, other]),
  },
  {
    name: 'a stretch taken out',
    apply(bytes, random) {
      const at = place(bytes, random);
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(Math.min(bytes.length, at + span(random)))]);
    },
  },
  {
    name: 'a stretch twice',
    apply(bytes, random) {
      const at = place(bytes, random);
      const to = Math.min(bytes.length, at + span(random));
      return Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]);
    },
  },
  {
    name: 'a stretch moved',
    apply(bytes, random) {
      const at = place(bytes, random);
      const part = Buffer.from(bytes.subarray(at, Math.min(bytes.length, at + span(random))));
      bytes.set(part, Math.min(random.below(bytes.length + 1), bytes.length - part.length));
      return bytes;
    },
  },
];

/** One to three kinds of damage. @returns a copy; the good files stay as they are */
export function damaged(random: Random, good: Uint8Array, other: Uint8Array): { readonly bytes: Uint8Array; readonly made: string } {
  let bytes: Buffer = Buffer.from(good);
  const names: string[] = [];
  for (let k = random.chance(0.7) ? 1 : 2 + random.below(2); k > 0; k -= 1) {
    const change = oneOf(random, CHANGES);
    bytes = change.apply(bytes, random, other);
    names.push(change.name);
  }
  return { bytes, made: names.join(', ') };
}
