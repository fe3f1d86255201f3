import { type ErrorCode, messageOf, TidemarkError } from '../core/errors.ts';

/** An error as plain data, for the way from one process to another. */
export interface ThrownData {
  /** null: no `TidemarkError`, a fault of ours. */
  readonly code: ErrorCode | null;
  readonly message: string;
  readonly where?: string;
  readonly hint?: string;
  readonly retry: 'later' | 'never';
}

export function thrownData(error: unknown): ThrownData {
  if (!(error instanceof TidemarkError)) {
    return { code: null, message: error instanceof Error ? (error.stack ?? error.message) : messageOf(error), retry: 'never' };
  }
  const { code, message, where, hint, retry } = error;
  return { code, message, retry, ...(where === undefined ? {} : { where }), ...(hint === undefined ? {} : { hint }) };
}

export function thrownError({ code, message, ...details }: ThrownData): Error {
  return code === null ? new Error(message) : new TidemarkError(code, message, details);
}
