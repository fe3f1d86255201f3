import type { FastifyReply } from 'fastify';
import { messageOf } from '../core/errors.ts';
import type { EngineContext } from './engine-context.ts';
import type { RequestMisbehaviour } from './misbehaviour.ts';
import { refuse } from './refusal.ts';

/** A request's stay in the engine: from admission until its answer and its file are out. */
export interface Turn {
  /** Aborts when the client is gone or the server stops. */
  readonly signal: AbortSignal;
  readonly faults: RequestMisbehaviour;
  /** Runs after the answer was sent, or could not be; the turn lasts until it is done. */
  afterAnswer(work: () => Promise<void>): void;
}

/** Waits for a place, does the work and answers with what it returns. The place is given back exactly once. */
export async function takeTurn(context: EngineContext, reply: FastifyReply, work: (turn: Turn) => Promise<unknown>): Promise<unknown> {
  const signal = AbortSignal.any([disconnection(reply), context.stopping]);
  try {
    return await admitted(context, reply, signal, work);
  } catch (error) {
    if (context.stopping.aborted) return refuse(503, 'the engine is shutting down');
    if (!signal.aborted) throw error;
    // Nobody is there to read an answer.
    reply.hijack();
    return undefined;
  }
}

async function admitted(
  context: EngineContext,
  reply: FastifyReply,
  signal: AbortSignal,
  work: (turn: Turn) => Promise<unknown>,
): Promise<unknown> {
  const faults = context.misbehaviour.next();
  const instead = await faults.arrive(signal);
  if (instead === 'drop') {
    reply.hijack();
    reply.raw.destroy();
    return undefined;
  }
  if (instead !== null) refuse(instead.status, MADE_UP[instead.status] ?? 'misbehaving as asked');
  const leave = await context.admission.enter(signal).catch((error: unknown) => {
    if (!signal.aborted) context.counters.rejected += 1;
    throw error;
  });
  let last: (() => Promise<void>) | null = null;
  try {
    const afterAnswer = (lastWork: () => Promise<void>): void => {
      last = lastWork;
    };
    const answer = await work({ signal, faults, afterAnswer });
    context.counters.succeeded += 1;
    return answer;
  } finally {
    finishTurn(context, reply, last, leave);
  }
}

function finishTurn(context: EngineContext, reply: FastifyReply, last: (() => Promise<void>) | null, leave: () => void): void {
  if (last === null) {
    leave();
    return;
  }
  const run = last;
  let started = false;
  const start = (): void => {
    if (started) return;
    started = true;
    run()
      .catch((error: unknown) => context.options.log(messageOf(error)))
      .finally(leave);
  };
  // `finish`: all of the answer is handed to the system. `close` alone: the client went away first.
  reply.raw.once('finish', start);
  reply.raw.once('close', start);
  if (reply.raw.closed || reply.raw.writableFinished) start();
}

function disconnection(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort(new Error('the client is gone'));
  });
  if (reply.raw.closed) controller.abort(new Error('the client is gone'));
  return controller.signal;
}

const MADE_UP: Readonly<Record<number, string>> = {
  400: "This model's maximum context length is 0 tokens, or so it says when asked to misbehave.",
  429: 'Too many requests.',
  500: 'Internal server error.',
  503: 'The request queue is full.',
};
