import pc from 'picocolors';
import { messageOf, TidemarkError } from '../core/errors.ts';

/** Where words go: results to `out`, progress and errors to `err`. */
export interface Terminal {
  readonly out: NodeJS.WriteStream;
  readonly err: NodeJS.WriteStream;
  /** Colour and moving lines only on a terminal (and not under NO_COLOR). */
  readonly colors: ReturnType<typeof pc.createColors>;
}

/**
 * The process's own streams. A reader that goes away, or a log on a full disk, must not end a run: what cannot be written is
 * dropped, and `writeAll` says so to those who need to know.
 */
export function processTerminal(): Terminal {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  return {
    out: process.stdout,
    err: process.stderr,
    colors: pc.createColors(pc.isColorSupported && process.stdout.isTTY === true),
  };
}

/**
 * Writes and waits until the stream has taken it: an exit right behind must not cut a report short. A reader that has gone away
 * (`| head`) has seen enough.
 * @throws TidemarkError `storage-full`, `storage-failed` when the text could not be written
 */
export function writeAll(stream: NodeJS.WriteStream, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      if (error === null || error === undefined || isGone(error)) resolve();
      else
        reject(
          new TidemarkError(
            codeOf(error) === 'ENOSPC' ? 'storage-full' : 'storage-failed',
            `the output could not be written: ${messageOf(error)}`,
            { hint: 'send it elsewhere, and run the command again', cause: error },
          ),
        );
    });
  });
}

function isGone(error: Error): boolean {
  return ['EPIPE', 'ERR_STREAM_DESTROYED'].includes(codeOf(error) ?? '');
}

function codeOf(error: Error): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
