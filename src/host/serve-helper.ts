import { type ThrownData, thrownData } from './thrown.ts';

/** What a helper process sends to the one that started it. */
export type HelperSays =
  | { readonly kind: 'word'; readonly word: unknown }
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly error: ThrownData };

/** Everything that a helper's program hears is one question after the other; it ends with the process that started it. */
export function serveHelper(answer: (question: unknown, say: (word: unknown) => void) => Promise<void>): void {
  const send = (message: HelperSays): void => {
    process.send?.(message);
  };
  process.on('message', (message: { readonly ask: unknown }) => {
    answer(message.ask, (word) => send({ kind: 'word', word })).then(
      () => send({ kind: 'done' }),
      (error: unknown) => send({ kind: 'failed', error: thrownData(error) }),
    );
  });
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
  // A terminal's Ctrl-C reaches the whole group; the process that started us decides what ends.
  process.on('SIGINT', () => undefined);
}
