import { crc32 as zlibCrc32 } from 'node:zlib';

/** The reflected polynomial of zip, gzip and PNG. */
const POLYNOMIAL = 0xedb88320;

/**
 * CRC-32 as zip and gzip have it.
 *
 * @param running the value over the bytes before these, so that a file can be summed piece by piece; 0 to begin
 * @returns an unsigned 32-bit number
 */
export function crc32(bytes: Uint8Array, running = 0): number {
  return zlibCrc32(bytes, running);
}

/** The product of two polynomials over GF(2) modulo the CRC's, both in the CRC's reversed bit order. */
function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let mask = 0x80000000; mask !== 0; mask >>>= 1) {
    if ((a & mask) !== 0) product ^= shifted;
    shifted = (shifted & 1) === 0 ? shifted >>> 1 : (shifted >>> 1) ^ POLYNOMIAL;
  }
  return product >>> 0;
}

/** `x^(2^n)` modulo the polynomial, n from 0 to 31; the powers repeat after that. */
const POWERS: readonly number[] = (() => {
  const powers = [0x40000000];
  for (let n = 1; n < 32; n += 1) {
    const last = powers[n - 1] ?? 0;
    powers.push(multiply(last, last));
  }
  return powers;
})();

/**
 * The CRC-32 of two stretches of bytes one after the other, from the CRC of each. Sums a file's records
 * into the file's own CRC without hashing their bytes twice (the method of zlib's `crc32_combine`).
 *
 * @param lengthB bytes that `b` was taken over, up to 2^53
 */
export function combineCrc32(a: number, b: number, lengthB: number): number {
  let factor = 0x80000000;
  // Three doublings turn a count of bytes into one of bits.
  for (let rest = lengthB, n = 3; rest > 0; rest = Math.floor(rest / 2), n += 1) {
    if (rest % 2 === 1) factor = multiply(POWERS[n % 32] ?? 0, factor);
  }
  return (multiply(factor, a) ^ b) >>> 0;
}
