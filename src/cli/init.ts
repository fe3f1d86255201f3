import { Command } from '@commander-js/extra-typings';
import { writeInitialConfig } from '../app/init.ts';
import { shellLine, visible } from '../core/shell-line.ts';
import type { CommandContext } from './context.ts';
import { writeAll } from './terminal.ts';

export function initCommand(context: CommandContext) {
  return new Command('init')
    .description('look at a model, a dataset and a server, and write a commented tidemark.yaml')
    .argument('[file]', 'the configuration to write (default: tidemark.yaml)')
    .option('--model <folder>', "the target's model folder")
    .option('--dataset <file>', 'the JSONL file with one row a line')
    .option('--url <url>', 'the server')
    .option('--output <folder>', 'where the hidden states will go')
    .addHelpText('after', '\nExample:\n  tidemark init --model models/tide-5m --dataset merged.jsonl --url http://127.0.0.1:8000\n')
    .action(async (file, options) => {
      const result = await writeInitialConfig(context.host, {
        model: options.model ?? null,
        dataset: options.dataset ?? null,
        url: options.url ?? null,
        output: options.output ?? null,
        path: file ?? null,
        cwd: context.cwd,
      });
      const left = ['output', 'dataset', 'model', 'url'].filter(
        (name) => (name === 'output' ? options.output : options[name as 'dataset' | 'model' | 'url']) === undefined,
      );
      const next = shellLine(['tidemark', 'extract', '--config', result.path]);
      const lines = [
        ...result.found,
        `wrote ${visible(result.path)}`,
        left.length === 0 ? `next: ${next}` : `next: fill in ${left.join(', ')} there, then ${next}`,
      ];
      await writeAll(context.terminal.out, `${lines.join('\n')}\n`);
    });
}
