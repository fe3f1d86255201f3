import { type CommandUnknownOpts, Option } from '@commander-js/extra-typings';
import { CONFIG_FLAGS, type ConfigOverrides } from '../app/config-flags.ts';

type FlagName = keyof typeof CONFIG_FLAGS;

/** What a folder was begun with cannot change under it: these make the run what it is. */
const FIXED_BY_THE_RUN: readonly FlagName[] = ['output', 'revision', 'layers', 'maxTokens', 'extension', 'groupSize'];

/** What an adopted tree says by itself. */
const READ_FROM_THE_TREE: readonly FlagName[] = ['output', 'extension', 'groupSize'];

type Use = 'begin' | 'resume' | 'adopt';

/** Adds the flags that stand over the configuration file; those that a run has fixed only where one is begun. */
export function addSettingsFlags(command: CommandUnknownOpts, use: Use): void {
  for (const name of flagNames(use)) {
    const { flag, value, about, kind } = CONFIG_FLAGS[name];
    const option = new Option(`${flag} <${value}>`, about);
    if (kind === 'texts') option.argParser((text: string, before: readonly string[] | undefined) => [...(before ?? []), text]);
    command.addOption(option);
  }
}

/** The flags of `addSettingsFlags` that were given. */
export function overridesOf(options: object): ConfigOverrides {
  const given = Object.entries(options).filter(([name]) => name in CONFIG_FLAGS);
  return Object.fromEntries(given);
}

function flagNames(use: Use): FlagName[] {
  const names = Object.keys(CONFIG_FLAGS) as FlagName[];
  const left = use === 'begin' ? [] : use === 'adopt' ? READ_FROM_THE_TREE : FIXED_BY_THE_RUN;
  return names.filter((name) => !left.includes(name));
}
