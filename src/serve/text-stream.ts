import type { EngineText } from './text.ts';

/** Turns a growing list of token ids into text that never has to be taken back. */
export interface TextStream {
  /** All text given out so far. */
  readonly text: string;
  readonly stoppedBy: string | null;
  /** Takes all ids so far and returns the new text that is certain. */
  push(tokenIds: readonly number[]): string;
  /** Takes all ids so far and leaves the text for later. */
  keep(tokenIds: readonly number[]): void;
  /** The text held back until now. */
  finish(): string;
}

const INCOMPLETE = '\uFFFD';

/**
 * A byte-level token may end inside a character, and a stop string may lie across tokens: such an end is held back until
 * more ids come. Ids must only ever be appended.
 */
export function createTextStream(text: Pick<EngineText, 'decode'>, stop: readonly string[]): TextStream {
  let given = '';
  let seen: readonly number[] = [];
  let stoppedBy: string | null = null;

  function advance(decoded: string, final: boolean): string {
    if (stoppedBy !== null) return '';
    const found = firstStop(decoded, stop);
    if (found !== null) stoppedBy = found.word;
    const certain = found !== null ? decoded.slice(0, found.at) : final ? decoded : decoded.slice(0, certainLength(decoded, stop));
    if (certain.length <= given.length) return '';
    const piece = certain.slice(given.length);
    given = certain;
    return piece;
  }

  return {
    get text() {
      return given;
    },
    get stoppedBy() {
      return stoppedBy;
    },
    push(tokenIds) {
      seen = tokenIds;
      return advance(text.decode(tokenIds), false);
    },
    keep(tokenIds) {
      seen = tokenIds;
    },
    finish: () => advance(text.decode(seen), true),
  };
}

function firstStop(decoded: string, stop: readonly string[]): { readonly at: number; readonly word: string } | null {
  let first: { at: number; word: string } | null = null;
  for (const word of stop) {
    const at = decoded.indexOf(word);
    if (at >= 0 && (first === null || at < first.at)) first = { at, word };
  }
  return first;
}

/** Without an unfinished character and without an end that may become a stop string. */
function certainLength(decoded: string, stop: readonly string[]): number {
  let length = decoded.length;
  while (length > 0 && decoded[length - 1] === INCOMPLETE) length -= 1;
  let heldBack = 0;
  for (const word of stop) {
    for (let size = Math.min(word.length - 1, length); size > heldBack; size--) {
      if (decoded.slice(length - size, length) === word.slice(0, size)) heldBack = size;
    }
  }
  return length - heldBack;
}
