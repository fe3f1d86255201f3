import type { ReadableFile } from '../host/host.ts';
import { filePieces } from './jsonl.ts';
import { ReadWindow, type SegmentSource } from './read-window.ts';

/** The text of a JSONL file, whatever it is packed in. Positions are bytes of the text, not of the file. */
export interface TextSource {
  /** All of it in order. @param onRead is told how much of the file itself has been read */
  pieces(onRead?: (fileBytes: number) => void): AsyncGenerator<Uint8Array>;
  /** `bytes` bytes of text from `start`; fewer when the text ends before. */
  read(start: number, bytes: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Text kept behind the furthest read of a compressed file; lanes that run apart by less cost nothing extra. */
const TEXT_KEPT_BYTES = 32 * 1024 * 1024;

export function plainText(file: ReadableFile): TextSource {
  return {
    pieces: (onRead) => filePieces(file, undefined, onRead),
    read: (start, bytes) => file.read(start, bytes),
    close: () => file.close(),
  };
}

/** Text that can only be read forwards. */
export function forwardText(file: ReadableFile, source: SegmentSource<Uint8Array>, pieces: TextSource['pieces']): TextSource {
  const window = new ReadWindow(source, TEXT_KEPT_BYTES);
  return {
    pieces,
    async read(start, bytes) {
      const segments = await window.read(start, start + bytes);
      const parts = segments.map((segment) =>
        segment.data.subarray(Math.max(start - segment.start, 0), Math.min(start + bytes, segment.end) - segment.start),
      );
      const [only] = parts;
      return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts);
    },
    async close() {
      await window.close();
      await file.close();
    },
  };
}
