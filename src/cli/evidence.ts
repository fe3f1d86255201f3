import { Command, Option } from '@commander-js/extra-typings';
import { type Evidence, makeEvidence } from '../app/evidence.ts';
import { visible } from '../core/shell-line.ts';
import { formatBytes, formatCount } from '../core/units.ts';
import { LEVELS } from '../core/verdict.ts';
import type { CommandContext } from './context.ts';
import { renderReport } from './render-report.ts';
import { writeAll } from './terminal.ts';

export function evidenceCommand(context: CommandContext) {
  return new Command('evidence')
    .description('pack report, host facts, records and log slices into one redacted tarball, before logs rotate; the folder is only read')
    .argument('<folder>', 'output folder of a run, or any tree of samples')
    .option('--dataset <file>', 'the rows that the files belong to; none of their text is packed')
    .option('--model <folder>', "the target's model folder: tokenizer for datasets of conversations")
    .addOption(new Option('--level <level>', 'how deep the assessment reads').choices(LEVELS).default('identity' as const))
    .option('--layout <name>', 'a known layout, or a pattern of your own (default: told by looking)')
    .option('--log <file>', "a driver's or server's log: slices around its errors, and its end")
    .option('--output <file>', 'the tarball to make; never over a file, never inside the folder (default: here, named by folder and time)')
    .option('--dry-run', 'say what would be packed and what was redacted, write nothing', false)
    .addHelpText('after', '\nExample:\n  tidemark evidence /data/hidden_states --log server.log --dry-run\n')
    .action(async (folder, options) => {
      const evidence = await makeEvidence(context.host, folder, {
        dataset: options.dataset ?? null,
        model: options.model ?? null,
        layout: options.layout ?? null,
        log: options.log ?? null,
        level: options.level,
        output: options.output ?? null,
        dryRun: options.dryRun,
        cwd: context.cwd,
        environment: process.env,
        renderText: (report) => renderReport(report),
      });
      await writeAll(context.terminal.out, renderEvidence(evidence));
    });
}

/** Things that could not be told, listed one by one up to here. */
const UNKNOWN_LINES_MOST = 20;

function renderEvidence({ path, bytes, manifest }: Evidence): string {
  const wide = Math.max(...manifest.members.map(({ name }) => name.length), 8);
  const lines = manifest.members.map(({ name, bytes: size, redacted }) =>
    `  ${name.padEnd(wide)}  ${formatBytes(size).padStart(8)}  ${counted(redacted, 'replaced')}`.trimEnd(),
  );
  for (const { what, why } of manifest.unknown.slice(0, UNKNOWN_LINES_MOST)) lines.push(`  unknown: ${visible(what)}: ${visible(why)}`);
  if (manifest.unknown.length > UNKNOWN_LINES_MOST) lines.push(`  unknown: ${manifest.unknown.length - UNKNOWN_LINES_MOST} more`);
  const different = counted(manifest.redacted, 'different');
  lines.push('', `  ${different === '' ? 'nothing had to be replaced' : different}; ${rowTextWords(manifest.rowText)}`);
  const last =
    bytes === null
      ? `nothing was written; without --dry-run: ${visible(path)}`
      : `evidence: ${visible(path)} (${formatBytes(bytes)}); look into it before you send it`;
  return `${lines.join('\n')}\n${last}\n`;
}

function counted(counts: Evidence['manifest']['redacted'], word: string): string {
  const parts = Object.entries(counts).map(([kind, count]) => `${kind} ${formatCount(count)}`);
  return parts.length === 0 ? '' : `${word}: ${parts.join(', ')}`;
}

function rowTextWords(rowText: Evidence['manifest']['rowText']): string {
  switch (rowText.compared) {
    case 'nothing':
      return `not compared with the text of rows (${visible(rowText.why)})`;
    case 'part':
      return `compared with the text of ${formatCount(rowText.rows)} rows, not of all (${visible(rowText.why ?? '')})`;
    case 'all':
      return `compared with the text of all ${formatCount(rowText.rows)} rows, ${formatCount(rowText.cuts)} pieces cut`;
  }
}
