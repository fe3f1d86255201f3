/**
 * What people and models said must not leave with a log. Servers write prompts and token ids into their lines; these forms are cut, and
 * what stands in their place says how much it was.
 */

/** Keys under which servers, drivers and datasets keep what was said, or its token ids. */
const SPEECH_KEY =
  '(?:prompts?|prompt_text|messages|conversations?|contents?|completions?|generated_text|output_text|input_text|user_message|system_prompt|instruction|question|answer|response_text|text|inputs?|(?:[a-z]{1,20}_)?(?:token_?)?ids|(?:[a-z]{1,20}_)?tokens|loss_mask|labels)';
const QUOTED_SPEECH = new RegExp(
  `(?<!\\w)(["'\\\\]{0,4}${SPEECH_KEY}["'\\\\]{0,4}\\s{0,3}[:=]\\s{0,3}(?:\\w{1,12}\\()?)((?:\\\\*["'\`]|[[{]|tensor\\(|array\\()[^\\n]*)`,
  'gi',
);
/** Without quotes only under names that nothing else has; a number behind one is a count. */
const BARE_SPEECH =
  /(?<![\w-])((?:(?:prompt|question|instruction|completion)\s{0,2}[:=]\s{0,3}|(?:assistant|human|gpt|user):\s{1,3}))(?=[^\s\d"'[{/])(?!<text: )([^\n]*)/gi;
/** So many words in quotes are a sentence; an error's own words in quotes are fewer, and paths have none. */
const QUOTED_WORDS = 5;
const QUOTED = /(?<![\p{L}\p{N}])(\\?["'`\u201c])((?:(?!\1)[^\n\u201d]){24,})(\1|\u201d|$)/gmu;
/** Integers in brackets, or many in a row: token ids. A list of rows that tidemark prints is shorter. */
const BRACKETED_IDS = /[[(]\s*\d{1,9}(?:[\s,]+\d{1,9}){7,}[\s,.]*(?:[\])]|(?=\.\.\.|$))/g;
const BARE_IDS = /(?<![\w.])\d{1,9}(?:[ ,\t]{1,3}\d{1,9}){15,}(?![\w.])/g;

export interface SpeechCut {
  readonly text: string;
  /** How many pieces were cut out. */
  readonly cuts: number;
}

export function textMark(characters: number): string {
  return `<text: ${characters} characters>`;
}

/** Whether a key of a foreign document holds what was said. */
export function namesSpeech(key: string): boolean {
  return new RegExp(`^${SPEECH_KEY}$`, 'i').test(key);
}

/** Cuts prompts, answers and token ids out of free text; total, line by line. */
export function cutSpeech(text: string): SpeechCut {
  let cuts = 0;
  const mark = (cut: string): string => {
    cuts += 1;
    return textMark(cut.length);
  };
  const ids = (cut: string): string => {
    cuts += 1;
    return `<${cut.match(/\d+/g)?.length ?? 0} numbers>`;
  };
  const left = text
    .replace(QUOTED_SPEECH, (whole, key: string, said: string) => (isShort(said) ? whole : `${key}${mark(said)}`))
    .replace(BARE_SPEECH, (_, key: string, said: string) => `${key}${mark(said)}`)
    .replace(QUOTED, (whole, open: string, said: string, close: string) => (isSentence(said) ? `${open}${mark(said)}${close}` : whole))
    .replace(BRACKETED_IDS, ids)
    .replace(BARE_IDS, ids);
  return { text: left, cuts };
}

/** Nothing was said: `text=''`, `ids=[]`. */
function isShort(said: string): boolean {
  return /^(?:\\*["'`]{2}(?!["'`])|\[\s*\]|\{\s*\})/.test(said);
}

function isSentence(said: string): boolean {
  return !/^(?:[~.]{0,2}\/|[a-z]+:\/\/)/i.test(said) && (said.match(/[\p{L}\p{N}]+/gu)?.length ?? 0) >= QUOTED_WORDS && /\s/.test(said);
}
