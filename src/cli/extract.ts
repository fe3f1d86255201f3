import { Command } from '@commander-js/extra-typings';
import { settingsForExtract } from '../app/start-settings.ts';
import type { CommandContext } from './context.ts';
import { addSettingsFlags, overridesOf } from './settings-flags.ts';
import { runAndShow } from './show-extraction.ts';

export function extractCommand(context: CommandContext) {
  const command = new Command('extract')
    .description('extract hidden states for every row of a dataset; durable, resumable')
    .option('--config <file>', 'configuration file (default: tidemark.yaml, where there is one)');
  addSettingsFlags(command, 'begin');
  return command
    .option('--retry-failed', 'try rows again that failed for good before', false)
    .option('--take-over', 'a person says that the process which holds this run is dead', false)
    .option('--no-cache', 'scan the dataset anew, and keep nothing of it')
    .option('--events', 'print one JSON line for each sample on stdout', false)
    .addHelpText('after', '\nExample:\n  tidemark extract --config tidemark.yaml\n')
    .action(async (options) => {
      const settings = await settingsForExtract(context.host, options.config ?? null, overridesOf(options), context.cwd);
      await runAndShow(context, settings, options);
    });
}
