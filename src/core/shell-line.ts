/** Control characters, and marks that are invisible or turn the direction of writing. */
const HIDDEN = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Text from outside (file names, error messages) as people may see it: what would act on a terminal or hide beside other text is shown, not obeyed. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

/** An argument list as it can be pasted into a POSIX shell. */
export function shellLine(words: readonly string[]): string {
  return words.map(shellWord).join(' ');
}

function shellWord(word: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word)) return word;
  if (visible(word) === word) return `'${word.replaceAll("'", `'\\''`)}'`;
  // Bytes that a terminal would act upon go in as escapes; `$'…'` is understood by bash, zsh, ksh and POSIX 2024.
  const escaped = [...Buffer.from(word, 'utf8')].map((byte) =>
    byte >= 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`,
  );
  return `$'${escaped.join('')}'`;
}
