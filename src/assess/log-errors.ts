/** What an old log says of one row. */
export interface RowError {
  readonly row: number;
  /** The first line that names it as failed, from 1, and that line's text. */
  readonly line: number;
  readonly text: string;
  readonly count: number;
}

export interface LogErrors {
  /** Ascending by row. */
  readonly errors: readonly RowError[];
  readonly lines: number;
  /** Error lines that name no row: they are counted and no more. */
  readonly withoutRow: number;
  /** Rows beyond those that are kept. */
  readonly leftOut: number;
}

export interface LogErrorOptions {
  /** The row of a conversation's or row's own id; null for an id that is not in the dataset. Without it ids are not looked for. */
  readonly rowOfId?: (id: string) => number | null;
}

/** A longer line is cut before it is looked at. */
const LINE_MOST = 8192;
const TEXT_MOST = 240;
const ROWS_MOST = 100_000;
/** A range of rows in one line is a batch, not a summary of the whole run. */
const SPAN_MOST = 4096;

const TROUBLE =
  /\b(error|errors|failed|failure|failing|exception|traceback|timed? ?out|timeout|oom|out of memory|skipp(?:ed|ing)|refused|rejected|dropp(?:ed|ing)|discarded|aborted|gave up|giving up|nan|too long|exceeds?)\b|[a-z](?:Error|Exception)\b/i;
/** Words that say that nothing happened; taken out before trouble is looked for. */
const NO_TROUBLE =
  /\b(?:0|no|without|zero) (?:errors?|failures?|failed|exceptions?|skipped|timeouts?)\b|\b(?:errors?|failures?|failed|skipped|exceptions?|timeouts?)\s*[:=]\s*(?:0\b|none\b|false\b|\[\])|\berror[_ -]?(?:rate|log|handler|correction)\b|\btimeout\s*[:=]\s*\d/gi;
const DONE = /\b(?:succeeded|recovered|retried ok|retry succeeded|done after)\b/i;

const NUMBERED =
  /\b(?:row|index|idx|sample|item|example|conversation|prompt|datum|data_?id|sample_?id|sample_?idx|row_?id|row_?idx)\s*(?:no\.?|nr\.?|number|id|index|idx)?\s*[#:=([]*\s*#?(\d{1,12})(?!\w|\.\d|%|\s*\/)/gi;
/** Several at once: a list or range to the end of its clause. A plural with one number is a count. */
const LISTED =
  /\b(?:rows|indices|indexes|samples|items|examples|conversations|prompts)\s*[:=#]?\s*[[({]?\s*(\d{1,12}(?:\s*(?:,|and|-|–|to|\.\.)\s*\d{1,12})+)(?=\s*(?:[\])}.;:]|$))/gi;
const FILE_NAMED = /\b(?:data|hs|sample|row)_(\d{1,12})\.(?:pt|ckpt(?:\.gz)?|safetensors)\b/gi;
const ID_NAMED = /\b(?:conversation_?id|conv_?id|uuid|sample_?id|id)\s*[:=]\s*["']?([A-Za-z0-9][\w.:-]{0,127})/gi;

/** Whether a line says that something went wrong, and not that nothing did. */
export function speaksOfTrouble(line: string): boolean {
  return TROUBLE.test(line.replace(NO_TROUBLE, ' ')) && !DONE.test(line);
}

/**
 * Collects per-row errors from the log of a driver or a server, in whatever words: a line that speaks of trouble and names a row. What
 * names no row is counted; nothing is guessed from the lines around it.
 */
export class LogErrorReader {
  readonly #options: LogErrorOptions;
  readonly #found = new Map<number, { line: number; text: string; count: number }>();
  #lines = 0;
  #withoutRow = 0;
  #leftOut = 0;
  #rest = '';

  constructor(options: LogErrorOptions = {}) {
    this.#options = options;
  }

  /** The text that follows, in pieces of any length. */
  push(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      this.#lines += 1;
      this.#parts(line.split('\r'), this.#lines);
    }
    // A line without an end (a progress bar writes one) must not grow without one.
    if (this.#rest.length > 8 * LINE_MOST) {
      const parts = this.#rest.split('\r');
      this.#rest = (parts.pop() ?? '').slice(0, LINE_MOST);
      this.#parts(parts, this.#lines + 1);
    }
  }

  end(): LogErrors {
    if (this.#rest !== '') {
      this.#lines += 1;
      this.#parts(this.#rest.split('\r'), this.#lines);
    }
    this.#rest = '';
    const errors = [...this.#found].map(([row, seen]) => ({ row, ...seen })).sort((a, b) => a.row - b.row);
    return { errors, lines: this.#lines, withoutRow: this.#withoutRow, leftOut: this.#leftOut };
  }

  #parts(parts: readonly string[], number: number): void {
    for (const part of parts) this.#line(part.slice(0, LINE_MOST), number);
  }

  #line(line: string, number: number): void {
    if (!speaksOfTrouble(line)) return;
    const rows = this.#rowsIn(line);
    if (rows.length === 0) {
      this.#withoutRow += 1;
      return;
    }
    for (const row of rows) this.#add(row, line, number);
  }

  #rowsIn(line: string): number[] {
    const rows = new Set<number>();
    for (const [, number] of line.matchAll(NUMBERED)) rows.add(Number(number));
    for (const [, list] of line.matchAll(LISTED)) {
      for (const part of (list ?? '').split(/,|and/)) {
        const [from = Number.NaN, to = from] = part.split(/-|–|to|\.\./).map(Number);
        if (to < from || !(to - from < SPAN_MOST)) continue;
        for (let row = from; row <= to; row += 1) rows.add(row);
      }
    }
    for (const [, number] of line.matchAll(FILE_NAMED)) rows.add(Number(number));
    const { rowOfId } = this.#options;
    if (rows.size === 0 && rowOfId !== undefined) {
      for (const [, id] of line.matchAll(ID_NAMED)) {
        const row = rowOfId(id ?? '');
        if (row !== null) rows.add(row);
      }
    }
    return [...rows];
  }

  #add(row: number, line: string, number: number): void {
    const known = this.#found.get(row);
    if (known !== undefined) known.count += 1;
    else if (this.#found.size >= ROWS_MOST) this.#leftOut += 1;
    else this.#found.set(row, { line: number, text: line.trim().slice(0, TEXT_MOST), count: 1 });
  }
}

/** The whole of a log at once, from a stream of pieces. */
export async function parseLog(pieces: AsyncIterable<string> | Iterable<string>, options: LogErrorOptions = {}): Promise<LogErrors> {
  const reader = new LogErrorReader(options);
  for await (const piece of pieces) reader.push(piece);
  return reader.end();
}
