import { TidemarkError } from '../core/errors.ts';
import type { FileReader, ReadableFile } from '../host/host.ts';
import { notJsonl } from './sniff.ts';

/** How messages name the file, and how another one is given. */
export interface JsonlPurpose {
  readonly noun: string;
  readonly how: string;
}

/** Opens what should be a JSONL file; rejects with `dataset`, saying what it is instead and what to do next. The caller closes it. */
export async function openJsonl(files: FileReader, path: string, { noun, how }: JsonlPurpose): Promise<ReadableFile> {
  const refuse = (what: string, hint: string): TidemarkError =>
    new TidemarkError('dataset', `${what}: expected a JSONL file, one row a line`, { where: path, hint });
  // A dataset is often a link into a shared mount; the operator named it, so it is followed.
  const real = await files.realPath(path);
  const stat = real === null ? null : await files.stat(real);
  if (real === null || stat === null) throw refuse(`there is no ${noun} at ${path}`, `ls -l ${quoted(path)}; then ${how}`);
  if (stat.kind === 'directory') throw refuse(`the ${noun} ${path} is a folder`, `ls ${quoted(path)}; then ${how}`);
  if (stat.kind !== 'file')
    throw refuse(`the ${noun} ${path} is a device, pipe or socket`, 'write it to a file first: it is read again by row');
  const file = await files.open(real);
  if (file === null)
    throw new TidemarkError('dataset', `the ${noun} ${path} vanished while it was opened`, { where: path, retry: 'later' });
  try {
    const other = notJsonl(await file.read(0, Math.min(file.size, 65_536)), quoted(path));
    if (other !== null) throw refuse(`the ${noun} ${path} is ${other.what}`, other.hint);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Quoted for a POSIX shell, so that a hint can be pasted as it stands. */
export function quoted(path: string): string {
  return /^[\w@%+=:,./][\w@%+=:,./-]*$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
