import { z } from 'zod';
import { isTidemarkError } from '../core/errors.ts';

/** A request that is answered with an error: a plain value, so that nothing of the machine can slip into the answer. */
export interface Refusal {
  readonly status: number;
  readonly type: string;
  readonly message: string;
  readonly param: string | null;
}

/** Carries a refusal to the server's one error handler. */
export class RefusalError extends Error {
  override readonly name = 'RefusalError';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}

const TYPES: Readonly<Record<number, string>> = {
  400: 'BadRequestError',
  403: 'ForbiddenError',
  404: 'NotFoundError',
  405: 'BadRequestError',
  413: 'BadRequestError',
  415: 'BadRequestError',
  429: 'TooManyRequestsError',
  503: 'ServiceUnavailableError',
};

export function refusal(status: number, message: string, param: string | null = null): Refusal {
  return { status, message, param, type: TYPES[status] ?? (status < 500 ? 'BadRequestError' : 'InternalServerError') };
}

export function refuse(status: number, message: string, param: string | null = null): never {
  throw new RefusalError(refusal(status, message, param));
}

/** The body that vLLM sends. */
export function errorBody(from: Refusal): unknown {
  return { error: { message: from.message, type: from.type, param: from.param, code: from.status } };
}

/** The parsed body, or a 400 that names the field. */
export function parseBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const param = issue === undefined || issue.path.length === 0 ? null : issue.path.map(String).join('.');
  return refuse(400, param === null ? (issue?.message ?? 'the body does not fit') : `${param}: ${issue?.message}`, param);
}

/** Any error as an answer. What is not expected says only that it happened; the log has the rest. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof RefusalError) return error.refusal;
  if (isTidemarkError(error, 'engine-busy')) return refusal(503, error.message);
  if (isTidemarkError(error, 'engine-refused')) return refusal(400, error.message);
  if (isTidemarkError(error, 'engine-unreachable'))
    return { ...refusal(500, 'the engine died; restart the server'), type: 'EngineDeadError' };
  const status = statusOf(error);
  if (status !== null && status >= 400 && status < 500) return refusal(status, WORDS[status] ?? 'the request cannot be read');
  return refusal(500, 'internal error; the server has the details in its log');
}

const WORDS: Readonly<Record<number, string>> = {
  400: 'the body is not JSON',
  413: 'the body is too long',
  415: 'send the body as application/json',
};

function statusOf(error: unknown): number | null {
  const parsed = z.looseObject({ statusCode: z.number() }).safeParse(error);
  return parsed.success ? parsed.data.statusCode : null;
}
