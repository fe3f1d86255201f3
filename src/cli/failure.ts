import { type ErrorCode, isTidemarkError, type TidemarkError } from '../core/errors.ts';
import { EXIT, type ExitCode } from '../core/exit.ts';

const EXIT_OF: Readonly<Record<ErrorCode, ExitCode>> = {
  usage: EXIT.usage,
  config: EXIT.usage,
  dataset: EXIT.failed,
  model: EXIT.failed,
  'engine-unreachable': EXIT.failed,
  'engine-busy': EXIT.failed,
  'engine-refused': EXIT.failed,
  'engine-timeout': EXIT.failed,
  'engine-protocol': EXIT.failed,
  'capture-bad': EXIT.failed,
  'no-run': EXIT.noRun,
  'run-mismatch': EXIT.decision,
  'run-locked': EXIT.locked,
  'run-unknown-holder': EXIT.decision,
  'lease-lost': EXIT.locked,
  'format-refused': EXIT.refused,
  'storage-full': EXIT.failed,
  'storage-failed': EXIT.failed,
  'storage-denied': EXIT.failed,
  'storage-silent': EXIT.failed,
  'decision-needed': EXIT.decision,
  interrupted: EXIT.interrupted,
};

/** What a person reads when a command fails: what was tried, on what, why, and what to do next. Never a stack trace. */
export function failureText(error: unknown): { readonly text: string; readonly exit: ExitCode } {
  if (isTidemarkError(error)) return { text: tidemarkText(error), exit: EXIT_OF[error.code] };
  const message = error instanceof Error ? error.message : String(error);
  const trace = process.env.TIDEMARK_DEBUG === '1' && error instanceof Error ? `\n${error.stack}` : '';
  return {
    text: `tidemark: this should not happen: ${message}${trace}\n  it is a fault of tidemark's own; what the ledger holds is safe\n  next: run it again with TIDEMARK_DEBUG=1 and report what it prints\n`,
    exit: EXIT.failed,
  };
}

function tidemarkText(error: TidemarkError): string {
  const where = error.where !== undefined && !error.message.includes(error.where) ? `\n  at ${error.where}` : '';
  const hint = error.hint === undefined ? '' : `\n  next: ${error.hint}`;
  return `tidemark: ${error.message}${where}${hint}\n`;
}
