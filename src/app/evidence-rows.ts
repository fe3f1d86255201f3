import { isTidemarkError, messageOf } from '../core/errors.ts';
import type { RowWords } from '../core/row-words.ts';
import { openRecords } from '../dataset/open-records.ts';
import type { FileReader } from '../host/host.ts';
import { EVIDENCE_BOUNDS } from './evidence-bounds.ts';

const COLUMNS = ['messages', 'conversations', 'prompt', 'text', 'input_ids'];

/** Whether what is packed was compared with the dataset's own text. */
export type RowTextCheck =
  | {
      readonly compared: 'all' | 'part';
      readonly rows: number;
      readonly textBytes: number;
      readonly cuts: number;
      readonly why: string | null;
    }
  | { readonly compared: 'nothing'; readonly why: string };

/** Shows every text of every row to `words`, up to the bound. */
export async function seeRows(
  files: FileReader,
  path: string | null,
  words: RowWords,
): Promise<Exclude<RowTextCheck, { cuts: number }> | Omit<Extract<RowTextCheck, { cuts: number }>, 'cuts'>> {
  if (path === null) return { compared: 'nothing', why: 'no dataset is known: give it with --dataset' };
  let rows = 0;
  let textBytes = 0;
  try {
    const file = await openRecords(files, path, { noun: 'dataset', how: 'give another one', columns: COLUMNS });
    try {
      for await (const records of file.records()) {
        for (const record of records) {
          const parsed = record.value();
          if (parsed.ok) seeStrings(parsed.value, words, 0);
          rows += 1;
          textBytes += record.textBytes;
        }
        if (textBytes >= EVIDENCE_BOUNDS.rowTextBytes)
          return { compared: 'part', rows, textBytes, why: `the first ${EVIDENCE_BOUNDS.rowTextBytes} bytes of text are compared` };
      }
    } finally {
      await file.close();
    }
  } catch (error) {
    if (!isTidemarkError(error)) throw error;
    return rows === 0 ? { compared: 'nothing', why: messageOf(error) } : { compared: 'part', rows, textBytes, why: messageOf(error) };
  }
  return words.leftOut === 0
    ? { compared: 'all', rows, textBytes, why: null }
    : { compared: 'part', rows, textBytes, why: `${words.leftOut} texts of the evidence were beyond what is looked for` };
}

function seeStrings(value: unknown, words: RowWords, depth: number): void {
  if (typeof value === 'string') words.see(value);
  // Token ids by the thousand are no text.
  else if (Array.isArray(value) && typeof value[0] === 'number') return;
  else if (typeof value === 'object' && value !== null && depth < 32)
    for (const inner of Object.values(value)) seeStrings(inner, words, depth + 1);
}
