import { messageOf, TidemarkError } from '../core/errors.ts';

/** A file of rows that cannot be read to its end. Trouble of the machine passes through as it is. */
export function damaged(error: unknown, what: { readonly name: string; readonly path: string; readonly hint: string }): TidemarkError {
  if (error instanceof TidemarkError) return error;
  const message = `${what.name} ${what.path} is damaged: ${messageOf(error)}`;
  return new TidemarkError('dataset', message, { where: what.path, hint: what.hint, cause: error });
}
