import type { HelperLender } from '../host/file-calls.ts';
import type { Clock, Helper, Helpers } from '../host/host.ts';

/** Helpers that hang are replaced, up to so many; each is a process of about 50 MB. */
const HELPERS_MOST = 40;
/** Who has waited so long for a helper waits for one that hangs. */
const PATIENCE_MS = 2000;
/** A killed process is gone in milliseconds; one that is not hangs. */
const END_MS = 1000;

interface Slot {
  readonly helper: Helper;
  /** Questions that it has or waits for. */
  queued: number;
  tail: Promise<void>;
}

/** Lends helpers for one question at a time. Starts as many as there are processors, and more where those hang. */
export class HelperPool implements HelperLender {
  readonly cores: number;
  readonly #helpers: Helpers;
  readonly #clock: Clock;
  readonly #slots = new Set<Slot>();
  readonly #stopped = new AbortController();
  #wake: (() => void)[] = [];

  constructor(helpers: Helpers, clock: Clock) {
    this.cores = helpers.cores;
    this.#helpers = helpers;
    this.#clock = clock;
    // They take a while to start, and so does what the caller does first.
    for (let count = 0; count < helpers.cores; count += 1) this.grow();
  }

  async lend<T>(work: (helper: Helper) => Promise<T>, use?: Helper): Promise<T> {
    const slot = use === undefined ? await this.#idle() : this.#slotOf(use);
    if (use !== undefined) slot.queued += 1;
    const before = slot.tail;
    const { promise, resolve } = withResolver();
    slot.tail = promise;
    await before;
    try {
      return await work(slot.helper);
    } finally {
      slot.queued -= 1;
      if (!slot.helper.alive) this.#slots.delete(slot);
      resolve();
      const wake = this.#wake;
      this.#wake = [];
      for (const call of wake) call();
    }
  }

  /** One more helper. */
  grow(): void {
    if (this.#slots.size < HELPERS_MOST) this.#slots.add({ helper: this.#helpers.start(), queued: 0, tail: Promise.resolve() });
  }

  /** Kills all; a question that is open is rejected. Waits a moment for their end, because somebody must collect them, and for none that hangs. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    const ends = [...this.#slots].map(({ helper }) => helper.stop());
    this.#slots.clear();
    const waiting = new AbortController();
    const patience = this.#clock.sleep(END_MS, waiting.signal).catch(() => undefined);
    await Promise.race([Promise.all(ends), patience]);
    waiting.abort();
  }

  /** One that nobody has, and that is the caller's from now on. */
  async #idle(): Promise<Slot> {
    for (;;) {
      this.#stopped.signal.throwIfAborted();
      for (const slot of this.#slots) {
        if (!slot.helper.alive) this.#slots.delete(slot);
        else if (slot.queued === 0) {
          // Taken in the same breath: who asks next must not wait behind this one, least of all where it hangs.
          slot.queued += 1;
          return slot;
        }
      }
      if (this.#slots.size === 0) this.grow();
      else if (!(await this.#freed())) this.grow();
    }
  }

  /** Whether one was given back within the time that is worth waiting. */
  async #freed(): Promise<boolean> {
    const ended = new AbortController();
    const stop = AbortSignal.any([ended.signal, this.#stopped.signal]);
    const { promise, resolve } = withResolver();
    this.#wake.push(resolve);
    const patience = this.#clock.sleep(PATIENCE_MS, stop).then(
      () => false,
      () => true,
    );
    const freed = await Promise.race([promise.then(() => true), patience]);
    ended.abort();
    return freed;
  }

  #slotOf(helper: Helper): Slot {
    for (const slot of this.#slots) if (slot.helper === helper) return slot;
    // It is gone; asking it says so.
    return { helper, queued: 0, tail: Promise.resolve() };
  }
}

function withResolver(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
