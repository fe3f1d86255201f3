import { exitOf } from '../app/assessment.ts';
import { runExtraction } from '../app/extraction.ts';
import { EXIT } from '../core/exit.ts';
import { countOf } from '../core/ranges.ts';
import type { Settings } from '../core/settings.ts';
import { visible } from '../core/shell-line.ts';
import { counted, formatCount } from '../core/units.ts';
import type { CommandContext } from './context.ts';
import { ExtractionProgress } from './progress.ts';
import { renderReport } from './render-report.ts';
import { listenForSignals } from './stop-signals.ts';
import { writeAll } from './terminal.ts';

export interface ExtractionFlags {
  readonly retryFailed: boolean;
  readonly takeOver: boolean;
  readonly events: boolean;
  readonly cache: boolean;
}

/** Runs an extraction with progress on stderr and its account on stdout. */
export async function runAndShow(context: CommandContext, settings: Settings, flags: ExtractionFlags): Promise<void> {
  const { terminal } = context;
  const say = (text: string): void => {
    terminal.err.write(`${text}\n`);
  };
  const progress = new ExtractionProgress(context.host, terminal.err);
  const signals = listenForSignals(say);
  try {
    const { outcome, report } = await runExtraction(context.host, settings, {
      argv: context.argv,
      takeOver: flags.takeOver,
      retryFailed: flags.retryFailed,
      cache: flags.cache ? 'use' : 'off',
      signals,
      onPhase: (phase) => {
        if (phase.kind === 'opened') {
          say(
            `${phase.created ? 'new run' : 'run'} in ${visible(settings.output)}: ${counted(phase.rows, 'row')}, engine ${phase.engine.engine} serving ${phase.engine.model}`,
          );
          if (phase.firstProblem !== null)
            say(`${counted(phase.problems, 'row')} of the dataset can have no sample; the first: ${visible(phase.firstProblem)}`);
        }
        if (phase.kind === 'planned') {
          const { work, report: before } = phase;
          say(
            `${formatCount(before.totals.sound)} sound; to do: ${formatCount(countOf(work.extract))} to extract, ${formatCount(work.setAside.length)} to set aside, ${formatCount(countOf(work.adopt))} to adopt`,
          );
          progress.begin(countOf(work.extract));
        }
      },
      onEvent: (event) => {
        progress.onEvent(event);
        if (flags.events) terminal.out.write(`${JSON.stringify(event)}\n`);
      },
    });
    progress.end();
    if (!flags.events && report !== null) await writeAll(terminal.out, renderReport(report, terminal.colors));
    if (outcome.stopped !== null) throw outcome.stopped;
    if (report !== null) context.exitWith(outcome.interrupted ? EXIT.interrupted : exitOf(report));
  } finally {
    progress.end();
    signals.dispose();
  }
}
