import { TidemarkError } from '../core/errors.ts';
import type { FileReader, ReadableFile } from '../host/host.ts';
import type { GivenLog } from './gathered.ts';
import { type LogErrorOptions, parseLog } from './log-errors.ts';

const PIECE_BYTES = 1024 * 1024;
/** A log is read in seconds; what lies behind this is said to be unread. */
const BYTES_MOST = 4 * 1024 * 1024 * 1024;

/**
 * Reads a driver's or server's old log for per-row errors, a megabyte at a time.
 * @throws TidemarkError `usage` when there is no such file or it is compressed
 */
export async function readLog(
  files: FileReader,
  path: string,
  options: LogErrorOptions & { readonly signal?: AbortSignal } = {},
): Promise<GivenLog> {
  const file = await files.open(path);
  if (file === null) throw new TidemarkError('usage', `there is no log ${path}`, { where: path, hint: 'check the path given with --log' });
  try {
    const bytes = Math.min(file.size, BYTES_MOST);
    const errors = await parseLog(textOf(file, path, bytes, options.signal), options);
    return { path, bytesLeftOut: file.size - bytes, ...errors };
  } finally {
    await file.close();
  }
}

async function* textOf(file: ReadableFile, path: string, bytes: number, signal: AbortSignal | undefined): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8');
  for (let at = 0; at < bytes; at += PIECE_BYTES) {
    signal?.throwIfAborted();
    const piece = await file.read(at, Math.min(PIECE_BYTES, bytes - at));
    if (at === 0 && isCompressed(piece)) {
      throw new TidemarkError('usage', `${path} is compressed, and only plain logs are read`, {
        where: path,
        hint: 'unpack it and give the plain file',
      });
    }
    yield decoder.decode(piece, { stream: true });
  }
  yield decoder.decode();
}

function isCompressed(piece: Uint8Array): boolean {
  const [a, b, c, d] = piece;
  return (a === 0x1f && b === 0x8b) || (a === 0x28 && b === 0xb5 && c === 0x2f && d === 0xfd) || (a === 0xfd && b === 0x37);
}
