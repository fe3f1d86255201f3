import { createHash } from 'node:crypto';

/** 128 bits as 32 hex digits. */
export type Digest128 = string;

/** What ties a file to its row; docs/on-disk.md has the byte layout. */
export interface RowIdentity {
  readonly identity: Digest128;
  /** The identity without right padding (id 0 under mask 0). Equal to `identity` where there is none. */
  readonly stripped: Digest128;
  readonly mask: Digest128;
  readonly tokens: number;
  readonly strippedTokens: number;
  readonly lossTokens: number;
}

/** The id that pads a row on its right in every tool whose files we read (SpecForge pads with 0). */
export const PAD_ID = 0;

/** @param inputIds token ids, 0 to 2^32 - 1 */
export function identityOf(inputIds: Uint32Array): Digest128 {
  const hash = createHash('sha256');
  hash.update('tidemark.row/1\0', 'latin1');
  hash.update(littleEndian32(inputIds.length));
  hash.update(new Uint8Array(inputIds.buffer, inputIds.byteOffset, inputIds.byteLength));
  return hash.digest('hex').slice(0, 32);
}

/** @param mask one byte a token, 0 or 1 */
export function maskDigestOf(mask: Uint8Array): Digest128 {
  const hash = createHash('sha256');
  hash.update('tidemark.mask/1\0', 'latin1');
  hash.update(littleEndian32(mask.length));
  hash.update(mask);
  return hash.digest('hex').slice(0, 32);
}

/** How many ids are left when right padding goes: the tail of pad ids under mask 0. */
export function strippedLength(inputIds: Uint32Array, mask: Uint8Array): number {
  let length = inputIds.length;
  while (length > 0 && inputIds[length - 1] === PAD_ID && mask[length - 1] === 0) length -= 1;
  return length;
}

export function rowIdentity(inputIds: Uint32Array, mask: Uint8Array): RowIdentity {
  const strippedTokens = strippedLength(inputIds, mask);
  const identity = identityOf(inputIds);
  return {
    identity,
    stripped: strippedTokens === inputIds.length ? identity : identityOf(inputIds.subarray(0, strippedTokens)),
    mask: maskDigestOf(mask),
    tokens: inputIds.length,
    strippedTokens,
    lossTokens: mask.reduce((count, bit) => count + bit, 0),
  };
}

function littleEndian32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}
