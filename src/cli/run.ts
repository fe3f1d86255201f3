import { Command, CommanderError } from '@commander-js/extra-typings';
import type { Host } from '../app/host.ts';
import { VERSION } from '../app/version.ts';
import { EXIT, type ExitCode } from '../core/exit.ts';
import { acceptCommand } from './accept.ts';
import { adoptCommand } from './adopt.ts';
import { assessCommand } from './assess.ts';
import type { CommandContext } from './context.ts';
import { engineCommand } from './engine.ts';
import { evidenceCommand } from './evidence.ts';
import { extractCommand } from './extract.ts';
import { failureText } from './failure.ts';
import { generateCommand } from './generate.ts';
import { initCommand } from './init.ts';
import { inspectCommand } from './inspect.ts';
import { planCommand } from './plan.ts';
import { purgeCommand } from './purge.ts';
import { repairCommand } from './repair.ts';
import { resumeCommand } from './resume.ts';
import { type Terminal, writeAll } from './terminal.ts';
import { verifyCommand } from './verify.ts';

const GROUPS = `
Prepare:        init, engine, generate
Run:            extract, resume
After a crash:  assess, plan, adopt, resume, repair, verify, accept, inspect, evidence, purge

Examples:
  tidemark assess /data/hidden_states --dataset merged.jsonl
  tidemark resume /data/hidden_states
Exit codes: 0 complete, 1 failed, 2 wrong usage, 3 incomplete, 4 yours to decide, 5 locked, 6 no run here, 7 refused, 130 interrupted.
`;

/** The whole command line as a function: arguments in, exit code out. */
export async function run(argv: readonly string[], host: Host, terminal: Terminal): Promise<ExitCode> {
  let exit: ExitCode = EXIT.complete;
  const context: CommandContext = {
    host,
    terminal,
    argv,
    cwd: process.cwd(),
    exitWith: (code) => {
      exit = code;
    },
  };
  const program = new Command('tidemark')
    .description('Extracts hidden states for speculative-decoding drafters, and proves after a crash what survived.')
    .version(VERSION)
    .addHelpText('after', GROUPS)
    .showSuggestionAfterError()
    .configureOutput({ writeOut: (text) => terminal.out.write(text), writeErr: (text) => terminal.err.write(text) });
  for (const make of [
    initCommand,
    engineCommand,
    generateCommand,
    extractCommand,
    resumeCommand,
    assessCommand,
    verifyCommand,
    planCommand,
    repairCommand,
    acceptCommand,
    adoptCommand,
    inspectCommand,
    evidenceCommand,
    purgeCommand,
  ]) {
    program.addCommand(make(context));
  }
  program.exitOverride();
  for (const command of program.commands) command.exitOverride();
  const odd = argv.find((word) => word === '' || word.includes('\ufffd'));
  if (odd !== undefined) {
    const why =
      odd === ''
        ? 'an argument is empty (an unset variable?)'
        : `the argument ${JSON.stringify(odd)} is not UTF-8 text, and would name another file`;
    await writeAll(terminal.err, `tidemark: ${why}; nothing was touched\n  next: tidemark --help\n`);
    return EXIT.usage;
  }
  try {
    await program.parseAsync([...argv], { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.complete : EXIT.usage;
    const failure = failureText(error);
    await writeAll(terminal.err, failure.text);
    return failure.exit;
  } finally {
    await host.http.close();
  }
  return exit;
}
