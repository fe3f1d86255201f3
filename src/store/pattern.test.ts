import { describe, expect, it } from 'vitest';
import { parseLayoutOption } from './layout-option.ts';
import { parsePattern } from './pattern.ts';

describe('patterns', () => {
  it('reads a path back to its fields and renders it again', () => {
    const pattern = parsePattern('rows_{from}-{to}/data_{index:06d}.ckpt.gz');
    expect(pattern.match('rows_0-2000/data_000007.ckpt.gz')).toEqual({ from: '0', to: '2000', index: '000007' });
    expect(pattern.match('rows_0-2000/data_1234567.ckpt.gz')).toMatchObject({ index: '1234567' });
    expect(pattern.render({ from: 0, to: 2000, index: 7 })).toBe('rows_0-2000/data_000007.ckpt.gz');
    expect(pattern.renderFolder({ from: 0, to: 2000 })).toBe('rows_0-2000');
    expect(pattern.matchFolder('rows_0-2000')).toEqual({ from: '0', to: '2000' });
  });

  it('takes each row by one name only', () => {
    const pattern = parsePattern('data_{index}.pt');
    for (const name of ['data_07.pt', 'data_.pt', 'data_7.pt.tmp', 'xdata_7.pt', 'a/data_7.pt', 'data_7.PT', 'data_1234567890123456.pt']) {
      expect(pattern.match(name), name).toBeNull();
    }
    const padded = parsePattern('{index:03d}.pt');
    for (const name of ['7.pt', '0007.pt']) expect(padded.match(name), name).toBeNull();
  });

  it('keeps what is special in expressions literal', () => {
    expect(parsePattern('a+(b)/[x]{index}.pt').match('a+(b)/[x]5.pt')).toEqual({ index: '5' });
    expect(parsePattern('{index}.pt').match('5xpt')).toBeNull();
  });

  for (const [text, why] of [
    ['data.pt', 'needs {index}'],
    ['{index}/data.pt', 'last part'],
    ['data_{index}', 'extension'],
    ['{row}.pt', 'no placeholder {row}'],
    ['{index:6d}.pt', 'no format'],
    ['{index:099d}.pt', 'no format'],
    ['{dir:03d}/{index}.pt', 'takes no format'],
    ['{index}_{index}.pt', 'twice'],
    ['{dir}{index}.pt', 'between two placeholders'],
    ['rows_{to}/{index}.pt', '{to} needs {from}'],
    ['/abs/{index}.pt', 'relative'],
    ['../{index}.pt', 'relative'],
    ['.tidemark/{index}.pt', 'dot'],
    ['a}/{index}.pt', 'brace'],
    ['{index.pt', 'brace'],
    ['a/b/c/d/e/f/{index}.pt', 'deeper'],
  ] as const) {
    it(`refuses ${text}`, () => {
      expect(() => parsePattern(text)).toThrow(why);
    });
  }

  it('knows layouts by name', () => {
    expect(parseLayoutOption('specforge')).toMatchObject({ kind: 'family' });
    expect(parseLayoutOption('{index}.pt')).toMatchObject({ kind: 'pattern' });
    expect(() => parseLayoutOption('specfroge')).toThrow('there is no layout');
  });
});
