import { Command, Option } from '@commander-js/extra-typings';
import { adopt, type Inferred } from '../app/adopt.ts';
import { inferredLines } from '../app/adopt-words.ts';
import { exitOf } from '../app/assessment.ts';
import { EXIT } from '../core/exit.ts';
import { shellLine } from '../core/shell-line.ts';
import { formatCount } from '../core/units.ts';
import type { CommandContext } from './context.ts';
import { renderReport } from './render-report.ts';
import { addSettingsFlags, overridesOf } from './settings-flags.ts';
import { listenForSignals } from './stop-signals.ts';
import { writeAll } from './terminal.ts';

const LINE_MS = 5_000;

export function adoptCommand(context: CommandContext) {
  const command = new Command('adopt')
    .description('make a tree that another tool wrote a run of ours: every sound file is proved and recorded, nothing moved')
    .argument('<folder>', 'a tree of samples')
    .option('--config <file>', 'configuration file (default: tidemark.yaml, where there is one)')
    .option('--layout <name>', 'a known layout, or a pattern of your own (default: told by looking)')
    .addOption(
      new Option('--last-state <norm>', 'where the numbers do not tell: the last state is before or behind the final norm').choices([
        'pre-norm',
        'post-norm',
      ] as const),
    )
    .option('--no-cache', 'scan the dataset anew, and keep nothing of it')
    .option('--yes', 'what was inferred is right: record it', false);
  addSettingsFlags(command, 'adopt');
  return command
    .addHelpText(
      'after',
      '\nExample:\n  tidemark adopt /data/hidden_states --dataset merged.jsonl --model /models/target --layers 2,30,58 --url http://127.0.0.1:8000 --staging /dev/shm/states\n',
    )
    .action(async (folder, options) => {
      const { host, terminal } = context;
      const signals = listenForSignals((text) => terminal.err.write(`${text}\n`));
      let adopted = 0;
      let printedMs = host.clock.monotonicMs();
      try {
        const result = await adopt(host, folder, {
          config: options.config ?? null,
          overrides: overridesOf(options),
          layout: options.layout ?? null,
          lastState: options.lastState ?? null,
          confirmed: options.yes,
          cache: options.cache ? 'use' : 'off',
          cwd: context.cwd,
          signal: signals.drain,
          onInferred: (inferred, sound) => terminal.err.write(`${inferredLines(inferred, sound).join('\n')}\n`),
          onAdopted: () => {
            adopted += 1;
            const now = host.clock.monotonicMs();
            if (now - printedMs < LINE_MS) return;
            printedMs = now;
            terminal.err.write(`${formatCount(adopted)} proved and recorded\n`);
          },
        });
        if (result.report === null) {
          await writeAll(terminal.out, `${unconfirmed(result.inferred)}\nnext: ${shellLine(nextArgv(context.argv, result.inferred))}\n`);
          context.exitWith(EXIT.decision);
          return;
        }
        await writeAll(terminal.out, renderReport(result.report, terminal.colors));
        context.exitWith(exitOf(result.report));
      } finally {
        signals.dispose();
      }
    });
}

function unconfirmed(inferred: Inferred | null): string {
  if (inferred === null)
    return 'the folder is a run of tidemark already, and nothing was written; what no journal has would be proved and recorded';
  return 'nothing was written; the target and its layers are taken from you, all else from the files';
}

/** The same command, with what is still to be said. */
function nextArgv(argv: readonly string[], inferred: Inferred | null): string[] {
  const layers = inferred === null || inferred.layers.named ? [] : ['--layers', inferred.layers.auxiliary.join(',')];
  return ['tidemark', ...argv, ...layers, '--yes'];
}
