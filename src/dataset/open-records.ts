import { TidemarkError } from '../core/errors.ts';
import type { FileReader, ReadableFile } from '../host/host.ts';
import { damaged } from './damaged.ts';
import { gzipText } from './gzip-text.ts';
import { jsonlRecords } from './jsonl-records.ts';
import { quoted } from './quoted.ts';
import type { FileForm, RecordFile, RecordPurpose } from './records.ts';
import { formOf, notJsonl } from './sniff.ts';
import { plainText, type TextSource } from './text-source.ts';

const HEAD_BYTES = 65_536;

/**
 * Opens a file of rows: JSONL (plain, gzip or zstd) or Parquet, told by its first bytes. Rejects with `dataset`, saying what it is
 * instead and what to do next. The caller closes it.
 */
export async function openRecords(files: FileReader, path: string, purpose: RecordPurpose): Promise<RecordFile> {
  const { noun, how } = purpose;
  const refuse = (what: string, hint: string): TidemarkError =>
    new TidemarkError('dataset', `${what}: expected JSONL (plain, .gz or .zst), one row a line, or Parquet`, { where: path, hint });
  // A dataset is often a link into a shared mount; the operator named it, so it is followed.
  const realPath = await files.realPath(path);
  const stat = realPath === null ? null : await files.stat(realPath);
  if (realPath === null || stat === null) throw refuse(`there is no ${noun} at ${path}`, `ls -l ${quoted(path)}; then ${how}`);
  if (stat.kind === 'directory') throw refuse(`the ${noun} ${path} is a folder`, `ls ${quoted(path)}; then ${how}`);
  if (stat.kind !== 'file')
    throw refuse(`the ${noun} ${path} is a device, pipe or socket`, 'write it to a file first: it is read again by row');
  const file = await files.open(realPath);
  if (file === null)
    throw new TidemarkError('dataset', `the ${noun} ${path} vanished while it was opened`, { where: path, retry: 'later' });
  try {
    const head = await file.read(0, Math.min(file.size, HEAD_BYTES));
    const form = formOf(head);
    if (form === 'parquet') return await (await import('./parquet-records.ts')).openParquet(file, path, { realPath, purpose });
    const text = await textOf(form, file, path);
    const other = notJsonl(form === 'jsonl' ? head : await headOf(text), quoted(path));
    if (other !== null) {
      const inside = form === 'jsonl' ? '' : `${form === 'jsonl.gz' ? 'gzip' : 'zstd'} and in it `;
      throw refuse(`the ${noun} ${path} is ${inside}${other.what}`, other.hint);
    }
    return jsonlRecords(text, file, { form, realPath });
  } catch (error) {
    await file.close();
    throw damaged(error, { name: `the ${noun}`, path, hint: `file ${quoted(path)}; then ${how}` });
  }
}

/** The readers of rare forms are loaded where they are met. */
async function textOf(form: Exclude<FileForm, 'parquet'>, file: ReadableFile, path: string): Promise<TextSource> {
  switch (form) {
    case 'jsonl':
      return plainText(file);
    case 'jsonl.gz':
      return gzipText(file, path);
    case 'jsonl.zst':
      return (await import('./zstd-text.ts')).zstdText(file, path);
  }
}

async function headOf(text: TextSource): Promise<Uint8Array> {
  for await (const piece of text.pieces()) return piece.subarray(0, HEAD_BYTES);
  return new Uint8Array(0);
}
