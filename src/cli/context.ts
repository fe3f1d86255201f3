import type { Host } from '../app/host.ts';
import type { ExitCode } from '../core/exit.ts';
import type { Terminal } from './terminal.ts';

/** What a command gets beside its arguments. */
export interface CommandContext {
  readonly host: Host;
  readonly terminal: Terminal;
  /** The arguments as given, for the run's record. */
  readonly argv: readonly string[];
  readonly cwd: string;
  /** Sets what the process will exit with. */
  exitWith(code: ExitCode): void;
}
