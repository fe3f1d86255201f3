import { Command } from '@commander-js/extra-typings';
import { adopt } from '../app/adopt.ts';
import { exitOf } from '../app/assessment.ts';
import { EXIT } from '../core/exit.ts';
import { shellLine } from '../core/shell-line.ts';
import { counted, formatCount } from '../core/units.ts';
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
          confirmed: options.yes,
          cwd: context.cwd,
          signal: signals.drain,
          onInferred: (inferred, sound) =>
            terminal.err.write(
              `${counted(sound, 'sound file')}; of ${formatCount(inferred.filesLookedAt)} looked at all are ${inferred.width} wide, ${counted(inferred.auxiliaryLayers, 'auxiliary layer')}, ${inferred.dtype}, rows_{from}-{to}/data_{index}.${inferred.extension} in groups of ${formatCount(inferred.groupSize)}\n`,
            ),
          onAdopted: () => {
            adopted += 1;
            const now = host.clock.monotonicMs();
            if (now - printedMs < LINE_MS) return;
            printedMs = now;
            terminal.err.write(`${formatCount(adopted)} proved and recorded\n`);
          },
        });
        if (result.report === null) {
          const next = shellLine(['tidemark', ...context.argv, '--yes']);
          await writeAll(
            terminal.out,
            `nothing was written; what cannot be inferred is taken from you: target, layers, and that the last state is after the final norm\n  (prove that with: tidemark verify ${folder} --head MODEL)\nnext: ${next}\n`,
          );
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
