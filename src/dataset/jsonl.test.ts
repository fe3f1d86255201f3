import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RandomAccess } from '../core/random-access.ts';
import { jsonlPieces, LineIndex, parseJsonLine, printable } from './jsonl.ts';

function bytesSource(bytes: Uint8Array): RandomAccess {
  return { size: bytes.length, read: async (offset, length) => bytes.slice(offset, offset + length) };
}

async function linesOf(bytes: Uint8Array, options: Parameters<typeof jsonlPieces>[1] = {}) {
  const found: { line: number; start: number; bytes: number; text: string | null }[] = [];
  for await (const piece of jsonlPieces(bytesSource(bytes), options)) {
    for (const line of piece) found.push({ ...line, text: line.text === null ? null : Buffer.from(line.text).toString('latin1') });
  }
  return found;
}

describe('lines of a JSONL file', () => {
  it('are the lines that hold something, with LF or CRLF, a byte order mark or no last line end', async () => {
    const bytes = Buffer.from('\ufeff{"a":1}\r\n\n  \r\n{"b":2}\n\ufeff{"c":3}');
    expect(await linesOf(bytes)).toEqual([
      { line: 1, start: 3, bytes: 7, text: '{"a":1}' },
      { line: 4, start: 17, bytes: 7, text: '{"b":2}' },
      { line: 5, start: 28, bytes: 7, text: '{"c":3}' },
    ]);
  });

  it('are none in an empty or blank file', async () => {
    expect(await linesOf(Buffer.from(''))).toEqual([]);
    expect(await linesOf(Buffer.from('\n\r\n \t\n'))).toEqual([]);
  });

  it('that are too long are told and skipped, wherever the pieces end', async () => {
    const bytes = Buffer.from(`{"a":1}\n${'x'.repeat(100)}\n{"b":2}\n${'y'.repeat(100)}`);
    for (const pieceBytes of [1, 7, 64, 1000]) {
      const found = await linesOf(bytes, { pieceBytes, lineBytesMost: 99 });
      expect(found.map(({ bytes: length, text }) => [length, text])).toEqual([
        [7, '{"a":1}'],
        [100, null],
        [7, '{"b":2}'],
        [100, null],
      ]);
    }
  });

  it('do not depend on the size of the pieces, and their places read back their text', async () => {
    const part = fc.constantFrom('\n', '\r\n', '\ufeff', ' ', '{"a":1}', 'x', 'ö', '\r', '\n\n');
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 40 }), fc.integer({ min: 1, max: 9 }), async (parts, pieceBytes) => {
        const bytes = Buffer.from(parts.join(''));
        const whole = await linesOf(bytes);
        expect(await linesOf(bytes, { pieceBytes })).toEqual(whole);
        for (const { start, bytes: length, text } of whole) expect(bytes.toString('latin1', start, start + length)).toBe(text);
        const expected = bytes
          .toString('utf8')
          .split('\n')
          .map((text) => text.replace(/^\ufeff/, '').replace(/\r$/, ''));
        expect(whole.map(({ text }) => Buffer.from(text ?? '', 'latin1').toString('utf8'))).toEqual(
          expected.filter((text) => /[^ \t\r]/.test(text)),
        );
      }),
    );
  });
});

describe('parseJsonLine', () => {
  it('says what is wrong instead of throwing, whatever the bytes', () => {
    expect(parseJsonLine(Buffer.from('{"a":[1,2]}'))).toEqual({ ok: true, value: { a: [1, 2] } });
    expect(parseJsonLine(Buffer.from([0x22, 0xff, 0x22]))).toEqual({ ok: false, message: 'not UTF-8' });
    expect(parseJsonLine(Buffer.from('{"a":'))).toMatchObject({ ok: false, message: expect.stringContaining('not JSON') });
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => typeof parseJsonLine(bytes).ok === 'boolean'));
    fc.assert(fc.property(fc.json(), (text) => parseJsonLine(Buffer.from(text)).ok));
  });

  it('keeps terminal escapes of a row out of messages', () => {
    const parsed = parseJsonLine(Buffer.from('\u001b[31mred\u009b'));
    expect(parsed.ok).toBe(false);
    expect(JSON.stringify(parsed)).not.toMatch(/\\u00(1b|9b)/);
    expect(printable('a\n\u202eb', 10)).toBe('a  b');
    expect(printable('abcdef', 4)).toBe('abc…');
  });
});

describe('LineIndex', () => {
  it('returns what was added, beyond 4 GiB too', () => {
    const index = new LineIndex();
    for (let row = 0; row < 5000; row += 1) index.add(row * 1e10, row);
    expect(index.rows).toBe(5000);
    expect(index.at(4999)).toEqual({ start: 4999e10, bytes: 4999 });
    for (const bad of [-1, 5000, 0.5, Number.NaN]) expect(() => index.at(bad)).toThrow(RangeError);
  });
});
