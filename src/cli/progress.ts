import { Presets, SingleBar } from 'cli-progress';
import type { ExtractEvent } from '../app/extraction.ts';
import type { Host } from '../app/host.ts';
import { counted, formatBytes, formatCount, formatSeconds } from '../core/units.ts';

/** Off a terminal one line is printed each so many milliseconds. */
const PLAIN_LINE_MS = 5_000;

/** Before this many samples and seconds a rate is the start-up's and not the run's. */
const STEADY_SAMPLES = 8;
const STEADY_SECONDS = 3;

/** Progress of an extraction on stderr: a moving line on a terminal, plain lines elsewhere. */
export class ExtractionProgress {
  readonly #host: Host;
  readonly #stream: NodeJS.WriteStream;
  #bar: SingleBar | null = null;
  #total = 0;
  #done = 0;
  #failed = 0;
  #bytes = 0;
  #startedMs = 0;
  #printedMs = 0;
  #began = false;

  constructor(host: Host, stream: NodeJS.WriteStream) {
    this.#host = host;
    this.#stream = stream;
  }

  begin(total: number): void {
    this.#total = total;
    this.#began = true;
    this.#startedMs = this.#host.clock.monotonicMs();
    this.#printedMs = this.#startedMs;
    if (total > 0 && this.#stream.isTTY === true) {
      this.#bar = new SingleBar({ stream: this.#stream, format: '{bar} {line}', hideCursor: true, barsize: 24 }, Presets.shades_classic);
      this.#bar.start(total, 0, { line: '' });
    }
  }

  onEvent(event: ExtractEvent): void {
    switch (event.kind) {
      case 'committed':
        // Adopted files were there before: they are no work of this start.
        if (event.record.kind === 'commit' || event.record.attempt > 0) {
          this.#done += 1;
          this.#bytes += event.record.bytes;
        }
        break;
      case 'failed':
        if (event.record.final) this.#failed += 1;
        this.#say(`row ${event.record.row}, try ${event.record.attempt}${event.record.final ? ', given up' : ''}: ${event.record.message}`);
        break;
      case 'set-aside':
        this.#say(`row ${event.row}: ${event.verdict.kind}, set aside`);
        break;
      case 'engine-lost':
        this.#say(`engine lost (${event.message}); waiting for it`);
        break;
      case 'engine-back':
        this.#say('engine is back');
        break;
    }
    this.#show();
  }

  /** Leaves the last state on the screen. */
  end(): void {
    if (!this.#began) return;
    this.#began = false;
    if (this.#bar !== null) {
      this.#bar.update(this.#done, { line: this.#line() });
      this.#bar.stop();
      this.#bar = null;
    } else if (this.#total > 0 && this.#done + this.#failed > 0) {
      this.#stream.write(`${this.#line()}\n`);
    }
  }

  #show(): void {
    if (this.#bar !== null) {
      this.#bar.update(this.#done, { line: this.#line() });
      return;
    }
    const now = this.#host.clock.monotonicMs();
    if (now - this.#printedMs < PLAIN_LINE_MS) return;
    this.#printedMs = now;
    this.#stream.write(`${this.#line()}\n`);
  }

  #line(): string {
    const seconds = Math.max(0.001, (this.#host.clock.monotonicMs() - this.#startedMs) / 1000);
    const rate = this.#done / seconds;
    const left = this.#total - this.#done - this.#failed;
    const eta =
      left === 0
        ? `in ${formatSeconds(seconds)}`
        : this.#done < STEADY_SAMPLES || seconds < STEADY_SECONDS
          ? 'ETA not yet known'
          : `ETA ${formatSeconds(left / rate)}`;
    const failed = this.#failed === 0 ? '' : `, ${formatCount(this.#failed)} failed`;
    return `${formatCount(this.#done)} of ${counted(this.#total, 'sample')}, ${rate.toFixed(1)}/s, ${formatBytes(this.#bytes / seconds)}/s, ${eta}${failed}`;
  }

  #say(text: string): void {
    if (this.#bar === null) this.#stream.write(`${text}\n`);
    else this.#stream.write(`\r\x1b[K${text}\n`);
  }
}
