import { Command } from '@commander-js/extra-typings';
import { acceptRows } from '../app/accept.ts';
import { parseRanges } from '../app/flag-values.ts';
import { formatRanges } from '../core/ranges.ts';
import { counted, formatCount } from '../core/units.ts';
import type { CommandContext } from './context.ts';
import { writeAll } from './terminal.ts';

export function acceptCommand(context: CommandContext) {
  return new Command('accept')
    .description('give rows up, with a reason on record: they count as done from then on')
    .argument('<folder>', 'output folder of a run')
    .argument('<rows>', 'rows as 4711,6802-6810 (both ends included)')
    .requiredOption('--reason <text>', 'stays with the rows')
    .addHelpText('after', "\nExample:\n  tidemark accept /data/hidden_states 4711,6802 --reason 'longer than the engine takes'\n")
    .action(async (folder, rows, options) => {
      const accepted = await acceptRows(context.host, folder, parseRanges(rows), options.reason, { cwd: context.cwd });
      const before = accepted.before > 0 ? ` (${formatCount(accepted.before)} of them before, already)` : '';
      await writeAll(context.terminal.out, `${counted(accepted.count, 'row')} given up${before}: ${formatRanges(accepted.ranges)}\n`);
    });
}
