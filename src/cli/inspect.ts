import { Command, Option } from '@commander-js/extra-typings';
import { exitOfInspection, INSPECT_LEVELS, inspectFile } from '../app/inspect.ts';
import type { CommandContext } from './context.ts';
import { renderInspection } from './render-inspect.ts';
import { writeAll } from './terminal.ts';

export function inspectCommand(context: CommandContext) {
  return new Command('inspect')
    .description('say what one file holds, what of it is proved and what cannot be; reads only, runs nothing')
    .argument('<file>', 'a sample, a weight file, anything')
    .addOption(new Option('--level <level>', 'how deep to read').choices(INSPECT_LEVELS).default('structure' as const))
    .option('--checksums', 'compute every checksum: the same as --level checksum', false)
    .option('--json', 'print the document of docs/inspect.md', false)
    .addHelpText('after', '\nExample:\n  tidemark inspect /data/hidden_states/rows_0-2000/data_7.ckpt --level content\n')
    .action(async (file, options) => {
      const level = options.checksums && options.level !== 'content' ? 'checksum' : options.level;
      const inspection = await inspectFile(context.host, file, { level, cwd: context.cwd });
      const { terminal } = context;
      await writeAll(
        terminal.out,
        options.json ? `${JSON.stringify(inspection, null, 2)}\n` : renderInspection(inspection, terminal.colors),
      );
      context.exitWith(exitOfInspection(inspection));
    });
}
