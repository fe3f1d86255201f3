import { describe, expect, it } from 'vitest';
import { shellLine, visible } from '../core/shell-line.ts';
import { wrapped } from './render-words.ts';

describe('words for a terminal', () => {
  it('shows control characters instead of obeying them', () => {
    expect(visible('a\u001b[2Jb\u202ec\n')).toBe('a\\x1b[2Jb\\u202ec\\x0a');
    expect(visible('rows_0-2000/데이터.ckpt')).toBe('rows_0-2000/데이터.ckpt');
  });

  it('quotes arguments so that a shell gives them back unchanged', () => {
    expect(shellLine(['tidemark', 'assess', '/data/a b'])).toBe("tidemark assess '/data/a b'");
    expect(shellLine(["it's", '$(reboot)', ''])).toBe(`'it'\\''s' '$(reboot)' ''`);
    expect(shellLine(['a\u001b[0m'])).toBe("$'a\\x1b[0m'");
  });

  it('wraps at spaces and breaks no word', () => {
    expect(wrapped('one two three', 7)).toEqual(['one two', 'three']);
    expect(wrapped('averylongword b', 4)).toEqual(['averylongword', 'b']);
  });
});
