import { crc32 } from './crc32.ts';

/**
 * One JSON object with its own checksum in it: `check` is the CRC-32, as eight hex digits, of the other members' text without white
 * space, in their order. Laid out for people, and replaced whole: who edits it by hand takes `check` out.
 */
export function encodeDocument(value: object): Uint8Array {
  return Buffer.from(`${JSON.stringify({ ...value, check: sumOf(value) }, null, 2)}\n`);
}

export type ReadDocument = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly why: string };

/** The value without its checksum. One that has none was written by hand, or before there were checksums, and comes as it is. Total. */
export function parseDocument(bytes: Uint8Array): ReadDocument {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    return { ok: false, why: 'it is no JSON' };
  }
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, 'check')) return { ok: true, value };
  const { check, ...rest } = value as Readonly<Record<string, unknown>>;
  try {
    return check === sumOf(rest) ? { ok: true, value: rest } : { ok: false, why: 'its checksum is wrong: it is damaged' };
  } catch (error) {
    // Texts can be nested deeper than they can be written again.
    if (error instanceof RangeError) return { ok: false, why: 'it is nested too deeply' };
    throw error;
  }
}

function sumOf(value: object): string {
  return crc32(Buffer.from(JSON.stringify(value)))
    .toString(16)
    .padStart(8, '0');
}
