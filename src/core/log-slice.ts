import { plainLine } from './log-form.ts';

export interface SlicedLine {
  /** From 1. */
  readonly number: number;
  readonly text: string;
  /** Why it is here: it speaks of trouble, it stands beside a line that does, or it is one of the last. */
  readonly why: 'trouble' | 'beside' | 'tail';
}

export interface SliceOptions {
  readonly isTrouble: (line: string) => boolean;
  /** Lines kept before and behind each line of trouble. */
  readonly beside: number;
  /** Lines of trouble kept: the first ones, and the last ones. */
  readonly first: number;
  readonly last: number;
  /** Lines kept from the end, whatever they say. */
  readonly tail: number;
}

export interface LogSliceResult {
  /** Ascending, each once. */
  readonly lines: readonly SlicedLine[];
  readonly lineCount: number;
  readonly troubleCount: number;
}

/** A longer line is cut before it is looked at: a log may hold anything. */
const LINE_MOST = 8192;

/** Picks the lines of a log that matter, in one pass and in bounded memory, whatever the log's length. */
export class LogSlicer {
  readonly #options: SliceOptions;
  #rest = '';
  /** Behind a line that was too long, up to its end. */
  #skipping = false;
  #count = 0;
  #troubles = 0;
  #recent: { number: number; text: string }[] = [];
  readonly #head: SlicedLine[] = [];
  /** Groups of lines around one line of trouble; only the last ones are kept. */
  #late: SlicedLine[][] = [];
  #open: { lines: SlicedLine[]; left: number } | null = null;

  /** @param firstNumber of the first line, where the beginning was left out */
  constructor(options: SliceOptions, firstNumber = 1) {
    this.#options = options;
    this.#count = firstNumber - 1;
  }

  /** The text that follows, in pieces of any length. */
  push(text: string): void {
    let from = 0;
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', from)) {
      this.#grow(text.slice(from, Math.min(at, from + LINE_MOST)));
      this.#endLine();
      from = at + 1;
    }
    this.#grow(text.slice(from, from + LINE_MOST + 1));
  }

  end(): LogSliceResult {
    if (this.#rest !== '' || this.#skipping) this.#endLine();
    const lines = new Map<number, SlicedLine>();
    const tail = this.#options.tail === 0 ? [] : this.#recent.slice(-this.#options.tail);
    for (const { number, text } of tail) lines.set(number, { number, text, why: 'tail' });
    for (const line of [...this.#head, ...this.#late.slice(-this.#options.last).flat()]) {
      const there = lines.get(line.number);
      if (there === undefined || there.why === 'tail' || line.why === 'trouble') lines.set(line.number, line);
    }
    return {
      lines: [...lines.values()].sort((a, b) => a.number - b.number),
      lineCount: this.#count,
      troubleCount: this.#troubles,
    };
  }

  #grow(piece: string): void {
    if (this.#skipping) return;
    this.#rest += piece;
    if (this.#rest.length > LINE_MOST) this.#skipping = true;
  }

  #endLine(): void {
    this.#count += 1;
    // A progress bar writes its line again and again; the last state is what was seen.
    const parts = this.#rest.slice(0, LINE_MOST).replace(/\r+$/, '').split('\r');
    this.#rest = '';
    this.#skipping = false;
    this.#line(plainLine(parts.at(-1) ?? ''));
  }

  #line(text: string): void {
    const { beside, first, last, tail, isTrouble } = this.#options;
    const number = this.#count;
    if (isTrouble(text)) {
      this.#troubles += 1;
      const before = beside === 0 ? [] : this.#recent.slice(-beside).map((line): SlicedLine => ({ ...line, why: 'beside' }));
      const lines = [...before, { number, text, why: 'trouble' as const }];
      this.#open = { lines, left: beside };
      if (this.#troubles <= first) this.#head.push(...lines);
      else {
        this.#late.push(lines);
        // Halved now and then, not shifted each time.
        if (this.#late.length > 2 * last) this.#late = this.#late.slice(-last);
      }
    } else if (this.#open !== null && this.#open.left > 0) {
      const line: SlicedLine = { number, text, why: 'beside' };
      (this.#troubles <= first ? this.#head : this.#open.lines).push(line);
      this.#open.left -= 1;
    }
    this.#recent.push({ number, text });
    if (this.#recent.length > 2 * Math.max(tail, beside, 1)) this.#recent = this.#recent.slice(-Math.max(tail, beside, 1));
  }
}
