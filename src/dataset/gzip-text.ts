import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, type Gunzip } from 'node:zlib';
import type { ReadableFile } from '../host/host.ts';
import { damaged } from './damaged.ts';
import { filePieces } from './jsonl.ts';
import { quoted } from './quoted.ts';
import type { Segment } from './read-window.ts';
import { forwardText, type TextSource } from './text-source.ts';

const READ_BYTES = 512 * 1024;
const TEXT_BYTES = 1024 * 1024;

/**
 * JSONL in gzip: one member or many (`cat a.gz b.gz`, bgzip, pigz). zlib checks length and CRC-32 of each member. It
 * cannot begin in the middle, so a row before the kept text costs inflating everything before it again.
 */
export function gzipText(file: ReadableFile, path: string): TextSource {
  const pieces = (onRead?: (fileBytes: number) => void) => inflated(file, path, onRead);
  async function* segments(): AsyncGenerator<Segment<Uint8Array>> {
    let start = 0;
    for await (const data of inflated(file, path)) {
      yield { start, end: start + data.length, cost: data.length, data };
      start += data.length;
    }
  }
  return forwardText(file, { anchor: () => 0, segments }, pieces);
}

async function* inflated(file: ReadableFile, path: string, onRead?: (fileBytes: number) => void): AsyncGenerator<Uint8Array> {
  const gunzip = createGunzip({ chunkSize: TEXT_BYTES });
  const flow = pipeline(Readable.from(filePieces(file, READ_BYTES, onRead), { highWaterMark: 1 }), gunzip);
  // Its failure is the failure of the loop below, which is where it is told.
  flow.catch(() => undefined);
  let textBytes = 0;
  try {
    for await (const chunk of gunzip as AsyncIterable<Uint8Array>) {
      textBytes += chunk.length;
      yield chunk;
    }
    await flow;
    await refuseTail(file, gunzip);
  } catch (error) {
    throw damaged(error, {
      name: `after ${textBytes} bytes of text, the gzip data of`,
      path,
      hint: `gzip -t ${quoted(path)}; then copy or make it again`,
    });
  } finally {
    gunzip.destroy();
  }
}

/** zlib stops at a zero byte behind a member: padding, or the end of a file whose rest was never written. */
async function refuseTail(file: ReadableFile, gunzip: Gunzip): Promise<void> {
  for (let at = gunzip.bytesWritten; at < file.size; at += READ_BYTES) {
    const rest = await file.read(at, Math.min(READ_BYTES, file.size - at));
    const other = rest.findIndex((byte) => byte !== 0);
    if (other >= 0) throw new Error(`at byte ${at + other} of the file something follows that is no gzip data`);
  }
}
