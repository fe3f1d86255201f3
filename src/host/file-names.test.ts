import { expect, test } from 'vitest';
import { entryName } from './file-names.ts';

const bytes = (...parts: readonly (string | number)[]) =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.of(part))));

test.each(['data_0.ckpt', 'ü漢😀', 'line\nbreak', 'quote\'"', '-rf', '\ufeffbom', '\ufffd', 'a\\xff', ' '])(
  '%j is UTF-8 and stays',
  (name) => {
    expect(entryName(bytes(name))).toEqual({ name, openable: true });
  },
);

test.each([
  [bytes('a', 0xff), 'a\\xff'],
  [bytes(0xc3), '\\xc3'],
  [bytes('ü', 0xc3, '漢', 0x80), 'ü\\xc3漢\\x80'],
  [bytes(0xe6, 0xbc), '\\xe6\\xbc'],
  [bytes(0xed, 0xa0, 0x80), '\\xed\\xa0\\x80'],
  [bytes(0xc0, 0xaf), '\\xc0\\xaf'],
  [bytes('\\xff', 0xff), '\\x5cxff\\xff'],
])('%j is escaped as %s', (stored, name) => {
  expect(entryName(stored)).toEqual({ name, openable: false });
});

test('a real backslash and an escaped byte are told apart by openable', () => {
  expect(entryName(bytes('a\\xff'))).toEqual({ name: 'a\\xff', openable: true });
  expect(entryName(bytes('a', 0xff))).toEqual({ name: 'a\\xff', openable: false });
  expect(entryName(bytes('\\xfe', 0xff)).name).not.toBe(entryName(bytes(0xfe, 0xff)).name);
});
