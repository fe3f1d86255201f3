import { Command } from '@commander-js/extra-typings';
import { purge } from '../app/purge.ts';
import { counted, formatBytes, formatCount } from '../core/units.ts';
import type { CommandContext } from './context.ts';
import { writeAll } from './terminal.ts';

/** Names listed one by one; beyond it only the count is said. */
const MOST_LINES = 50;

export function purgeCommand(context: CommandContext) {
  return new Command('purge')
    .description('remove orphan temporaries of crashed starts, and on request the quarantine')
    .argument('<folder>', 'output folder of a run')
    .option('--quarantine', 'also remove what was set aside', false)
    .option('--dry-run', 'say what would go, remove nothing', false)
    .addHelpText('after', '\nExample:\n  tidemark purge /data/hidden_states --dry-run\n')
    .action(async (folder, options) => {
      const purged = await purge(context.host, folder, { ...options, cwd: context.cwd });
      const bytes = purged.reduce((sum, file) => sum + file.bytes, 0);
      const lines = purged
        .slice(0, MOST_LINES)
        .map((file) => `${options.dryRun ? 'would remove' : 'removed'} ${file.path} (${formatBytes(file.bytes)})`);
      if (purged.length > MOST_LINES) lines.push(`and ${formatCount(purged.length - MOST_LINES)} more`);
      lines.push(`${counted(purged.length, 'file')}, ${formatBytes(bytes)} ${options.dryRun ? 'can be given back' : 'given back'}`);
      await writeAll(context.terminal.out, `${lines.join('\n')}\n`);
    });
}
