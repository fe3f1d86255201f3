import { Command } from '@commander-js/extra-typings';
import { type GenerateSummary, runGeneration } from '../app/generation.ts';
import { EXIT } from '../core/exit.ts';
import { counted, formatCount, formatSeconds } from '../core/units.ts';
import type { CommandContext } from './context.ts';
import { listenForSignals } from './stop-signals.ts';
import { writeAll } from './terminal.ts';

/** A line of progress each so many milliseconds. */
const LINE_MS = 5_000;

export function generateCommand(context: CommandContext) {
  return new Command('generate')
    .description('let the target answer a file of prompts; durable, resumable by id')
    .argument('<prompts>', 'JSONL: {"id", "messages"} or {"id", "prompt"} a line')
    .requiredOption('--output <file>', 'the merged dataset to make')
    .requiredOption('--url <url...>', 'servers of one model')
    .option('--served-model <name>', 'the name it is served under (default: the one that the server says)')
    .option('--temperature <number>', 'of sampling; 0 is greedy', '0')
    .option('--top-p <number>', 'of sampling', '1')
    .option('--max-tokens <count>', 'of one answer', '512')
    .option('--seed <number>', 'each request gets its own from it, its id and its turn', '0')
    .option('--in-flight <count>', 'conversations in flight per server', '8')
    .option('--timeout <duration>', 'of one request', '120s')
    .option('--attempts <count>', 'tries of one request', '3')
    .option('--accept-failures', 'publish without the prompts that failed', false)
    .option('--take-over', 'a person says that the process which holds this output is dead', false)
    .addHelpText('after', '\nExample:\n  tidemark generate prompts.jsonl --output merged.jsonl --url http://127.0.0.1:8000\n')
    .action(async (prompts, options) => {
      const { host, terminal } = context;
      const signals = listenForSignals((text) => terminal.err.write(`${text}\n`));
      let printedMs = host.clock.monotonicMs();
      try {
        const summary = await runGeneration(
          host,
          { ...options, prompts, urls: options.url, model: options.servedModel ?? null },
          context.cwd,
          signals.drain,
          (progress) => {
            const now = host.clock.monotonicMs();
            if (now - printedMs < LINE_MS) return;
            printedMs = now;
            terminal.err.write(
              `${formatCount(progress.answered)} of ${counted(progress.prompts, 'prompt')} answered, ${counted(progress.completionTokens, 'token')}, ${formatCount(progress.failed)} failed\n`,
            );
          },
        );
        await writeAll(terminal.out, summaryText(summary));
        context.exitWith(
          summary.outcome === 'complete' ? EXIT.complete : summary.outcome === 'interrupted' ? EXIT.interrupted : EXIT.incomplete,
        );
      } finally {
        signals.dispose();
      }
    });
}

function summaryText(summary: GenerateSummary): string {
  const lines = [
    `${formatCount(summary.answered)} of ${counted(summary.prompts, 'prompt')} answered (${formatCount(summary.answeredNow)} now, in ${formatSeconds(summary.seconds)})`,
  ];
  const { open, refused, accepted } = summary.failed;
  if (open + refused + accepted > 0)
    lines.push(`without an answer: ${open} may be tried again, ${refused} refused by the server, ${accepted} given up`);
  if (summary.truncated > 0) lines.push(`${formatCount(summary.truncated)} answers were cut at --max-tokens`);
  if (summary.empty > 0) lines.push(`${formatCount(summary.empty)} answers are empty`);
  if (summary.retokenised > 0) lines.push(`${formatCount(summary.retokenised)} earlier turns came back as other ids and carry no loss`);
  lines.push(summary.outcome === 'complete' ? `merged: ${summary.output}` : `not complete: ${summary.reason ?? 'it stopped'}`);
  return `${lines.join('\n')}\n`;
}
