import { type ChildProcess, fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { TidemarkError } from '../core/errors.ts';
import type { Helper, Helpers } from './host.ts';
import type { HelperSays } from './serve-helper.ts';
import { thrownError } from './thrown.ts';

/** A helper makes much short-lived memory: fewer, longer collections are cheaper. */
const HELPER_FLAGS = ['--max-semi-space-size=32'];
/** How often silence is looked for: limits are as exact as this. */
const TICK_MS = 250;

interface Pending {
  readonly silentMs: number;
  readonly onWord: (word: unknown) => void;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
  lastMs: number;
}

/** Helpers on this machine, each a Node process that runs `program` (see serve-helper.ts). */
export function createLocalHelpers(program: URL): Helpers {
  return { cores: availableParallelism(), start: () => new LocalHelper(program) };
}

class LocalHelper implements Helper {
  readonly #child: ChildProcess;
  readonly #watch: NodeJS.Timeout;
  readonly #ended: Promise<void>;
  #alive = true;
  #pending: Pending | null = null;

  constructor(program: URL) {
    // A process that hangs in the kernel cannot be killed: it must hold nothing that somebody waits for, so no stream of ours.
    this.#child = fork(fileURLToPath(program), [], {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      execArgv: HELPER_FLAGS,
    });
    this.#child.on('message', (message) => this.#hear(message as HelperSays));
    this.#ended = new Promise((resolve) => {
      const onEnd = (): void => {
        this.#end();
        resolve();
      };
      // One that cannot even be started has an error and no exit.
      this.#child.on('error', onEnd);
      this.#child.on('exit', onEnd);
    });
    this.#watch = setInterval(() => this.#look(), TICK_MS);
    // Idle helpers do not keep the command alive.
    this.#watch.unref();
    this.#child.unref();
    this.#child.channel?.unref();
  }

  get alive(): boolean {
    return this.#alive;
  }

  ask(question: unknown, options: { readonly silentMs: number; readonly onWord: (word: unknown) => void }): Promise<void> {
    if (!this.#alive) return Promise.reject(gone());
    return new Promise((resolve, reject) => {
      this.#pending = { ...options, resolve, reject, lastMs: performance.now() };
      this.#child.channel?.ref();
      this.#watch.ref();
      this.#child.send({ ask: question }, (error) => {
        if (error !== null) this.#end();
      });
    });
  }

  stop(): Promise<void> {
    this.#alive = false;
    clearInterval(this.#watch);
    this.#child.kill('SIGKILL');
    if (this.#child.connected) this.#child.disconnect();
    this.#finish()?.reject(gone());
    return this.#ended;
  }

  #hear(message: HelperSays): void {
    const pending = this.#pending;
    if (pending === null) return;
    pending.lastMs = performance.now();
    switch (message.kind) {
      case 'word':
        try {
          pending.onWord(message.word);
        } catch (error) {
          // The caller's own trouble: what else this helper says is for nobody.
          this.#finish();
          void this.stop();
          pending.reject(error instanceof Error ? error : new Error(String(error)));
        }
        return;
      case 'done':
        this.#finish()?.resolve();
        return;
      case 'failed':
        this.#finish()?.reject(thrownError(message.error));
    }
  }

  #look(): void {
    const pending = this.#pending;
    if (pending === null || performance.now() - pending.lastMs < pending.silentMs) return;
    const silent = this.#finish();
    void this.stop();
    silent?.reject(
      new TidemarkError('storage-silent', `a read was not answered in ${pending.silentMs / 1000} s`, { hint: 'findmnt', retry: 'later' }),
    );
  }

  #end(): void {
    if (!this.#alive) return;
    this.#alive = false;
    clearInterval(this.#watch);
    this.#finish()?.reject(gone());
  }

  #finish(): Pending | null {
    const pending = this.#pending;
    this.#pending = null;
    this.#watch.unref();
    this.#child.channel?.unref();
    return pending;
  }
}

function gone(): TidemarkError {
  return new TidemarkError('storage-failed', 'the process that reads in our place ended before it answered', {
    hint: 'dmesg | tail   (was it killed for memory?)',
    retry: 'later',
  });
}
