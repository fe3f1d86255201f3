import { Command, Option } from '@commander-js/extra-typings';
import { assessAt, exitOf } from '../app/assessment.ts';
import { positiveNumber } from '../app/flag-values.ts';
import { LEVELS } from '../core/verdict.ts';
import type { CommandContext } from './context.ts';
import { reportOutput, writeReport } from './write-report.ts';

export function assessCommand(context: CommandContext) {
  return new Command('assess')
    .description('say what survived, what did not, why, and what to run next; reads only')
    .argument('<folder>', 'output folder of a run, or any tree of samples')
    .option('--dataset <file>', 'the rows that the files belong to (a run of ours remembers them)')
    .option('--model <folder>', "the target's model folder: tokenizer for datasets of conversations")
    .addOption(new Option('--level <level>', 'how deep to read').choices(LEVELS).default('identity' as const))
    .option('--layout <name>', 'a known layout, or a pattern of your own (default: told by looking)')
    .option('--log <file>', "a driver's or server's old log: rows that it names with an error count as failed")
    .option('--rate <number>', 'samples a second that you expect, for the time left')
    .option('--no-cache', 'scan the dataset anew, and keep nothing of it')
    .option('--json', 'print the report document', false)
    .option('--html <file>', 'also write a self-contained page')
    .addHelpText('after', '\nExample:\n  tidemark assess /data/hidden_states --dataset merged.jsonl --html report.html\n')
    .action(async (folder, options) => {
      const report = await assessAt(context.host, folder, {
        dataset: options.dataset ?? null,
        model: options.model ?? null,
        layout: options.layout ?? null,
        cache: options.cache ? 'use' : 'off',
        log: options.log ?? null,
        rate: options.rate === undefined ? null : positiveNumber('--rate', options.rate),
        level: options.level,
        cwd: context.cwd,
      });
      await writeReport(context, report, reportOutput(options, context.cwd));
      context.exitWith(exitOf(report));
    });
}
