import { TidemarkError } from '../core/errors.ts';
import type { ReadableFile } from '../host/host.ts';
import { damaged } from './damaged.ts';
import { PIECE_BYTES } from './jsonl.ts';
import { quoted } from './quoted.ts';
import type { Segment } from './read-window.ts';
import { forwardText, type TextSource } from './text-source.ts';
import { type ZstdFrame, zstdFrameAt } from './zstd-frames.ts';
import { unpackFrame } from './zstd-unpack.ts';

/** A frame is decompressed whole; a larger one would take this twice, and stop everything else for seconds. */
const FRAME_TEXT_BYTES_MOST = 256 * 1024 * 1024;
/** Text that does not compress takes a little more room than it has. */
const READ_BYTES_MOST = FRAME_TEXT_BYTES_MOST + 64 * 1024;

/**
 * JSONL in zstd: frames one after another, each decompressed whole and checked against its checksum where it has one. Frames are
 * the places where reading can begin. `zstd` makes one frame of a file, `pzstd` and `split` many.
 */
export function zstdText(file: ReadableFile, path: string): TextSource {
  /** Where the text of each frame seen so far begins, and the frame in the file: ascending. */
  const begins: { readonly text: number; readonly file: number }[] = [{ text: 0, file: 0 }];

  /** The frame that was read last: the head, the scan and the first rows are often of the same one. */
  let last: { readonly at: number; readonly frame: UnpackedFrame } | null = null;

  async function frameAt(at: number): Promise<UnpackedFrame> {
    if (last?.at === at) return last.frame;
    last = null;
    const frame = await readFrame(file, path, at);
    last = { at, frame };
    return frame;
  }

  function beginAt(position: number): { readonly text: number; readonly file: number } {
    return begins.findLast(({ text }) => text <= position) ?? { text: 0, file: 0 };
  }

  async function* segments(from: number): AsyncGenerator<Segment<Uint8Array>> {
    const begin = beginAt(from);
    let start = begin.text;
    for (let at = begin.file; at < file.size; ) {
      const frame = await frameAt(at);
      at = frame.end;
      const end = start + frame.text.length;
      if (end > (begins.at(-1)?.text ?? 0) && at < file.size) begins.push({ text: end, file: at });
      if (end > start) yield { start, end, cost: frame.text.length, data: frame.text };
      start = end;
    }
  }

  async function* pieces(onRead?: (fileBytes: number) => void): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < file.size; ) {
      const frame = await frameAt(at);
      at = frame.end;
      onRead?.(at);
      for (let from = 0; from < frame.text.length; from += PIECE_BYTES) yield frame.text.subarray(from, from + PIECE_BYTES);
    }
  }

  return forwardText(file, { anchor: (position) => beginAt(position).text, segments }, pieces);
}

interface UnpackedFrame {
  readonly end: number;
  readonly text: Uint8Array;
}

async function readFrame(file: ReadableFile, path: string, at: number): Promise<UnpackedFrame> {
  try {
    const frame = await zstdFrameAt(file, at);
    if (frame.skippable) return { end: frame.end, text: new Uint8Array(0) };
    if (Math.max(frame.textBytesMost, frame.windowBytes) > FRAME_TEXT_BYTES_MOST || frame.end - frame.start > READ_BYTES_MOST)
      throw tooLarge(frame, path);
    return { end: frame.end, text: unpackFrame(await file.read(frame.start, frame.end - frame.start), frame) };
  } catch (error) {
    throw damaged(error, { name: 'the zstd data of', path, hint: `zstd -t ${quoted(path)}; then copy or make it again` });
  }
}

function tooLarge(frame: ZstdFrame, path: string): TidemarkError {
  const mib = (bytes: number): number => Math.ceil(bytes / 1024 / 1024);
  return new TidemarkError(
    'dataset',
    `${path} is one zstd frame of up to ${mib(Math.max(frame.textBytesMost, frame.windowBytes))} MiB of text, and frames are read whole, up to ${mib(FRAME_TEXT_BYTES_MOST)} MiB`,
    { where: path, hint: `zstd -d ${quoted(path)}; then give the file without .zst (or pack it with pzstd, or as .gz)` },
  );
}
