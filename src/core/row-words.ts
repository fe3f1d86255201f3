import { textMark } from './redact-speech.ts';

/** So many words in a row are nobody's accident. Fewer are common speech: "the server closed the connection". */
const RUN_WORDS = 8;
/** A whole text of a row that is shorter than a run counts from here on. */
const TEXT_WORDS_LEAST = 4;
const RUNS_MOST = 500_000;
/** Rows quote errors, too, and an error's own words are what the evidence is for. */
const OWN_WORD = /(?:error|exception)$/;

/**
 * Finds text of the dataset's rows in the texts that are to be packed: first `learn` the texts, then `see` every text of every row, then
 * `cut` what both have. Rows are looked at one after another and not kept.
 */
export class RowWords {
  /** Runs of words in the texts, and whether a row has them. By hash, because every word of the dataset asks. */
  readonly #runs = new Map<string, boolean>();
  readonly #hashes = new Set<number>();
  /** Of the last words seen: hash, from, to. */
  readonly #last = new Int32Array(3 * RUN_WORDS);
  #leftOut = 0;

  /** Texts beyond the limit, whose runs are not looked for. */
  get leftOut(): number {
    return this.#leftOut;
  }

  learn(text: string): void {
    if (this.#runs.size >= RUNS_MOST) {
      this.#leftOut += 1;
      return;
    }
    const words = wordsOf(text);
    for (let length = TEXT_WORDS_LEAST; length <= RUN_WORDS; length += 1) {
      for (let at = 0; at + length <= words.length; at += 1) {
        const run = words.slice(at, at + length);
        if (run.some(({ word }) => OWN_WORD.test(word))) continue;
        this.#runs.set(run.map(({ word }) => word).join(' '), false);
        this.#hashes.add(run.reduce((hash, word) => mixed(hash, word.hash), length));
      }
    }
  }

  /** One text of a row. */
  see(text: string): void {
    this.#last.fill(0);
    let count = 0;
    eachWord(text, (hash, from, to) => {
      const at = count % RUN_WORDS;
      this.#last[3 * at] = hash;
      this.#last[3 * at + 1] = from;
      this.#last[3 * at + 2] = to;
      count += 1;
      if (count >= RUN_WORDS) this.#meet(text, count, RUN_WORDS);
    });
    if (count >= TEXT_WORDS_LEAST && count < RUN_WORDS) this.#meet(text, count, count);
  }

  /** The text without what rows hold too; the same text when nothing was found. */
  cut(text: string): { readonly text: string; readonly cuts: number } {
    const words = wordsOf(text);
    const spans: [number, number][] = [];
    for (let at = 0; at < words.length; at += 1) {
      for (let length = RUN_WORDS; length >= TEXT_WORDS_LEAST; length -= 1) {
        const run = words.slice(at, at + length);
        const last = run.at(-1);
        if (run.length < length || last === undefined || this.#runs.get(run.map(({ word }) => word).join(' ')) !== true) continue;
        const [from, to] = [words[at]?.from ?? 0, last.to];
        const open = spans.at(-1);
        if (open !== undefined && from <= open[1] + 1) open[1] = Math.max(open[1], to);
        else spans.push([from, to]);
        break;
      }
    }
    let left = text;
    for (const [from, to] of [...spans].reverse()) left = `${left.slice(0, from)}${textMark(to - from)}${left.slice(to)}`;
    return { text: left, cuts: spans.length };
  }

  /** The last `length` of `count` words. */
  #meet(text: string, count: number, length: number): void {
    let hash = length;
    for (let back = length; back > 0; back -= 1) hash = mixed(hash, this.#last[3 * ((count - back) % RUN_WORDS)] ?? 0);
    if (!this.#hashes.has(hash)) return;
    const words: string[] = [];
    for (let back = length; back > 0; back -= 1) {
      const at = 3 * ((count - back) % RUN_WORDS);
      words.push(text.slice(this.#last[at + 1], this.#last[at + 2]).toLowerCase());
    }
    const run = words.join(' ');
    if (this.#runs.has(run)) this.#runs.set(run, true);
  }
}

interface Word {
  readonly word: string;
  readonly hash: number;
  readonly from: number;
  readonly to: number;
}

function wordsOf(text: string): Word[] {
  const words: Word[] = [];
  // A log may quote with escapes: `\\n` is no letter. Places stay as they are.
  eachWord(text.replace(/\\[nrt]/g, '  '), (hash, from, to) => words.push({ word: text.slice(from, to).toLowerCase(), hash, from, to }));
  return words;
}

/** From here on a character is a word of its own: scripts without spaces. */
const IDEOGRAPHS = 0x2e80;

/** Letters and digits of ASCII make words, and what is beyond it but for its punctuation. A loop over codes: every byte of a dataset comes by. */
function eachWord(text: string, each: (hash: number, from: number, to: number) => void): void {
  let from = -1;
  let hash = HASH_START;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (isWordCode(code)) {
      if (from < 0) from = at;
      // Small and capital letters of ASCII differ in this bit, digits have it set.
      hash = Math.imul(hash ^ (code < 0x80 ? code | 0x20 : code), 0x01000193);
      if (code < IDEOGRAPHS) continue;
    }
    if (from >= 0) each(hash, from, isWordCode(code) ? at + 1 : at);
    from = -1;
    hash = HASH_START;
  }
  if (from >= 0) each(hash, from, text.length);
}

const HASH_START = 0x811c9dc5;

function isWordCode(code: number): boolean {
  if (code < 0x80) return (code >= 0x30 && code <= 0x39) || (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a);
  return code >= 0xaa && !(code >= 0x2000 && code <= 0x206f) && !(code >= 0x3000 && code <= 0x303f) && !(code >= 0xff00 && code <= 0xff0f);
}

function mixed(hash: number, word: number): number {
  return Math.imul(hash ^ word, 0x9e3779b1) ^ (hash >>> 15);
}
