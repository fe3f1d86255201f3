import { z } from 'zod';
import type { RowRecord, RunJournalRecord } from './ledger.ts';

const digest = z.string().regex(/^[0-9a-f]{32}$/);
/** Milliseconds that a Date can hold: a report writes them as dates. */
const time = z.number().min(0).max(8.64e15);
/** For people: a report quotes it, and a line may be 16 MiB long. */
const WORDS_MOST = 2000;
const words = z.string().transform((text) => (text.length <= WORDS_MOST ? text : `${text.slice(0, WORDS_MOST - 1)}…`));
const uint32 = z.int().min(0).max(0xffffffff);

const rowRecordSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.enum(['commit', 'adopt']),
    row: z.int().nonnegative(),
    identity: digest,
    mask: digest,
    bytes: z.int().nonnegative(),
    crc32: uint32,
    records: z.array(uint32),
    tokens: z.int().nonnegative(),
    segment: z.string(),
    attempt: z.int().nonnegative(),
    at: time,
  }),
  z.object({
    kind: z.literal('failure'),
    row: z.int().nonnegative(),
    class: z.enum(['engine-refused', 'engine-lost', 'bad-capture', 'too-long', 'bad-row', 'storage']),
    message: words,
    attempt: z.int().nonnegative(),
    final: z.boolean(),
    at: time,
  }),
  z.object({
    kind: z.literal('set-aside'),
    row: z.int().nonnegative(),
    verdict: words,
    reason: words,
    to: z.string(),
    at: time,
  }),
]);

const runRecordSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('start'), at: time, argv: z.array(z.string()), facts: z.record(z.string(), z.unknown()) }),
  z.object({ kind: z.literal('segment'), id: z.string(), at: time, state: z.record(z.string(), z.string()) }),
  z.object({
    kind: z.literal('end'),
    at: time,
    outcome: z.enum(['complete', 'incomplete', 'interrupted', 'failed']),
    message: words,
  }),
  z.object({
    kind: z.literal('accept'),
    at: time,
    ranges: z.array(z.tuple([z.int().nonnegative(), z.int().positive()])),
    reason: words,
  }),
]);

/** A record of a shard's journal, or null when this version does not know it. */
export function parseRowRecord(value: unknown): RowRecord | null {
  return rowRecordSchema.safeParse(value).data ?? null;
}

/** A record of the run's journal, or null when this version does not know it. */
export function parseRunRecord(value: unknown): RunJournalRecord | null {
  return runRecordSchema.safeParse(value).data ?? null;
}
