import { Command, Option } from '@commander-js/extra-typings';
import { assessAt, exitOf } from '../app/assessment.ts';
import { verifyHead } from '../app/head-verify.ts';
import type { CommandContext } from './context.ts';
import { writeAll } from './terminal.ts';
import { reportOutput, writeReport } from './write-report.ts';

export function verifyCommand(context: CommandContext) {
  return new Command('verify')
    .description('read every byte of every sample and print the digest of the whole; reads only')
    .argument('<folder>', 'output folder of a run, or any tree of samples')
    .option('--dataset <file>', 'the rows that the files belong to (a run of ours remembers them)')
    .option('--model <folder>', "the target's model folder: tokenizer for datasets of conversations")
    .addOption(
      new Option('--level <level>', 'checksum, or content: values too')
        .choices(['checksum', 'content'] as const)
        .default('content' as const),
    )
    .option('--head <folder>', "instead, ask the target's own final norm and output head about some hundred stored positions")
    .option('--layout <name>', 'a known layout, or a pattern of your own (default: told by looking)')
    .option('--no-cache', 'scan the dataset anew, and keep nothing of it')
    .option('--json', 'print the report document', false)
    .option('--html <file>', 'also write a self-contained page')
    .addHelpText('after', '\nExample:\n  tidemark verify /data/hidden_states --level content\n')
    .action(async (folder, options) => {
      if (options.head !== undefined) {
        const checked = await verifyHead(context.host, folder, { model: options.head, dataset: options.dataset ?? null, cwd: context.cwd });
        const text = options.json ? JSON.stringify(checked.report, null, 2) : checked.lines.join('\n');
        await writeAll(context.terminal.out, `${text}\n`);
        context.exitWith(checked.exit);
        return;
      }
      const report = await assessAt(context.host, folder, {
        dataset: options.dataset ?? null,
        model: options.model ?? null,
        layout: options.layout ?? null,
        cache: options.cache ? 'use' : 'off',
        level: options.level,
        cwd: context.cwd,
      });
      await writeReport(context, report, reportOutput(options, context.cwd));
      context.exitWith(exitOf(report));
    });
}
