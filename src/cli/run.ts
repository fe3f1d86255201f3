import { Command, CommanderError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Host } from '../app/host.ts';
import { VERSION } from '../app/version.ts';
import { EXIT, type ExitCode } from '../core/exit.ts';
import type { CommandContext } from './context.ts';
import { failureText } from './failure.ts';
import { type Terminal, writeAll } from './terminal.ts';

const GROUPS = `
Prepare:        init, engine, generate
Run:            extract, resume
After a crash:  assess, plan, adopt, resume, repair, verify, accept, inspect, evidence, purge

Examples:
  tidemark assess /data/hidden_states --dataset merged.jsonl
  tidemark resume /data/hidden_states
Exit codes: 0 complete, 1 failed, 2 wrong usage, 3 incomplete, 4 yours to decide, 5 locked, 6 no run here, 7 refused, 130 interrupted.
`;

/** In the order of the help page. */
const COMMANDS: Readonly<Record<string, (context: CommandContext) => Promise<CommandUnknownOpts>>> = {
  init: async (context) => (await import('./init.ts')).initCommand(context),
  engine: async (context) => (await import('./engine.ts')).engineCommand(context),
  generate: async (context) => (await import('./generate.ts')).generateCommand(context),
  extract: async (context) => (await import('./extract.ts')).extractCommand(context),
  resume: async (context) => (await import('./resume.ts')).resumeCommand(context),
  assess: async (context) => (await import('./assess.ts')).assessCommand(context),
  verify: async (context) => (await import('./verify.ts')).verifyCommand(context),
  plan: async (context) => (await import('./plan.ts')).planCommand(context),
  repair: async (context) => (await import('./repair.ts')).repairCommand(context),
  accept: async (context) => (await import('./accept.ts')).acceptCommand(context),
  adopt: async (context) => (await import('./adopt.ts')).adoptCommand(context),
  inspect: async (context) => (await import('./inspect.ts')).inspectCommand(context),
  evidence: async (context) => (await import('./evidence.ts')).evidenceCommand(context),
  purge: async (context) => (await import('./purge.ts')).purgeCommand(context),
};

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
  // What one command needs is not loaded for another: assess alone starts in half the time.
  const named = argv[0] !== undefined && Object.hasOwn(COMMANDS, argv[0]) ? COMMANDS[argv[0]] : undefined;
  for (const make of named === undefined ? Object.values(COMMANDS) : [named]) program.addCommand(await make(context));
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
