import { Command } from '@commander-js/extra-typings';
import { exitOf } from '../app/assessment.ts';
import { repair } from '../app/repair.ts';
import { countOf, formatRanges, rangesOf } from '../core/ranges.ts';
import { formatCount } from '../core/units.ts';
import type { CommandContext } from './context.ts';
import { renderReport } from './render-report.ts';
import { writeAll } from './terminal.ts';

export function repairCommand(context: CommandContext) {
  return new Command('repair')
    .description('set damaged files aside and record sound ones that no journal has; deletes nothing, needs no engine')
    .argument('<folder>', 'output folder of a run')
    .option('--dry-run', 'say what would be done, do nothing', false)
    .option('--take-over', 'a person says that the process which holds this run is dead', false)
    .option('--json', 'print the report document as it is afterwards', false)
    .addHelpText('after', '\nExample:\n  tidemark repair /data/hidden_states --dry-run\n')
    .action(async (folder, options) => {
      const { work, report } = await repair(context.host, folder, { ...options, cwd: context.cwd });
      const { out, err, colors } = context.terminal;
      const aside = rangesOf(work.setAside.map(({ row }) => row).sort((a, b) => a - b));
      const would = options.dryRun ? 'would be ' : '';
      const lines = [
        `${formatCount(work.setAside.length)} ${would}set aside${aside.length > 0 ? `: rows ${formatRanges(aside)}` : ''}`,
        `${formatCount(countOf(work.adopt))} ${would}proved and recorded${work.adopt.length > 0 ? `: rows ${formatRanges(work.adopt)}` : ''}`,
      ];
      await writeAll(options.json ? err : out, `${lines.join('\n')}\n`);
      await writeAll(out, options.json ? `${JSON.stringify(report, null, 2)}\n` : `\n${renderReport(report, colors)}`);
      context.exitWith(exitOf(report));
    });
}
