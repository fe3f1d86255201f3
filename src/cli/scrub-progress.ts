import type { Host } from '../app/host.ts';
import { counted, formatCount, formatSeconds } from '../core/units.ts';

/** The first line soon, then one each so often, so that a log of hours stays short. */
const FIRST_LINE_MS = 1000;
const LINE_MS = 10_000;

/** How far a scrub is, on stderr, in plain lines: it may run for hours under another program. */
export class ScrubProgress {
  readonly #host: Host;
  readonly #stream: { write(text: string): unknown };
  readonly #beganMs: number;
  #saidMs: number;
  #done = 0;
  #total = 0;

  constructor(host: Host, stream: { write(text: string): unknown }) {
    this.#host = host;
    this.#stream = stream;
    this.#beganMs = host.clock.monotonicMs();
    this.#saidMs = this.#beganMs + FIRST_LINE_MS - LINE_MS;
  }

  at(done: number, total: number): void {
    this.#done = done;
    this.#total = total;
    const now = this.#host.clock.monotonicMs();
    if (now - this.#saidMs < LINE_MS || done === 0) return;
    this.#saidMs = now;
    const left = ((now - this.#beganMs) / done) * Math.max(0, total - done);
    this.#stream.write(`${this.text()}, about ${formatSeconds(left / 1000)} left\n`);
  }

  text(): string {
    return this.#total === 0 ? counted(this.#done, 'file') : `${formatCount(this.#done)} of ${counted(this.#total, 'file')}`;
  }
}
