import { z } from 'zod';
import { LEVELS, REASONS, VERDICT_KINDS } from './verdict.ts';

/**
 * The report document as a schema: docs/report.schema.json is made from it and a test holds the two equal. Objects are open: a
 * document of version 1 may hold more than this, and what is here keeps its name and meaning.
 */
const index = z.int().nonnegative();
const count = z.int().nonnegative();
const bytes = z.int().nonnegative();
const ranges = z.array(z.tuple([index, index])).meta({ description: 'half-open, ascending, merged' });
const moment = z.iso.datetime().meta({ description: 'ISO 8601 in UTC' });
const object = z.looseObject;

const sourced = <T extends z.ZodType>(value: T) => object({ value, source: z.string() });

const counts = object(
  Object.fromEntries(VERDICT_KINDS.map((kind) => [kind, count])) as Record<(typeof VERDICT_KINDS)[number], typeof count>,
);
const reasons = Object.values(REASONS).flat();

const remedy = object({
  text: z.string(),
  kind: z.enum(['fix', 'decision']),
  commands: z.array(z.array(z.string())),
});

const rate = object({
  perSecond: z.number().positive(),
  tokensPerSecond: z.number().positive().exactOptional(),
  seconds: z.number().nonnegative(),
  source: z.string(),
});

export const reportSchema = object({
  schema: z.literal('tidemark.report/1'),
  folder: z.string(),
  assessedAt: moment,
  level: z.enum(LEVELS),
  levels: z.array(object({ level: z.enum(LEVELS), ranges })),
  suspect: ranges,
  layout: object({ name: z.string(), pattern: z.string(), codec: z.string(), groupSize: count }),
  dataset: object({ path: z.string(), rows: count, identity: z.string().nullable() }).nullable(),
  told: z.array(z.string()),
  run: object({ id: z.string(), createdAt: moment }).nullable(),
  totals: counts.extend({ rows: count, files: count, bytes }),
  missing: object(
    Object.fromEntries(REASONS.missing.map((reason) => [reason, count])) as Record<(typeof REASONS.missing)[number], typeof count>,
  ),
  verdicts: z.array(
    object({
      verdict: z.enum(VERDICT_KINDS as [(typeof VERDICT_KINDS)[number], ...(typeof VERDICT_KINDS)[number][]]),
      reason: z.enum(reasons as [(typeof reasons)[number], ...(typeof reasons)[number][]]),
      ranges,
      count,
      holds: z.array(z.tuple([index, index, index])).exactOptional(),
    }),
  ),
  next: index,
  frontiers: z.array(object({ from: index, to: index, next: index })),
  folders: z.array(object({ path: z.string(), from: index, to: index, files: count, counts })),
  extras: z.array(object({ path: z.string(), kind: z.string(), bytes, reclaimableBytes: bytes })),
  running: object({ process: z.string(), host: z.string(), since: moment }).nullable(),
  remembered: object({ files: count, since: moment }).nullable(),
  segments: z.array(object({ id: z.string(), ranges, state: z.record(z.string(), z.string()) })),
  crash: object({
    lastWrite: sourced(moment).nullable(),
    bootedAt: sourced(moment).nullable(),
    cause: sourced(z.string()).nullable(),
    suspectWindow: sourced(object({ from: moment, to: moment })).nullable(),
    containerStartedAt: sourced(moment).nullable(),
    logEvents: z.array(object({ at: moment.nullable(), kind: z.string(), text: z.string(), source: z.string() })),
    logsNotRead: z.array(object({ path: z.string(), why: z.string() })),
  }).nullable(),
  space: sourced(object({ totalBytes: bytes, freeBytes: bytes })).nullable(),
  pace: object({
    plateau: z.number().positive().nullable(),
    whole: z.number().positive().nullable(),
    stalls: z.array(object({ from: moment, to: moment })),
    stallCount: count,
    stalledSeconds: z.number().nonnegative(),
    source: z.string(),
  }).nullable(),
  placement: object({
    kind: z.enum(['round-robin', 'permuted']),
    ranks: z.int().positive().nullable(),
    starts: z.array(z.int().nullable()),
    batch: z.int().positive().nullable(),
    holds: z.array(z.tuple([index, index, index, z.int()])),
    holdsLeftOut: count,
    strangers: ranges,
    copies: ranges,
  }).nullable(),
  findings: z.array(
    object({
      code: z.string().regex(/^TM-[SLDEH]\d{2}$/),
      severity: z.enum(['info', 'warning', 'error']),
      title: z.string(),
      evidence: z.string(),
      ranges: ranges.exactOptional(),
      remedy: remedy.exactOptional(),
    }),
  ),
  plan: object({
    steps: z.array(object({ what: z.string(), text: z.string(), ranges, count })),
    extract: object({
      ranges,
      count,
      tokens: count.nullable(),
      bytes: bytes.nullable(),
      seconds: z.tuple([z.number().nonnegative(), z.number().nonnegative()]).nullable(),
      rates: z.array(rate),
    }),
    blockers: z.array(z.string()),
  }),
  digest: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .nullable(),
});

/** The schema as a JSON Schema document, as docs/report.schema.json has it. */
export function reportJsonSchema(): unknown {
  return {
    ...z.toJSONSchema(reportSchema, { io: 'output' }),
    $id: 'tidemark.report/1',
    title: 'tidemark assess --json, version 1',
  };
}
