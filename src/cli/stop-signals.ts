/** What SIGINT and SIGTERM mean: the first drains, the second leaves at once. Both are safe. */
export interface CommandSignals {
  readonly drain: AbortSignal;
  readonly abort: AbortSignal;
  /** Stops listening. */
  dispose(): void;
}

export function listenForSignals(say: (text: string) => void): CommandSignals {
  const drain = new AbortController();
  const abort = new AbortController();
  const onSignal = (name: NodeJS.Signals): void => {
    if (!drain.signal.aborted) {
      say(`${name}: finishing what is in flight; again to leave at once (both are safe)`);
      drain.abort();
    } else {
      abort.abort();
    }
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return {
    drain: drain.signal,
    abort: abort.signal,
    dispose: () => {
      process.off('SIGINT', onSignal);
      process.off('SIGTERM', onSignal);
    },
  };
}
