import type { RandomAccess } from '../core/random-access.ts';

/** One frame of a zstd file, as its headers tell it before anything is decompressed. */
export interface ZstdFrame {
  readonly start: number;
  readonly end: number;
  /** Where the header of its last block lies. */
  readonly lastBlock: number;
  /** The size of its text, where the header states it. */
  readonly contentBytes: number | null;
  /** No more text than this comes out: the size that the header states, or the sum of what its blocks may hold. */
  readonly textBytesMost: number;
  /** How far back its text may refer. */
  readonly windowBytes: number;
  /** Whether the last four bytes are the text's checksum. */
  readonly checksum: boolean;
  readonly skippable: boolean;
}

const MAGIC = 0xfd2fb528;
const BLOCK_BYTES_MOST = 128 * 1024;
const HEADER_BYTES_MOST = 18;

/**
 * The frame at `start`, by walking over its block headers. Throws an Error in words when there is none, when it is cut off,
 * and when it needs a dictionary. No decompressor's own reading of sizes is trusted with memory.
 */
export async function zstdFrameAt(file: RandomAccess, start: number): Promise<ZstdFrame> {
  const head = await file.read(start, Math.min(HEADER_BYTES_MOST, file.size - start));
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  if (head.length < 9) throw cut(start);
  const magic = view.getUint32(0, true);
  if (magic >>> 4 === 0x184d2a5) {
    const end = start + 8 + view.getUint32(4, true);
    if (end > file.size) throw cut(start);
    return { start, end, lastBlock: start, contentBytes: 0, textBytesMost: 0, windowBytes: 0, checksum: false, skippable: true };
  }
  if (magic !== MAGIC) throw new Error(`at byte ${start} of the file something follows that is no zstd frame`);
  const { headerBytes, windowBytes, contentBytes, checksum } = frameHeader(view, start);
  const blockMost = Math.min(BLOCK_BYTES_MOST, windowBytes);
  let at = start + headerBytes;
  let lastBlock = at;
  let blockBytes = 0;
  for (let last = false; !last; ) {
    if (at + 3 > file.size) throw cut(start);
    const block = await file.read(at, 3);
    lastBlock = at;
    const word = (block[0] ?? 0) | ((block[1] ?? 0) << 8) | ((block[2] ?? 0) << 16);
    const size = word >>> 3;
    const kind = (word >>> 1) & 3;
    last = (word & 1) === 1;
    if (kind === 3 || size > blockMost) throw new Error(`the block at byte ${at} of the file is none`);
    blockBytes += kind === 2 ? blockMost : size;
    at += 3 + (kind === 1 ? 1 : size);
  }
  const end = at + (checksum ? 4 : 0);
  if (end > file.size) throw cut(start);
  if (contentBytes !== null && contentBytes > blockBytes)
    throw new Error(`the frame at byte ${start} of the file states ${contentBytes} bytes, more than its blocks hold`);
  return { start, end, lastBlock, contentBytes, textBytesMost: contentBytes ?? blockBytes, windowBytes, checksum, skippable: false };
}

interface FrameHeader {
  readonly headerBytes: number;
  readonly windowBytes: number;
  readonly contentBytes: number | null;
  readonly checksum: boolean;
}

function frameHeader(view: DataView, start: number): FrameHeader {
  const flags = view.getUint8(4);
  const single = (flags & 0x20) !== 0;
  if ((flags & 8) !== 0) throw new Error(`the frame at byte ${start} of the file has a header of an unknown kind`);
  const dictionaryBytes = [0, 1, 2, 4][flags & 3] ?? 0;
  const sizeBytes = [single ? 1 : 0, 2, 4, 8][flags >>> 6] ?? 0;
  let at = single ? 5 : 6;
  const headerBytes = at + dictionaryBytes + sizeBytes;
  if (headerBytes > view.byteLength) throw cut(start);
  for (let byte = 0; byte < dictionaryBytes; byte += 1) {
    if (view.getUint8(at + byte) !== 0) throw new Error('it was compressed with a dictionary, which is not in the file');
  }
  at += dictionaryBytes;
  const contentBytes =
    sizeBytes === 0
      ? null
      : sizeBytes === 1
        ? view.getUint8(at)
        : sizeBytes === 2
          ? view.getUint16(at, true) + 256
          : sizeBytes === 4
            ? view.getUint32(at, true)
            : view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
  const window = view.getUint8(5);
  const windowBase = 2 ** (10 + (window >>> 3));
  const windowBytes = single ? (contentBytes ?? 0) : windowBase + (windowBase / 8) * (window & 7);
  return { headerBytes, windowBytes, contentBytes, checksum: (flags & 4) !== 0 };
}

function cut(start: number): Error {
  return new Error(`the file ends inside the frame that begins at byte ${start}: it was cut off`);
}
