import { describe, expect, test } from 'vitest';
import { createTextStream } from './text-stream.ts';

/** One byte a token, as the worst byte-level vocabulary would have it. */
const bytes = { decode: (ids: readonly number[]) => new TextDecoder().decode(Uint8Array.from(ids)) };

function pieces(text: string, stop: readonly string[] = []) {
  const ids = [...new TextEncoder().encode(text)];
  const stream = createTextStream(bytes, stop);
  const given: string[] = [];
  for (let count = 1; count <= ids.length && stream.stoppedBy === null; count++) given.push(stream.push(ids.slice(0, count)));
  given.push(stream.finish());
  return { given, text: stream.text, stoppedBy: stream.stoppedBy };
}

describe('a text stream', () => {
  test('holds back an unfinished character', () => {
    expect(pieces('aé中')).toEqual({ given: ['a', '', 'é', '', '', '中', ''], text: 'aé中', stoppedBy: null });
  });

  test('holds back what may become a stop string, and gives it when it does not', () => {
    expect(pieces('abcabd', ['abd'])).toEqual({ given: ['', '', 'abc', '', '', ''].concat(''), text: 'abc', stoppedBy: 'abd' });
    expect(pieces('xab', ['abd'])).toEqual({ given: ['x', '', '', 'ab'], text: 'xab', stoppedBy: null });
  });

  test('stops at the first of several stop strings', () => {
    expect(pieces('one two', ['wo', 'e t']).text).toBe('on');
    expect(pieces('one two', ['wo', 'e t']).stoppedBy).toBe('e t');
  });

  test('gives an unfinished character at the end as it is', () => {
    const stream = createTextStream(bytes, []);
    expect(stream.push([0x61, 0xc3])).toBe('a');
    expect(stream.finish()).toBe('\uFFFD');
  });

  test('needs no decoding until the end where nobody reads along', () => {
    const stream = createTextStream(bytes, []);
    stream.keep([0x61]);
    stream.keep([0x61, 0x62]);
    expect(stream.finish()).toBe('ab');
    expect(stream.text).toBe('ab');
  });
});
