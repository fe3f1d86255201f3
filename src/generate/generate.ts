import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import type { Prompts } from '../dataset/dataset.ts';
import type { Host } from '../host/host.ts';
import { answerAll } from './answer-all.ts';
import { Answers, type AnswerTotals } from './answers.ts';
import { workingFolder } from './folder.ts';
import { lockNumbers, takeLock } from './hold.ts';
import { mergeAnswers, removeTemporaries } from './merge.ts';
import type { GenerateOptions } from './options.ts';
import { PartWriter } from './parts.ts';
import { readRecord, recordFor, refuseOther, writeRecord } from './record.ts';
import { Servers } from './servers.ts';

export interface GenerateSummary extends AnswerTotals {
  /** `complete`: the output is there, whole or without what was accepted. */
  readonly outcome: 'complete' | 'incomplete' | 'interrupted';
  readonly output: string;
  /** Why it is not complete, and what to do, in words. */
  readonly reason: string | null;
  readonly prompts: number;
  /** Lines of the prompt file that are no prompts; they count as failed for good. */
  readonly unusable: number;
  /** Of this start alone. */
  readonly answeredNow: number;
  /** All that have no answer: those that may be tried again, that the server refused, and that were accepted. */
  readonly failed: { readonly open: number; readonly refused: number; readonly accepted: number };
  readonly seconds: number;
}

/**
 * Stage 1: the target answers every prompt. Each answer is durable before it is counted, and known by its prompt's id, so a
 * start after a crash asks for exactly what is missing.
 *
 * Rejects with `run-mismatch`, `run-locked` or `run-unknown-holder` before anything is written; with `engine-protocol` when a server can never give what
 * is needed; with `storage-*`. Answers that were counted by then are safe.
 */
export async function generate(host: Host, prompts: Prompts, options: GenerateOptions): Promise<GenerateSummary> {
  const stop = options.signal ?? new AbortController().signal;
  try {
    return await begin(host, prompts, options, stop);
  } catch (error) {
    if (!stop.aborted || (isTidemarkError(error) && error.code !== 'interrupted')) throw error;
    throw new TidemarkError('interrupted', 'it was told to stop; what was answered is safe', {
      where: options.output,
      hint: 'start it again to go on',
      cause: error,
    });
  }
}

async function begin(host: Host, prompts: Prompts, options: GenerateOptions, stop: AbortSignal): Promise<GenerateSummary> {
  const startedMs = host.clock.monotonicMs();
  const secondsSince = (): number => (host.clock.monotonicMs() - startedMs) / 1000;
  const { output, urls, headers = {}, timeoutMs, attempts, retryMs = 1000 } = options;
  const folder = workingFolder(output);
  const servers = new Servers(host, { urls, headers, timeoutMs, attempts, retryMs });

  const known = await readRecord(host.files, folder);
  const outputThere = (await host.files.stat(output)) !== null;
  if (outputThere && known === null) throw outputTaken(output);
  const model = options.model ?? (await servers.modelName(stop));
  const record = recordFor(prompts, model, options.sampling);
  if (known !== null) refuseOther(output, known, record);
  if (outputThere) {
    const answers = await Answers.load(host.files, folder, prompts, stop);
    const waiting = answers.countOf('open', 'failed', 'refused');
    if (answers.merged !== null && waiting === 0) {
      return summaryOf(answers, prompts, { output, answeredNow: 0, seconds: secondsSince(), outcome: 'complete', reason: null });
    }
    // A crash between the rename and its record leaves the whole output; any other file here is not ours to replace.
    if (waiting > 0) throw outputTaken(output);
  }

  await host.files.makeDirectory(folder);
  const number = await takeLock(host, folder, options.takeOver);
  const answers = await Answers.load(host.files, folder, prompts, stop);
  const part = await PartWriter.create(host.files, folder, number);
  try {
    const before = answers.totals.answered;
    let kept: Promise<void> | null = known === null ? null : Promise.resolve();
    const keepSettings = (): Promise<void> => (kept ??= writeRecord(host, folder, record, number));
    const gaveUp = await answerAll(host, { prompts, answers, part, servers, model, options, keepSettings, stop });
    const reason = stop.aborted
      ? 'it was told to stop; start it again to go on'
      : (gaveUp ?? whyNotPublished(answers, prompts, options.acceptFailures));
    if (reason === null) await keepSettings();
    if (reason === null) await publish(host, { prompts, answers, part, number, output, folder, stop });
    const outcome = stop.aborted && reason !== null ? 'interrupted' : reason === null ? 'complete' : 'incomplete';
    return summaryOf(answers, prompts, { output, answeredNow: answers.totals.answered - before, seconds: secondsSince(), outcome, reason });
  } finally {
    await part.close();
  }
}

interface Publication {
  readonly prompts: Prompts;
  readonly answers: Answers;
  readonly part: PartWriter;
  readonly number: number;
  readonly output: string;
  readonly folder: string;
  readonly stop: AbortSignal;
}

async function publish(host: Host, { prompts, answers, part, number, output, folder, stop }: Publication): Promise<void> {
  for (let prompt = 0; prompt < prompts.count; prompt += 1) {
    const state = answers.stateAt(prompt);
    if (state === 'answered' || state === 'accepted') continue;
    const accepted = { kind: 'accept', id: prompts.idAt(prompt) } as const;
    answers.add(accepted, await part.append(accepted));
  }
  await removeTemporaries(host, output, await lockNumbers(host.files, folder));
  const merged = {
    kind: 'merged',
    ...(await mergeAnswers(host, answers, { folder, output, number, count: prompts.count, signal: stop })),
  } as const;
  answers.add(merged, await part.append(merged));
}

/** The output is published whole or, when a person says so, without what failed: a later answer would move all rows behind it. */
function whyNotPublished(answers: Answers, prompts: Prompts, acceptFailures: boolean): string | null {
  if (acceptFailures) return null;
  const open = answers.countOf('open', 'failed');
  const refused = answers.countOf('refused');
  const unusable = answers.merged === null ? prompts.problemCount : 0;
  const parts = [
    ...(open > 0 ? [`${open} failed and can be tried again by another start`] : []),
    ...(refused > 0 ? [`${refused} were refused by the server for good`] : []),
    ...(unusable > 0 ? [`${unusable} lines of the prompt file are no prompts`] : []),
  ];
  return parts.length === 0 ? null : `${parts.join('; ')}. --accept-failures publishes the output without them`;
}

function outputTaken(output: string): TidemarkError {
  return new TidemarkError('usage', `${output} exists, and it was not made by this work`, {
    where: output,
    hint: 'give another output, or move that file away',
  });
}

type Result = Pick<GenerateSummary, 'output' | 'answeredNow' | 'seconds' | 'outcome' | 'reason'>;

function summaryOf(answers: Answers, prompts: Prompts, result: Result): GenerateSummary {
  return {
    ...result,
    ...answers.totals,
    prompts: prompts.count,
    unusable: prompts.problemCount,
    failed: { open: answers.countOf('failed'), refused: answers.countOf('refused'), accepted: answers.countOf('accepted') },
  };
}
