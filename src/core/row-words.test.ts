import { expect, it } from 'vitest';
import { RowWords } from './row-words.ts';

const ROW = 'My dog has eaten the whole birthday cake, the candles, and half of the plate it stood on.';

function cut(text: string, ...rows: readonly string[]): string {
  const words = new RowWords();
  words.learn(text);
  for (const row of rows) words.see(row);
  return words.cut(text).text;
}

it('cuts what a row holds too, however it is spaced, and leaves the rest', () => {
  expect(cut('ERROR row 7: my dog  has\\neaten the whole birthday cake, the candles; retry 3', 'something else', ROW)).toBe(
    'ERROR row 7: <text: 55 characters>; retry 3',
  );
  expect(cut(`driver saw ${ROW} and stopped`, ROW)).toBe(`driver saw <text: ${ROW.length - 1} characters>. and stopped`);
});

it('cuts a short row that stands there whole', () => {
  expect(cut('ERROR: who was Ada Lovelace? gave up', 'Who was Ada Lovelace?')).toBe('ERROR: <text: 20 characters>? gave up');
  expect(cut('ERROR: who was it', 'Who?')).toBe('ERROR: who was it');
});

it('knows scripts without spaces', () => {
  expect(cut('ERROR 我的狗吃了整个生日蛋糕 x', '昨天我的狗吃了整个生日蛋糕。')).toBe('ERROR <text: 11 characters> x');
});

it('leaves alone what no row holds, what is common speech, and the words of errors', () => {
  const line = 'ERROR the server closed the connection after row 17 of 36';
  expect(cut(line, ROW, 'I think the server closed the connection on me')).toBe(line);
  const error = 'RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB';
  expect(cut(error, 'I get RuntimeError: CUDA out of memory. Tried to allocate 4.00 GiB, why?')).toBe(error);
});
