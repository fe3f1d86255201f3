import type { Tokenizer } from '@huggingface/tokenizers';

export type EncodeText = (text: string) => Uint32Array;

/** Texts that are encoded both ways before sections are trusted. */
const TRIALS = 24;
/** Longest texts remembered; a loss mask asks for the same beginning once or twice a turn. */
const MEMORY = 8;

/**
 * Encodes texts that begin alike, as the turns of one conversation do, without encoding the beginning again and again:
 * a conversation of ten turns would otherwise cost ten times its length.
 *
 * A tokenizer first cuts a text at its special tokens and then encodes what lies between, each part for itself. So the ids of
 * a text are those of its part before a special token followed by those of the rest. Tokens that swallow the white space around them,
 * or that are found only after normalisation, are no such cut. The first texts are encoded whole as well; one difference, and
 * every text is encoded whole from then on.
 */
export function sectionedEncoder(tokenizer: Pick<Tokenizer, 'encode' | 'get_added_tokens_decoder'>): EncodeText {
  const whole: EncodeText = (text) => Uint32Array.from(tokenizer.encode(text, { add_special_tokens: false }).ids);
  const cuts = [...tokenizer.get_added_tokens_decoder().values()]
    .filter((token) => token.special && !token.normalized && !token.lstrip && !token.rstrip && !token.single_word)
    .map((token) => token.content)
    .filter((content) => content.length > 0);
  const cutsByLength = cuts.sort((a, b) => b.length - a.length);
  const startsWithCut = (text: string, at: number): boolean => cutsByLength.some((content) => text.startsWith(content, at));
  const memory: { readonly text: string; readonly ids: Uint32Array }[] = [];
  let trials = 0;
  let trusted = cutsByLength.length > 0;

  function remember(text: string, ids: Uint32Array): void {
    if (memory.some((one) => one.text === text)) return;
    memory.push({ text, ids });
    if (memory.length > MEMORY) memory.shift();
  }

  return (text) => {
    if (!trusted) return whole(text);
    const cut = lastCut(text, cutsByLength);
    if (cut === 0) return whole(text);
    const head = text.slice(0, cut);
    const known = memory
      .filter((one) => head.startsWith(one.text) && (one.text.length === cut || startsWithCut(head, one.text.length)))
      .reduce((best, one) => (one.text.length > best.text.length ? one : best), { text: '', ids: new Uint32Array(0) });
    const headIds = known.text === head ? known.ids : joined(known.ids, whole(head.slice(known.text.length)));
    remember(head, headIds);
    const ids = joined(headIds, whole(text.slice(cut)));
    if (trials < TRIALS) {
      trials += 1;
      const expected = whole(text);
      trusted = Buffer.compare(bytesOf(expected), bytesOf(ids)) === 0;
      return expected;
    }
    return ids;
  };
}

/** Where the last special token begins; 0 when there is none behind the start. */
function lastCut(text: string, cuts: readonly string[]): number {
  return Math.max(0, ...cuts.map((cut) => text.lastIndexOf(cut)));
}

function joined(head: Uint32Array, tail: Uint32Array): Uint32Array {
  if (head.length === 0) return tail;
  const ids = new Uint32Array(head.length + tail.length);
  ids.set(head);
  ids.set(tail, head.length);
  return ids;
}

function bytesOf(ids: Uint32Array): Uint8Array {
  return new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength);
}
