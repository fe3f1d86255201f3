import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { xxh64Low } from '../../src/dataset/xxh64.ts';

const BLOCK_BYTES_MOST = 128 * 1024;

/** Frames that the zstd program made of rows [from, to): `zstd -19`, `-3 --no-check`, `-1 --no-content-size`. Here because CI may lack the program. */
const MADE = [
  [0, 60],
  [60, 90],
  [90, 140],
] as const;

/** Rows of ids as text. */
export function rowText(from: number, to: number): string {
  return Array.from({ length: to - from }, (_, at) => {
    const row = from + at;
    return `${JSON.stringify({ id: row, input_ids: Array.from({ length: 1 + (row % 9) }, (_id, place) => (row * 31 + place) % 999) })}\n`;
  }).join('');
}

export interface ZstdSeed {
  readonly bytes: Uint8Array;
  readonly text: string;
}

/** Good frames: the program's own, and ours of raw and repeated blocks. */
export function zstdSeeds(): readonly ZstdSeed[] {
  const ours = [rowText(0, 60), rowText(60, 90), ' '.repeat(200_000) + rowText(200, 210)].map((text) => ({
    bytes: frame([...blocksOf(Buffer.from(text))], Buffer.from(text)),
    text,
  }));
  const made = MADE.map(([from, to]) => ({
    bytes: readFileSync(join(import.meta.dirname, `made-by-zstd/rows-${from}-${to}.jsonl.zst`)),
    text: rowText(from, to),
  }));
  return [...made, ...ours, { bytes: frame([], Buffer.alloc(0)), text: '' }];
}

export interface Block {
  /** `repeat`: one byte, `bytes` times. */
  readonly kind: 'raw' | 'repeat';
  readonly content: Uint8Array;
  readonly bytes: number;
}

export function* blocksOf(text: Uint8Array): Generator<Block> {
  for (let at = 0; at < text.length; at += 50_000) {
    const content = text.subarray(at, at + 50_000);
    const same = content.every((byte) => byte === content[0]);
    yield same
      ? { kind: 'repeat', content: content.subarray(0, 1), bytes: content.length }
      : { kind: 'raw', content, bytes: content.length };
  }
}

/** A frame of a window of 1 MiB with the blocks as they are given, and the checksum of `text`. @param contentBytes what its header states; null states nothing */
export function frame(blocks: readonly Block[], text: Uint8Array, contentBytes: number | null = null): Uint8Array {
  const head = Buffer.alloc(contentBytes === null ? 6 : 14);
  head.writeUInt32LE(0xfd2fb528, 0);
  head[4] = 4 | (contentBytes === null ? 0 : 0xc0);
  head[5] = 10 << 3;
  if (contentBytes !== null) head.writeBigUInt64LE(BigInt(contentBytes), 6);
  const pieces: Uint8Array[] = [head];
  const all: readonly Block[] = blocks.length > 0 ? blocks : [{ kind: 'raw', content: new Uint8Array(0), bytes: 0 }];
  for (const [index, { kind, content, bytes }] of all.entries()) {
    const word = Buffer.alloc(4);
    word.writeUInt32LE((Math.min(bytes, BLOCK_BYTES_MOST) << 3) | (kind === 'repeat' ? 2 : 0) | (index === all.length - 1 ? 1 : 0));
    pieces.push(word.subarray(0, 3), content);
  }
  const sum = Buffer.alloc(4);
  sum.writeUInt32LE(xxh64Low(text));
  return Buffer.concat([...pieces, sum]);
}
