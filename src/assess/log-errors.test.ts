import { describe, expect, it } from 'vitest';
import { type LogErrorOptions, parseLog } from './log-errors.ts';

const rowsOf = async (text: string, options: LogErrorOptions = {}): Promise<number[]> =>
  (await parseLog([text], options)).errors.map((error) => error.row);

describe('errors in an old log', () => {
  it('finds the row in whatever words a driver has for it', async () => {
    const lines = [
      'ERROR row 4711: CUDA out of memory',
      '2026-03-14 02:10:00 WARNING failed to extract sample #12 (HTTP 500)',
      'RuntimeError while processing index=7',
      'skipping sample_id: 9, 5000 tokens exceed the limit',
      'could not save /data/rows_0-2000/data_33.ckpt: [Errno 28] error',
      'Exception in hs_44.safetensors',
      'item 5 timed out after 120 s.',
      'failed samples: [100, 102]',
      'dropping rows 200-203',
    ];
    expect(await rowsOf(lines.join('\n'))).toEqual([5, 7, 9, 12, 33, 44, 100, 102, 200, 201, 202, 203, 4711]);
  });

  it('takes nothing for an error that is none, and no count for a row', async () => {
    const lines = [
      'row 17 done, 0 errors',
      'INFO sample 18 saved, failed=0, timeout=120',
      'samples: 18421 done, 3 failed',
      'error: connection refused',
      'progress: sample 17/37312 failed 3',
      'row 19 failed, retry succeeded',
      'epoch 3: error rate 0.1',
    ];
    const read = await parseLog([lines.join('\n')]);
    expect(read.errors).toEqual([]);
    expect(read.withoutRow).toBeGreaterThan(0);
  });

  it('counts lines as editors do, also across pieces and behind a progress bar', async () => {
    const text = 'one\ntwo\r50 %\r60 %\nerror row 8\nerror row 8\n 70 %\rerror: row 9 \r80 %';
    const whole = await parseLog([text]);
    expect(whole.errors.map(({ row, line, count }) => [row, line, count])).toEqual([
      [8, 3, 2],
      [9, 5, 1],
    ]);
    expect(await parseLog([...text])).toEqual(whole);
  });

  it('knows a row by its own id where ids can be looked up', async () => {
    const rowOfId = (id: string): number | null => (id === 'abc-17' ? 17 : null);
    expect(await rowsOf('ERROR conversation_id="abc-17" failed', { rowOfId })).toEqual([17]);
    expect(await rowsOf('ERROR conversation_id="xyz" failed', { rowOfId })).toEqual([]);
    expect(await rowsOf('ERROR conversation_id="abc-17" failed')).toEqual([]);
  });

  it('holds neither a line without an end nor rows without a bound', async () => {
    const long = await parseLog(['x'.repeat(1 << 20), ` row 3 failed`]);
    expect(long.lines).toBe(1);
    const many = await parseLog([Array.from({ length: 100_010 }, (_, row) => `error row ${row}`).join('\n')]);
    expect(many.errors.length).toBe(100_000);
    expect(many.leftOut).toBe(10);
  });
});
