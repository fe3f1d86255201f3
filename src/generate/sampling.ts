import { createHash } from 'node:crypto';

/** How the target answers; all of it is on record, because answers of different sampling must not be mixed in one file. */
export interface Sampling {
  readonly temperature: number;
  readonly topP: number;
  /** Of one answer. */
  readonly maxTokens: number;
  /** Every request's own seed is made from this one, the row's id and the turn, so that order and retries change nothing. */
  readonly seed: number;
  /** More fields of the request, such as `chat_template_kwargs`. */
  readonly extra: Readonly<Record<string, unknown>>;
}

/** 31 bits, as every server takes them. */
export function requestSeed(seed: number, id: string, turn: number): number {
  const digest = createHash('sha256').update(`tidemark.seed/1\0${seed}\0${id}\0${turn}`).digest();
  return digest.readUInt32LE(0) & 0x7fffffff;
}
