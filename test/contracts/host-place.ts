import { expect } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import type { FileStore } from '../../src/host/host.ts';

/** A place to test in. Everything that a `FileStore` cannot make itself comes from here. */
export interface FilesUnderTest {
  readonly files: FileStore;
  /** An empty folder; absolute, without links. */
  readonly folder: string;
  plantLink(path: string, target: string): void | Promise<void>;
  /** An empty folder on a filesystem of about 1 MiB and few inodes, or the reason why there is none. */
  readonly small: { readonly folder: string; readonly files: FileStore } | { readonly skipped: string };
  close(): void | Promise<void>;
}

export const text = (bytes: Uint8Array | null) => (bytes === null ? null : Buffer.from(bytes).toString());
export const bytesOf = (content: string) => Buffer.from(content);

/** Writes a whole file the way most of tidemark does, without publishing. */
export async function writeFile(files: FileStore, path: string, content: string | Uint8Array): Promise<void> {
  const file = await files.create(path, 0o644);
  await file.write(typeof content === 'string' ? bytesOf(content) : content);
  await file.sync();
  await file.close();
}

export async function errorOf(promise: Promise<unknown>): Promise<TidemarkError> {
  const error = await promise.then(
    () => new Error('it did not fail'),
    (caught: unknown) => caught,
  );
  expect(error).toBeInstanceOf(TidemarkError);
  return error as TidemarkError;
}
