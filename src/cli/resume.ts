import { Command } from '@commander-js/extra-typings';
import { settingsForResume } from '../app/start-settings.ts';
import type { CommandContext } from './context.ts';
import { addSettingsFlags, overridesOf } from './settings-flags.ts';
import { runAndShow } from './show-extraction.ts';

export function resumeCommand(context: CommandContext) {
  const command = new Command('resume')
    .description('go on with a run after a stop or a crash: does what the plan names, and nothing twice')
    .argument('<folder>', 'output folder of the run; it needs nothing else');
  addSettingsFlags(command, 'resume');
  return command
    .option('--retry-failed', 'try rows again that failed for good before', false)
    .option('--take-over', 'a person says that the process which holds this run is dead', false)
    .option('--no-cache', 'scan the dataset anew, and keep nothing of it')
    .option('--events', 'print one JSON line for each sample on stdout', false)
    .addHelpText('after', '\nExample:\n  tidemark resume /data/hidden_states\n')
    .action(async (folder, options) => {
      const settings = await settingsForResume(context.host, folder, overridesOf(options), context.cwd);
      await runAndShow(context, settings, options);
    });
}
