import { Buffer } from 'node:buffer';
import { readPickle } from './pickle.ts';
import type { PickleValue } from './pickle-values.ts';

/** Pickles remembered at most, and the longest that is: a sample's has about 600 bytes. */
const PICKLES_MOST = 4096;
const BYTES_MOST = 4096;

interface Remembered {
  readonly bytes: Buffer;
  readonly value: PickleValue;
}

/** Keyed by CRC-32, which callers have at hand; equal bytes decide. */
const remembered = new Map<number, Remembered>();

/**
 * As `readPickle`, with the last few thousand remembered: samples of one run and of equal length have the same pickle, byte for byte. The
 * value is shared and must not be changed. At most 16 MiB of bytes and about as much again in values.
 * @param crc32 of the bytes
 * @throws DamageFound
 */
export function readRememberedPickle(bytes: Buffer, crc32: number): PickleValue {
  const known = remembered.get(crc32);
  if (known?.bytes.equals(bytes) === true) return known.value;
  const value = readPickle(bytes);
  if (bytes.length > BYTES_MOST) return value;
  if (remembered.size >= PICKLES_MOST) {
    // The oldest one: a Map keeps the order in which keys came.
    for (const oldest of remembered.keys()) {
      remembered.delete(oldest);
      break;
    }
  }
  remembered.set(crc32, { bytes: Buffer.from(bytes), value });
  return value;
}
