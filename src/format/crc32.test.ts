import { Buffer } from 'node:buffer';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { combineCrc32, crc32 } from './crc32.ts';

test('crc32 is that of zip', () => {
  expect(crc32(Buffer.from('123456789'))).toBe(0xcbf43926);
  expect(crc32(new Uint8Array(0))).toBe(0);
  expect(crc32(Buffer.from('6789'), crc32(Buffer.from('12345')))).toBe(0xcbf43926);
});

test('the sums of two halves combine to that of the whole', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.uint8Array({ maxLength: 300 }), (a, b) => {
      expect(combineCrc32(crc32(a), crc32(b), b.length)).toBe(crc32(Buffer.concat([a, b])));
    }),
    { seed: 1 },
  );
});

test('combines over lengths beyond 32 bits', () => {
  // 5 GiB of zeros, put together by doubling one MiB.
  let zeros = { sum: crc32(Buffer.alloc(1 << 20)), length: 1 << 20 };
  const join = (a: typeof zeros, b: typeof zeros) => ({ sum: combineCrc32(a.sum, b.sum, b.length), length: a.length + b.length });
  for (let doubling = 0; doubling < 12; doubling += 1) zeros = join(zeros, zeros);
  const fourGiB = zeros;
  const one = { sum: crc32(Buffer.from('x')), length: 1 };
  const left = join(join(one, fourGiB), fourGiB);
  const right = join(one, join(fourGiB, fourGiB));
  expect(fourGiB.length).toBe(2 ** 32);
  // The same bytes joined in another order: a wrong power of x would tell them apart.
  expect(left).toEqual(right);
});
