import { decompressZstd } from 'hyparquet-compressors';
import { xxh64Low } from './xxh64.ts';
import type { ZstdFrame } from './zstd-frames.ts';

/** Stands behind the text, so that its end is known: the decompressor does not tell how much it wrote. */
const MARK = Buffer.from('b1e0f3a9c45d27886e1190fd3b72c6a4', 'hex');
const BLOCK_HEADER_BYTES = 3;

/**
 * The text of one whole frame, checked against its checksum and the size that it states, where it has them. Throws an Error in words.
 *
 * It is unpacked into a buffer of its own: with none given, the decompressor makes one of the window's size and moves all of it
 * for each block, so that a window of 128 MiB costs a minute and twenty thousand small frames two.
 *
 * @param bytes the frame's own, from its first to its last
 */
export function unpackFrame(bytes: Uint8Array, frame: ZstdFrame): Uint8Array {
  const end = bytes.length - (frame.checksum ? 4 : 0);
  const packed = new Uint8Array(end + BLOCK_HEADER_BYTES + MARK.length);
  packed.set(bytes.subarray(0, end));
  const lastBlock = frame.lastBlock - frame.start;
  packed[lastBlock] = (packed[lastBlock] ?? 0) & ~1;
  packed[4] = (packed[4] ?? 0) & ~4;
  // The last block, uncompressed.
  packed.set([((MARK.length << 3) | 1) & 0xff, MARK.length >>> 5, 0], end);
  packed.set(MARK, end + BLOCK_HEADER_BYTES);
  const room = Buffer.alloc(frame.textBytesMost + MARK.length);
  decompressZstd(packed, room);
  const length = room.lastIndexOf(MARK);
  const where = `the frame at byte ${frame.start} of the file`;
  if (length < 0) throw new Error(`${where} holds more than it states`);
  if (frame.contentBytes !== null && length !== frame.contentBytes) throw new Error(`${where} holds another size than it states`);
  // Room that was only reserved is not kept.
  const text = 2 * length < room.length ? Uint8Array.prototype.slice.call(room, 0, length) : room.subarray(0, length);
  if (frame.checksum) {
    const stored = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(end, true);
    if (stored !== xxh64Low(text)) throw new Error(`the checksum of ${where} is wrong`);
  }
  return text;
}
