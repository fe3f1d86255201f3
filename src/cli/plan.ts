import { Command } from '@commander-js/extra-typings';
import { assessAt, exitOf } from '../app/assessment.ts';
import { nextCommand } from '../core/next-command.ts';
import { formatRanges } from '../core/ranges.ts';
import type { Report } from '../core/report.ts';
import { shellLine } from '../core/shell-line.ts';
import { counted, formatBytes, formatRate, formatSeconds } from '../core/units.ts';
import type { CommandContext } from './context.ts';
import { writeAll } from './terminal.ts';

export function planCommand(context: CommandContext) {
  return new Command('plan')
    .description('what is to be done next, in order, with costs: the plan that resume carries out')
    .argument('<folder>', 'output folder of a run, or any tree of samples')
    .option('--dataset <file>', 'the rows that the files belong to (a run of ours remembers them)')
    .option('--model <folder>', "the target's model folder: tokenizer for datasets of conversations")
    .option('--layout <name>', 'a known layout, or a pattern of your own (default: told by looking)')
    .option('--no-cache', 'scan the dataset anew, and keep nothing of it')
    .option('--json', 'print the plan of the report document', false)
    .addHelpText('after', '\nExample:\n  tidemark plan /data/hidden_states\n')
    .action(async (folder, options) => {
      const report = await assessAt(context.host, folder, {
        dataset: options.dataset ?? null,
        model: options.model ?? null,
        layout: options.layout ?? null,
        cache: options.cache ? 'use' : 'off',
        level: 'identity',
        cwd: context.cwd,
      });
      await writeAll(context.terminal.out, options.json ? `${JSON.stringify(report.plan, null, 2)}\n` : planText(report));
      context.exitWith(exitOf(report));
    });
}

function planText(report: Report): string {
  const { steps, extract, blockers } = report.plan;
  const lines = steps.map((step, place) => `${place + 1}. ${step.text}: ${counted(step.count, 'row')}, ${formatRanges(step.ranges)}`);
  if (lines.length === 0) lines.push('nothing is left to do');
  if (blockers.length > 0) lines.push(`first a person must settle ${blockers.join(', ')} (tidemark assess says what they are)`);
  if (extract.count > 0) {
    const costs = [
      extract.tokens === null ? 'tokens unknown' : counted(extract.tokens, 'token'),
      extract.bytes === null ? 'bytes unknown' : formatBytes(extract.bytes),
      extract.seconds === null ? 'time unknown' : `${formatSeconds(extract.seconds[0])} to ${formatSeconds(extract.seconds[1])}`,
    ];
    lines.push(`extraction: ${costs.join(', ')}`);
    for (const rate of extract.rates) lines.push(`  at ${formatRate(rate.perSecond)}: ${rate.source}`);
  }
  lines.push(`next: ${shellLine(nextCommand(report))}`);
  return `${lines.join('\n')}\n`;
}
