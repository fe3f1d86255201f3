import { assert } from '../core/assert.ts';
import type { IndexRange } from '../core/ranges.ts';
import type { VerdictGroup } from '../core/report.ts';
import { REASONS, type Reason, VERDICT_KINDS, type VerdictKind } from '../core/verdict.ts';
import { type Drift, driftOf } from './drift.ts';
import { packFacts, unpackFacts } from './facts.ts';
import { type Frontier, frontiersOf, missingReasoner, sameWriterBy } from './frontiers.ts';
import type { Gathered } from './gathered.ts';
import { missingByRule } from './placement.ts';
import { DEPTH, type RowColumns } from './row-columns.ts';
import { type Decision, decide } from './rules.ts';
import { isRunning } from './running-signs.ts';

/** Requests in flight of a run that left no settings. */
const CONCURRENCY_UNKNOWN = 64;
/** The usual shape is one that so many files have; without it nobody is odd. */
const USUAL_SHARE = 2 / 3;

export interface Judged {
  readonly groups: readonly VerdictGroup[];
  /** Index into VERDICT_KINDS, for each row. */
  readonly kinds: Uint8Array;
  readonly counts: Readonly<Record<VerdictKind, number>>;
  readonly missing: Readonly<Record<Reason<'missing'>, number>>;
  readonly frontiers: readonly Frontier[];
  readonly next: number;
  readonly concurrency: { readonly value: number; readonly source: string };
  readonly drift: Drift;
  readonly running: boolean;
  /** Rows whose reason was inferred from where they lie. */
  readonly inferredFailures: readonly number[];
  /** Rows that the journals know as failed. */
  readonly recordedFailures: readonly number[];
  /** Rows that a log given by the operator names as failed, and no journal does. */
  readonly loggedFailures: readonly number[];
  /** Of the recorded ones, those that the run gave up. */
  readonly finalFailures: readonly number[];
  /** Missing rows whose file was set aside earlier. */
  readonly setAside: readonly number[];
  /** Sound files that no journal has. */
  readonly unrecorded: readonly number[];
  /** Several shapes and none is usual: nobody can say which one is right. */
  readonly shapesDisagree: readonly { readonly shape: string; readonly files: number }[];
}

/**
 * All verdicts, from what was seen. Pure but for one thing: rows of an unusual shape are marked as such in the columns.
 *
 * @param usualGapMs the usual distance in time of two files; 0 where times say nothing
 */
export function judge(gathered: Gathered, usualGapMs = 0): Judged {
  const { columns } = gathered;
  const shapesDisagree = markUnusualShapes(columns);
  const running = isRunning(gathered);
  const concurrency =
    gathered.ledger?.concurrency == null
      ? { value: CONCURRENCY_UNKNOWN, source: 'assumed' }
      : { value: gathered.ledger.concurrency, source: 'settings.json' };
  // How far a writer came is told by the numbers that it wrote, whatever rows they hold.
  const numbers = gathered.placed?.byNumber ?? columns;
  const hasFile = (number: number): boolean => unpackFacts(numbers.facts[number] ?? 0).file !== 'no';
  const frontiers = frontiersIn(gathered, hasFile, concurrency.value, usualGapMs);
  const reasonOf = reasonerOf(gathered, frontiers, concurrency.value, running);
  const drift = driftOf(columns.otherIds, gathered.dataset?.table ?? null);
  const groups = new GroupBuilder();
  const kinds = new Uint8Array(columns.rows);
  const lists = {
    inferredFailures: [] as number[],
    recordedFailures: [] as number[],
    loggedFailures: [] as number[],
    finalFailures: [] as number[],
    setAside: [] as number[],
    unrecorded: [] as number[],
  };
  let next = 0;
  for (let row = 0; row < columns.rows; row += 1) {
    const packed = columns.facts[row] ?? 0;
    const decision = decide(packed);
    const facts = unpackFacts(packed);
    if (hasFile(row)) next = row + 1;
    kinds[row] = VERDICT_KINDS.indexOf(decision.verdict);
    if (decision.verdict !== 'missing') {
      groups.add(row, decision.verdict, reasonIn(columns, row, decision, facts, gathered, drift));
      if (decision.label === 'I') lists.unrecorded.push(row);
      continue;
    }
    const { reason, source } = decision.step === 'wait' ? { reason: 'in-flight' as const, source: 'seen' } : reasonOf(row, facts.ledger);
    groups.add(row, 'missing', reason);
    if (reason === 'failed') {
      (source === 'log' ? lists.loggedFailures : source === 'inferred' ? lists.inferredFailures : lists.recordedFailures).push(row);
    }
    if (reason === 'failed' && facts.ledger === 'failed') lists.finalFailures.push(row);
    if (facts.ledger === 'set-aside') lists.setAside.push(row);
  }
  const built = groups.build(drift);
  const counts = countKinds(built);
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  assert(total === columns.rows, `every row has one verdict: ${total} of ${columns.rows}`);
  return {
    groups: built,
    kinds,
    counts,
    missing: countMissing(built),
    frontiers,
    next,
    concurrency,
    drift,
    running,
    shapesDisagree,
    ...lists,
  };
}

type MissingSource = 'journals' | 'log' | 'inferred' | 'seen';

/** Why a row has no file. A log that names it as failed says more than where it lies, and less than a journal. */
function reasonerOf(
  gathered: Gathered,
  frontiers: readonly Frontier[],
  concurrency: number,
  running: boolean,
): (row: number, ledger: string) => { readonly reason: Reason<'missing'>; readonly source: MissingSource } {
  // Their files came after the first look: nothing was read of them yet.
  const added = new Set(gathered.placed === undefined ? gathered.secondLook?.added : []);
  const byPlace = missingReasoner({
    frontiers,
    concurrency,
    running,
    hasTemporary: (row) => running && (gathered.temporaryRows.has(row) || added.has(row)),
  });
  const logged = new Set(gathered.logs.flatMap((log) => log.errors.map((error) => error.row)));
  const numbering = gathered.placed?.numbering;
  return (row, ledger) => {
    const known = byPlace(row, ledger);
    if (ledger !== 'none') return { reason: known.reason, source: 'journals' };
    if (logged.has(row)) return { reason: 'failed', source: 'log' };
    if (numbering === undefined) return { reason: known.reason, source: known.inferred ? 'inferred' : 'seen' };
    // Without a rule nothing says when a row's turn would have come.
    if (numbering.rule === null) return { reason: 'never-started', source: 'seen' };
    const { reason, inferred } = missingByRule(numbering.rule, row, concurrency);
    return { reason, source: inferred ? 'inferred' : 'seen' };
  };
}

/** With a ledger each shard that was begun has its own frontier. */
function frontiersIn(gathered: Gathered, hasFile: (row: number) => boolean, concurrency: number, usualGapMs: number): Frontier[] {
  const { ledger, rows } = gathered;
  if (ledger === null) {
    const { modifiedMs } = gathered.placed?.byNumber ?? gathered.columns;
    return frontiersOf(
      hasFile,
      rows.count,
      concurrency,
      sameWriterBy((row) => modifiedMs[row] ?? 0, rows.count, usualGapMs),
    );
  }
  const frontiers: Frontier[] = [];
  for (let from = 0; from < rows.count; from += ledger.shardRows) {
    const to = Math.min(rows.count, from + ledger.shardRows);
    let next = from;
    for (let row = from; row < to; row += 1) if (hasFile(row)) next = row + 1;
    const last = frontiers.at(-1);
    // A shard begins where the one before was finished: one writer, one frontier.
    if (last !== undefined && (last.next === last.to || next === from)) {
      frontiers[frontiers.length - 1] = { from: last.from, to, next: next === from ? last.next : next };
    } else {
      frontiers.push({ from, to, next });
    }
  }
  return frontiers;
}

/** A width or dtype that almost no other file has is told by comparison: one file alone cannot know. */
function markUnusualShapes(columns: RowColumns): Judged['shapesDisagree'] {
  const files = new Array<number>(columns.shapes.length).fill(0);
  let total = 0;
  for (const shape of columns.shapeOf) {
    if (shape === 0) continue;
    files[shape] = (files[shape] ?? 0) + 1;
    total += 1;
  }
  if (files.filter((count) => count > 0).length < 2) return [];
  const usual = files.indexOf(Math.max(...files));
  if ((files[usual] ?? 0) < total * USUAL_SHARE) {
    return columns.shapes.map((shape, at) => ({ shape, files: files[at] ?? 0 })).filter((seen) => seen.files > 0);
  }
  for (let row = 0; row < columns.rows; row += 1) {
    const shape = columns.shapeOf[row] ?? 0;
    if (shape === 0 || shape === usual) continue;
    columns.facts[row] = packFacts({ ...unpackFacts(columns.facts[row] ?? 0), shape: 'misfit' });
    if (columns.noteOf(row) === 'none') {
      columns.setNote(row, 'shape', `${columns.shapes[shape]}; ${files[usual]} of ${total} files have ${columns.shapes[usual]}`);
    }
  }
  return [];
}

function reasonIn(
  columns: RowColumns,
  row: number,
  decision: Decision,
  facts: ReturnType<typeof unpackFacts>,
  gathered: Gathered,
  drift: Drift,
): Reason {
  const note: string = columns.noteOf(row);
  switch (decision.verdict) {
    case 'missing':
      assert(false, 'missing rows have their own reasons');
      break;
    case 'sound': {
      // Without a dataset no file proves its row; without checksums none proves its bytes.
      const asked = facts.ids === 'unknown' || facts.checksum === 'unprovable';
      return asked && gathered.level !== 'names' ? 'unprovable' : 'checked';
    }
    case 'torn':
      return (REASONS.torn as readonly string[]).includes(note) ? (note as Reason<'torn'>) : 'structure';
    case 'corrupt':
      return 'checksum';
    case 'drifted':
      return drift.shifted.has(row) ? 'dataset-shift' : 'other-row';
    case 'poisoned':
      if (decision.label === 'M') return 'shape';
      return (REASONS.poisoned as readonly string[]).includes(note) ? (note as Reason<'poisoned'>) : 'nan';
    case 'unreadable':
      return (REASONS.unreadable as readonly string[]).includes(note) ? (note as Reason<'unreadable'>) : 'io-error';
  }
}

class GroupBuilder {
  readonly #groups = new Map<string, { verdict: VerdictKind; reason: Reason; ranges: [number, number][]; count: number }>();

  add(row: number, verdict: VerdictKind, reason: Reason): void {
    const key = `${verdict}/${reason}`;
    let group = this.#groups.get(key);
    if (group === undefined) {
      group = { verdict, reason, ranges: [], count: 0 };
      this.#groups.set(key, group);
    }
    const last = group.ranges.at(-1);
    if (last !== undefined && last[1] === row) last[1] = row + 1;
    else group.ranges.push([row, row + 1]);
    group.count += 1;
  }

  build(drift: Drift): VerdictGroup[] {
    const order = (group: VerdictGroup): number =>
      VERDICT_KINDS.indexOf(group.verdict) * 100 + (REASONS[group.verdict] as readonly string[]).indexOf(group.reason);
    return [...this.#groups.values()]
      .sort((a, b) => order(a) - order(b))
      .map((group) => (group.verdict === 'drifted' ? { ...group, holds: holdsOf(group.ranges, drift) } : group));
  }
}

function holdsOf(ranges: readonly IndexRange[], drift: Drift): [number, number, number][] {
  const holds: [number, number, number][] = [];
  for (const [from, to] of ranges) {
    for (let row = from; row < to; row += 1) {
      const held = drift.holds.get(row) ?? null;
      if (held === null) continue;
      const last = holds.at(-1);
      if (last !== undefined && last[1] === row && held - row === last[2] - last[0]) last[1] = row + 1;
      else holds.push([row, row + 1, held]);
    }
  }
  return holds;
}

function countKinds(groups: readonly VerdictGroup[]): Record<VerdictKind, number> {
  const counts = { sound: 0, missing: 0, torn: 0, corrupt: 0, drifted: 0, poisoned: 0, unreadable: 0 };
  for (const group of groups) counts[group.verdict] += group.count;
  return counts;
}

function countMissing(groups: readonly VerdictGroup[]): Record<Reason<'missing'>, number> {
  const missing = { 'never-started': 0, 'in-flight': 0, failed: 0, lost: 0, accepted: 0 };
  for (const group of groups) if (group.verdict === 'missing') missing[group.reason as Reason<'missing'>] += group.count;
  return missing;
}

/** Rows whose every byte was read, and those whose values were, too. */
export function depthRanges(columns: RowColumns): { readonly bytes: IndexRange[]; readonly values: IndexRange[] } {
  const bytes: [number, number][] = [];
  const values: [number, number][] = [];
  const add = (ranges: [number, number][], row: number): void => {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === row) last[1] = row + 1;
    else ranges.push([row, row + 1]);
  };
  for (let row = 0; row < columns.rows; row += 1) {
    const depth = columns.depth[row] ?? 0;
    if ((depth & DEPTH.values) !== 0) add(values, row);
    else if ((depth & DEPTH.bytes) !== 0) add(bytes, row);
  }
  return { bytes, values };
}
