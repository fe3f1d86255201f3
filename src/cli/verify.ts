import { Command, Option } from '@commander-js/extra-typings';
import { assessAt, exitOf } from '../app/assessment.ts';
import { sizePerSecond } from '../app/flag-values.ts';
import { verifyHead } from '../app/head-verify.ts';
import { TidemarkError } from '../core/errors.ts';
import { shellLine } from '../core/shell-line.ts';
import type { CommandContext } from './context.ts';
import { ScrubProgress } from './scrub-progress.ts';
import { listenForSignals } from './stop-signals.ts';
import { writeAll } from './terminal.ts';
import { reportOutput, writeReport } from './write-report.ts';

const VERIFY_HELP = `
Stopped by Ctrl-C or a crash of its own, it goes on where it was: the same command again. A file that changed meanwhile is read again; after a reboot all are.

Examples:
  tidemark verify /data/hidden_states --level content
  tidemark verify /data/hidden_states --level checksum --throttle 200MB     while a run goes on
`;

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
    .option('--throttle <rate>', 'read no faster, on average: 200MB, a second (default: as fast as they come)')
    .option('--no-cache', 'begin anew, scan the dataset anew, and keep nothing of either')
    .option('--json', 'print the report document', false)
    .option('--html <file>', 'also write a self-contained page')
    .addHelpText('after', VERIFY_HELP)
    .action(async (folder, options) => {
      if (options.head !== undefined) {
        const checked = await verifyHead(context.host, folder, { model: options.head, dataset: options.dataset ?? null, cwd: context.cwd });
        const text = options.json ? JSON.stringify(checked.report, null, 2) : checked.lines.join('\n');
        await writeAll(context.terminal.out, `${text}\n`);
        context.exitWith(checked.exit);
        return;
      }
      const { host, terminal } = context;
      const signals = listenForSignals(() => terminal.err.write('stopping; what was read is remembered\n'));
      const progress = new ScrubProgress(host, terminal.err);
      try {
        const report = await assessAt(host, folder, {
          dataset: options.dataset ?? null,
          model: options.model ?? null,
          layout: options.layout ?? null,
          cache: options.cache ? 'use' : 'off',
          level: options.level,
          scrub: true,
          throttle: options.throttle === undefined ? null : sizePerSecond('--throttle', options.throttle),
          signal: signals.drain,
          onProgress: (done, total) => progress.at(done, total),
          cwd: context.cwd,
        });
        await writeReport(context, report, reportOutput(options, context.cwd));
        context.exitWith(exitOf(report));
      } catch (error) {
        if (!signals.drain.aborted) throw error;
        const again = shellLine(['tidemark', ...context.argv]);
        throw new TidemarkError('interrupted', `stopped after ${progress.text()}; nothing was written in the folder`, {
          hint: `${again}   (goes on from there)`,
          cause: error,
        });
      } finally {
        signals.dispose();
      }
    });
}
