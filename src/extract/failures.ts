import { isTidemarkError, messageOf, type TidemarkError } from '../core/errors.ts';
import type { FailureClass } from '../ledger/ledger.ts';

/** What a failed try of one row means for the row and for the run. */
export type Consequence =
  /** The engine is full: wait and send again; no try is counted. */
  | { readonly kind: 'wait' }
  /** The engine may be gone: the row goes back, no try is counted, and the run finds out whether the engine lives. */
  | { readonly kind: 'engine-lost'; readonly message: string }
  /** A try is counted; the row may be tried again. */
  | { readonly kind: 'retry'; readonly class: FailureClass; readonly message: string }
  /** The row will never work. */
  | { readonly kind: 'final'; readonly class: FailureClass; readonly message: string }
  /** Nothing will work until somebody acts: the run stops, the row goes back. */
  | { readonly kind: 'stop'; readonly error: TidemarkError }
  /** We were told to stop. */
  | { readonly kind: 'interrupted' };

/** @throws anything that is no TidemarkError: a bug of ours is not a failed sample */
export function consequenceOf(error: unknown): Consequence {
  if (!isTidemarkError(error)) throw error;
  const message = messageOf(error);
  switch (error.code) {
    case 'engine-busy':
      return { kind: 'wait' };
    case 'engine-unreachable':
      return { kind: 'engine-lost', message };
    case 'engine-timeout':
      return { kind: 'retry', class: 'engine-lost', message };
    case 'capture-bad':
      return { kind: 'retry', class: 'bad-capture', message };
    case 'engine-refused':
      return { kind: 'final', class: /context length|model length|too long/i.test(message) ? 'too-long' : 'engine-refused', message };
    case 'dataset':
      return { kind: 'final', class: 'bad-row', message };
    case 'interrupted':
      return { kind: 'interrupted' };
    default:
      return { kind: 'stop', error };
  }
}
