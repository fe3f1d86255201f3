import type { ReadableFile } from '../host/host.ts';
import { jsonlLines, LINE_BYTES_MOST, type ParsedLine, parseJsonLine } from './jsonl.ts';
import type { FileForm, FileRecord, RecordFile } from './records.ts';
import type { TextSource } from './text-source.ts';

/** The lines of a text as records. Closes the text, and with it the file. */
export function jsonlRecords(
  text: TextSource,
  file: ReadableFile,
  { form, realPath }: { readonly form: FileForm; readonly realPath: string },
): RecordFile {
  async function* records(): AsyncGenerator<readonly FileRecord[]> {
    let fileBytes = 0;
    const pieces = text.pieces((bytes) => {
      fileBytes = bytes;
    });
    for await (const lines of jsonlLines(pieces)) {
      const readBytes = fileBytes;
      yield lines.map(({ line, start, bytes, text: found }) => ({
        line,
        place: { start, bytes },
        readBytes: form === 'jsonl' ? start + bytes : readBytes,
        textBytes: bytes,
        value: () => (found === null ? tooLong(bytes) : parseJsonLine(found)),
        text: () => found ?? new Uint8Array(0),
      }));
    }
  }
  return {
    form,
    realPath,
    stat: file.stat,
    records,
    read: async ({ start, bytes }) => (bytes > LINE_BYTES_MOST ? tooLong(bytes) : parseJsonLine(await text.read(start, bytes))),
    close: () => text.close(),
  };
}

function tooLong(bytes: number): ParsedLine {
  return { ok: false, message: `longer than ${LINE_BYTES_MOST / 1024 / 1024} MiB (${bytes} bytes)` };
}
