import { hash as digestOf } from 'node:crypto';

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
  return digest128('tidemark.row/1\0', inputIds.length, new Uint8Array(inputIds.buffer, inputIds.byteOffset, inputIds.byteLength));
}

/** @param mask one byte a token, 0 or 1 */
export function maskDigestOf(mask: Uint8Array): Digest128 {
  return digest128('tidemark.mask/1\0', mask.length, mask);
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

/** One call on one piece of memory: a hash object and its updates cost more than a short row's ids. */
function digest128(tag: string, count: number, content: Uint8Array): Digest128 {
  const bytes = Buffer.allocUnsafe(tag.length + 4 + content.length);
  bytes.write(tag, 'latin1');
  bytes.writeUInt32LE(count, tag.length);
  bytes.set(content, tag.length + 4);
  return digestOf('sha256', bytes, 'hex').slice(0, 32);
}
