import { describe, expect, it } from 'vitest';
import { formOfLine, plainLine } from './log-form.ts';
import { LogSlicer, type SliceOptions } from './log-slice.ts';

const OPTIONS: SliceOptions = { isTrouble: (line) => line.includes('ERROR'), beside: 1, first: 2, last: 2, tail: 3 };

function slice(text: string, options: Partial<SliceOptions> = {}, pieceLength = 7) {
  const slicer = new LogSlicer({ ...OPTIONS, ...options });
  for (let at = 0; at < text.length; at += pieceLength) slicer.push(text.slice(at, at + pieceLength));
  return slicer.end();
}

describe('a slice of a log', () => {
  it('holds the lines of trouble with their neighbours, and the last lines', () => {
    const lines = Array.from({ length: 20 }, (_, at) => `${at + 1}${at === 4 ? ' ERROR' : ''}`);
    const { lines: kept, lineCount, troubleCount } = slice(`${lines.join('\n')}\n`);
    expect(kept.map(({ number, why }) => `${number} ${why}`)).toEqual([
      '4 beside',
      '5 trouble',
      '6 beside',
      '18 tail',
      '19 tail',
      '20 tail',
    ]);
    expect([lineCount, troubleCount]).toEqual([20, 1]);
  });

  it('keeps the first and the last of many, each line once', () => {
    const text = Array.from({ length: 50 }, (_, at) => `${at + 1} ERROR`).join('\n');
    const { lines, troubleCount } = slice(text, { tail: 0, beside: 0 });
    expect(lines.map(({ number }) => number)).toEqual([1, 2, 49, 50]);
    expect(troubleCount).toBe(50);
    const near = slice(text, { tail: 1 });
    expect(near.lines.map(({ number }) => number)).toEqual([...new Set(near.lines.map(({ number }) => number))]);
  });

  it('stays bounded on a line without an end, and goes on behind it', () => {
    const { lines, lineCount } = slice(`${'x'.repeat(300_000)}\nERROR here\n`, {}, 65_536);
    expect(lineCount).toBe(2);
    expect(lines.map(({ text }) => text.length)).toEqual([8192, 10]);
  });

  it('takes the last state of a line that was written over', () => {
    expect(slice('1%\r2%\r100% ERROR\r\n').lines[0]?.text).toBe('100% ERROR');
  });
});

describe('the form of a line', () => {
  const form = (line: string, before = ''): string => formOfLine(line, before).form;

  it('is that of a log, in the ways of drivers, servers and kernels', () => {
    for (const line of [
      '2026-03-14T02:10:00Z driver: row 7 failed',
      '2026-03-14 02:10:00,123 - ERROR - x',
      'INFO 03-14 02:10:00 [core.py:7] x',
      '(EngineCore pid=77) ERROR 03-14 02:10:00 [core.py:7] x',
      '[rank0]: Traceback (most recent call last):',
      'Mar 14 02:10:00 box kernel: x',
      '[12345.678901] nvme nvme0: I/O error',
      'torch.cuda.OutOfMemoryError: CUDA out of memory.',
      '  File "/opt/driver.py", line 7, in run',
      'row 17 failed: timeout',
      'FAILED sample 17: HTTP 500',
      'Processed prompts:  12%|█   | 12/100 [00:01<00:10, 8.8it/s]',
      'Killed',
      '[2026-03-14 02:10:00] x',
    ]) {
      expect(form(line), line).toBe('text');
    }
    expect(form('    raise ValueError(x)', '  File "/opt/driver.py", line 7, in run')).toBe('text');
    expect(form('{"level":"error","msg":"x"}')).toBe('json');
  });

  it('is no log where anything may have been printed', () => {
    for (const line of [
      'My dog has eaten the cake, what now?',
      '    and then he ate the plate',
      '{"id": 7, "messages": [{"role": "user", "content": "My dog"}]}',
      '<|im_start|>user',
      '',
    ]) {
      expect(form(line), line).toBe('other');
    }
  });

  it('is looked at without what terminals obey and nobody sees', () => {
    expect(plainLine('\u001b[31msk-ab\u200bcd\u001b[0m\u001b]0;title\u0007\u0000')).toBe('sk-abcd');
  });
});
