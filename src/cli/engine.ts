import { Command, Option } from '@commander-js/extra-typings';
import { startEngine } from '../app/engine.ts';
import type { CommandContext } from './context.ts';
import { listenForSignals } from './stop-signals.ts';
import { writeAll } from './terminal.ts';

export function engineCommand(context: CommandContext) {
  return new Command('engine')
    .description('serve a small real target on this machine, in the dialect of vLLM with hidden-state extraction')
    .requiredOption('--model <folder>', 'config.json, model.onnx and tokenizer; models/tide-5m is shipped')
    .option('--port <number>', 'port to listen on; 0 takes any that is free', '0')
    .option('--address <address>', 'address to listen on', '127.0.0.1')
    .option('--allow-remote', 'listen where other machines can reach it, without any password', false)
    .option('--staging <folder>', 'folder for hidden states; without it none are extracted')
    .option('--layers <list>', 'boundary numbers to hand out (default: 2, N/2, N-3, N)')
    .addOption(new Option('--state-dtype <dtype>', 'of the states').choices(['float32', 'bfloat16'] as const).default('float32' as const))
    .option('--threads <count>', 'of the processor', '2')
    .option('--max-queued <count>', 'requests that run or wait; one more is answered 503', '256')
    .addOption(new Option('--misbehave <spec...>', 'for tests: faults to show, such as nan:on=4').default([] as string[]).hideHelp())
    .addHelpText('after', '\nExample:\n  tidemark engine --model models/tide-5m --port 8000 --staging /dev/shm/tidemark\n')
    .action(async (options) => {
      const { terminal } = context;
      const log = (line: string): void => {
        terminal.err.write(`${line}\n`);
      };
      const signals = listenForSignals(log);
      try {
        const engine = await startEngine(
          context.host,
          {
            model: options.model,
            port: options.port,
            address: options.address,
            allowRemote: options.allowRemote,
            staging: options.staging ?? null,
            layers: options.layers ?? null,
            dtype: options.stateDtype,
            threads: options.threads,
            maxQueued: options.maxQueued,
            misbehave: options.misbehave,
          },
          context.cwd,
          signals.drain,
          log,
        );
        await writeAll(terminal.out, `engine ready at ${engine.url}\n`);
        await engine.closed;
      } finally {
        signals.dispose();
      }
    });
}
