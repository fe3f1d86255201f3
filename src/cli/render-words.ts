/**
 * Text from outside (file names, error messages) as it may go to a terminal: control characters and marks that
 * turn the direction of writing are shown, not obeyed.
 */
export function visible(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (character) => {
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

/** Breaks at spaces; a word longer than the width stands alone. */
export function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  if (line !== '') lines.push(line);
  return lines;
}
