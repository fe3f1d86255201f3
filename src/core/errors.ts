/**
 * Trouble with the world: one class, told apart by `code`. Damage found on disk is data
 * (a `Finding`), and a broken belief of our own is an assertion; neither is this.
 */
export type ErrorCode =
  | 'usage' // wrong flags or configuration; nothing was touched
  | 'config' // the configuration file does not fit; names line and key
  | 'dataset' // the dataset cannot be read as one
  | 'model' // the target's model files are missing or of an unknown architecture
  | 'engine-unreachable' // no connection, reset, refused
  | 'engine-busy' // 429 or 503: try later
  | 'engine-refused' // the engine said no to this request and always will (400)
  | 'engine-timeout' // no answer within the deadline
  | 'engine-protocol' // an answer that breaks the dialect (no path, foreign path, wrong keys)
  | 'capture-bad' // an answer of the right form whose states fail a check
  | 'no-run' // no .tidemark folder here
  | 'run-mismatch' // the folder belongs to another run; names the differing fields
  | 'run-locked' // a live process holds the run
  | 'run-unknown-holder' // a lease of another host; only a person can say whether it lives
  | 'lease-lost' // our lease was overtaken while we held it
  | 'format-refused' // hostile, legacy or unknown version of a file
  | 'storage-full' // ENOSPC, EDQUOT: a pause, not a failed sample
  | 'storage-failed' // EIO, EROFS, a failed fsync: final for that file
  | 'storage-denied' // EACCES, EPERM
  | 'storage-silent' // no answer in time: a dead mount; the call may hang for ever
  | 'decision-needed' // a person must choose first
  | 'interrupted';

export interface TidemarkErrorDetails {
  /** The path, URL or row that it happened at. */
  readonly where?: string;
  /** The command or act to try next, in one line. */
  readonly hint?: string;
  /** Whether the same call may succeed later. Default `never`. */
  readonly retry?: 'later' | 'never';
  readonly cause?: unknown;
}

export class TidemarkError extends Error {
  override readonly name = 'TidemarkError';
  readonly code: ErrorCode;
  readonly where: string | undefined;
  readonly hint: string | undefined;
  readonly retry: 'later' | 'never';

  /** @param message what was tried and why it failed, as one sentence without a full stop */
  constructor(code: ErrorCode, message: string, details: TidemarkErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.where = details.where;
    this.hint = details.hint;
    this.retry = details.retry ?? 'never';
  }
}

export function isTidemarkError(error: unknown, ...codes: readonly ErrorCode[]): error is TidemarkError {
  return error instanceof TidemarkError && (codes.length === 0 || codes.includes(error.code));
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
