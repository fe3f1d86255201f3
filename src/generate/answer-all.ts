import { setMaxListeners } from 'node:events';
import { isTidemarkError } from '../core/errors.ts';
import type { Prompts } from '../dataset/dataset.ts';
import type { Host } from '../host/host.ts';
import type { Answers } from './answers.ts';
import { answerConversation, type GeneratedRow } from './conversation.ts';
import type { GenerateOptions } from './options.ts';
import type { PartWriter } from './parts.ts';
import { requestSeed } from './sampling.ts';
import { failureText, type Servers } from './servers.ts';

export interface Work {
  readonly prompts: Prompts;
  readonly answers: Answers;
  readonly part: PartWriter;
  readonly servers: Servers;
  readonly model: string;
  readonly options: GenerateOptions;
  /** Puts the settings on record, once; called before the first answer is kept. */
  readonly keepSettings: () => Promise<void>;
  /** Told to stop, conversations in flight go on for `drainMs`. */
  readonly stop: AbortSignal;
}

/**
 * Asks for every answer that is missing, in the order of the prompts, a bounded number at a time.
 * @returns why it gave up before the last prompt, or null
 */
export async function answerAll(host: Host, work: Work): Promise<string | null> {
  const { prompts, answers, part, servers, model, options, stop } = work;
  const { sampling } = options;
  const hard = new AbortController();
  // Every request in flight listens to it; Node warns of a leak at eleven.
  setMaxListeners(0, hard.signal);
  let next = 0;
  let inFlight = 0;
  let failuresInRow = 0;
  let reason: string | null = null;
  let fatal: { readonly error: unknown } | null = null;

  function take(): number | null {
    for (; next < prompts.count; next += 1) {
      const state = answers.stateAt(next);
      if (state !== 'open' && state !== 'failed') continue;
      next += 1;
      return next - 1;
    }
    return null;
  }

  async function worker(): Promise<void> {
    while (!stop.aborted && reason === null && fatal === null) {
      const prompt = take();
      if (prompt === null) return;
      inFlight += 1;
      report();
      try {
        await answerOne(prompt);
      } catch (error) {
        fatal ??= { error };
        hard.abort();
      } finally {
        inFlight -= 1;
      }
      report();
    }
  }

  async function answerOne(place: number): Promise<void> {
    const id = prompts.idAt(place);
    let row: GeneratedRow;
    try {
      row = await answerConversation(await prompts.read(place), model, sampling, (messages, turn) =>
        servers.chat({ messages, fields: fieldsOf(id, turn) }, hard.signal),
      );
    } catch (error) {
      // Cut off by the end of the drain, or by trouble that is told elsewhere: asked again by the next start.
      if (hard.signal.aborted) return;
      await failed(id, error);
      return;
    }
    // From the first answer on the settings are on record: a start that kept nothing binds nobody.
    await work.keepSettings();
    const record = { kind: 'answer', row } as const;
    answers.add(record, await part.append(record));
    failuresInRow = 0;
  }

  async function failed(id: string, error: unknown): Promise<void> {
    const refused = isTidemarkError(error, 'engine-refused');
    if (!refused && !isTidemarkError(error, 'engine-busy', 'engine-unreachable', 'engine-timeout')) throw error;
    const message = failureText(error);
    // Before the first answer a refusal may be of the settings and not of the prompt: it stops the work soon, and is not for good.
    const final = refused && answers.totals.answered > 0;
    if (!final) failuresInRow += 1;
    if (failuresInRow >= options.consecutiveFailures) reason ??= `the last ${failuresInRow} prompts failed, the last one so: ${message}`;
    const record = { kind: 'failure', id, code: error.code, message, final, at: host.clock.now() } as const;
    answers.add(record, await part.append(record));
  }

  function fieldsOf(id: string, turn: number): Readonly<Record<string, unknown>> {
    const { temperature, topP, maxTokens, seed, extra } = sampling;
    return { ...extra, model, temperature, top_p: topP, max_tokens: maxTokens, seed: requestSeed(seed, id, turn) };
  }

  function report(): void {
    options.onProgress?.({
      prompts: prompts.count,
      answered: answers.totals.answered,
      failed: answers.countOf('failed', 'refused'),
      inFlight,
      completionTokens: answers.totals.completionTokens,
    });
  }

  const drained = new AbortController();
  const onStop = (): void => {
    host.clock.sleep(options.drainMs, drained.signal).then(
      () => hard.abort(),
      () => undefined,
    );
  };
  stop.addEventListener('abort', onStop, { once: true });
  try {
    await Promise.all(Array.from({ length: Math.min(options.inFlight * options.urls.length, prompts.count) }, worker));
  } finally {
    drained.abort();
    stop.removeEventListener('abort', onStop);
  }
  if (fatal !== null) throw (fatal as { readonly error: unknown }).error;
  return reason;
}
