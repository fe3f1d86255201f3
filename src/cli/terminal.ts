import pc from 'picocolors';

/** Where words go: results to `out`, progress and errors to `err`. */
export interface Terminal {
  readonly out: NodeJS.WriteStream;
  readonly err: NodeJS.WriteStream;
  /** Colour and moving lines only on a terminal (and not under NO_COLOR). */
  readonly colors: ReturnType<typeof pc.createColors>;
}

export function processTerminal(): Terminal {
  return { out: process.stdout, err: process.stderr, colors: pc.createColors(pc.isColorSupported && process.stdout.isTTY === true) };
}

/** Writes and waits until the stream has taken it: an exit right behind must not cut a report short. */
export function writeAll(stream: NodeJS.WriteStream, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      if (error === null || error === undefined) resolve();
      else reject(error);
    });
  });
}
