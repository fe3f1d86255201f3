import { assert } from '../core/assert.ts';
import type { VerdictKind } from '../core/verdict.ts';
import { COLUMNS, COMBINATIONS, type Column, type RowFacts, unpackFacts } from './facts.ts';

/** What follows for the row: the word that the plan understands. */
export type Step = 'extract' | 'wait' | 'retry' | 'set-aside' | 'ask' | 'keep' | 'adopt';

export interface Rule {
  readonly label: string;
  /** Columns that are not named may hold anything. */
  readonly when: { readonly [K in Column]?: readonly RowFacts[K][] };
  readonly verdict: VerdictKind;
  readonly step: Step;
}

const UNCOMMITTED = ['none', 'tried', 'failed', 'set-aside', 'accepted'] as const;
const THERE = ['yes', 'open'] as const;

/** Tried from the top; the first one that fits decides. */
export const RULES: readonly Rule[] = [
  // The row has no file and no journal claims one. The run never came to it, was at it when it died, gave it up after
  // its tries, set a bad file aside without extracting again, or a person accepted the gap. Which one it was is told from the
  // ledger and from where the row lies before its frontier (frontiers.ts).
  { label: 'A', when: { ledger: UNCOMMITTED, file: ['no'] }, verdict: 'missing', step: 'extract' },

  // A journal says that the file was durable under its final name, and it is gone. Somebody removed or renamed it, the
  // volume is an older copy, or the disk lied about fsync. tidemark never removes a committed file without a `set-aside` record.
  { label: 'B', when: { ledger: ['committed'], file: ['no'] }, verdict: 'missing', step: 'extract' },

  // A writer that is alive has the name and not yet all of the bytes (it saves straight to the final name). Calling that
  // torn would make a repair move a file from under its writer. A committed file is past this: it never changes.
  {
    label: 'J',
    when: { ledger: UNCOMMITTED, file: ['open'], readable: ['unread', 'yes'], whole: ['no', 'unread'] },
    verdict: 'missing',
    step: 'wait',
  },

  // As before, by a writer that sets the full length or the directory first and fills in the bytes afterwards.
  { label: 'K', when: { ledger: UNCOMMITTED, file: ['open'], readable: ['yes'], checksum: ['differs'] }, verdict: 'missing', step: 'wait' },

  // The name is there and the machine will not show what is behind it: an I/O error, a permission, no answer in time, or a
  // file that the parser refuses to touch (another format, or one that would run code). Nothing is known of it, so nothing is done to it.
  { label: 'C', when: { file: THERE, readable: ['no'] }, verdict: 'unreadable', step: 'retry' },

  // The bytes end too early or too late, or parts that must agree do not: the writer was killed inside the write, pages
  // never reached the disk, or a file-system repair put the end of another file here.
  { label: 'D', when: { file: THERE, whole: ['no'] }, verdict: 'torn', step: 'set-aside' },

  // The structure holds and a checksum does not: pages were lost inside the data or bits flipped after the write; or size or
  // checksums are not those that the journal recorded, so that this is not the file that was committed.
  { label: 'E', when: { file: THERE, checksum: ['differs'] }, verdict: 'corrupt', step: 'set-aside' },

  // A good file of another row. The dataset was merged again, sorted or cut differently after the extraction, or the writer
  // numbered its files otherwise. The states may all be right; which dataset is, only a person knows.
  { label: 'F', when: { file: THERE, ids: ['differ'] }, verdict: 'drifted', step: 'ask' },

  // The file is as its writer meant it and the numbers are no hidden states: NaN, infinities, rows or tensors of zeros. The
  // engine computed or copied them wrongly.
  { label: 'G', when: { file: THERE, values: ['bad'] }, verdict: 'poisoned', step: 'set-aside' },

  // As before, told by the shapes alone: a tensor is missing, too short or too long for the ids, or of another width than
  // all its neighbours. Stands behind F because a file of another row has another length too, and that is no fault of the engine.
  { label: 'M', when: { file: THERE, shape: ['misfit'] }, verdict: 'poisoned', step: 'set-aside' },

  // The journal has the file, and whatever was asked of it agrees.
  { label: 'H', when: { ledger: ['committed'], file: THERE }, verdict: 'sound', step: 'keep' },

  // Whatever was asked agrees, and no journal has the file: another tool wrote it, or the run died between publishing the
  // name and recording it. The bytes speak for themselves; `adopt` or `resume` records it.
  { label: 'I', when: { ledger: UNCOMMITTED, file: THERE }, verdict: 'sound', step: 'adopt' },
];

export type Label = string;

/**
 * Combinations that no look at a machine can give, with the reason. One that turns up all the same is a fault
 * in tidemark, and deciding on it would be guessing.
 */
export function impossible(facts: RowFacts): string | null {
  const looked = facts.whole !== 'unread' || facts.checksum !== 'unread' || facts.ids !== 'unread';
  const decoded = facts.values !== 'unread' || facts.shape !== 'unread';
  if (facts.file === 'no' && (facts.readable !== 'unread' || looked || decoded)) return 'something was read of a file that is not there';
  if (facts.readable === 'unread') {
    // The listing alone gives the size: empty is not whole, and another size than the journal's differs.
    if (facts.whole === 'yes' || facts.ids !== 'unread' || decoded) return 'something was read of a file that was not opened';
    if (facts.checksum === 'holds' || facts.checksum === 'unprovable') return 'a checksum was compared without opening the file';
  }
  if (facts.readable === 'yes' && facts.whole === 'unread') return 'opening a file tells whether its structure holds';
  return null;
}

export interface Decision {
  readonly label: Label;
  readonly verdict: VerdictKind;
  readonly step: Step;
}

export function firstRule(facts: RowFacts): Rule | null {
  return RULES.find((rule) => fits(rule, facts)) ?? null;
}

function fits(rule: Rule, facts: RowFacts): boolean {
  return (Object.keys(COLUMNS) as Column[]).every((name) => {
    const words: readonly string[] | undefined = rule.when[name];
    return words === undefined || words.includes(facts[name]);
  });
}

const decided: (Rule | undefined)[] = new Array(COMBINATIONS);

/** The case of packed facts (facts.ts); remembered, because a tree has few different ones. */
export function decide(packed: number): Decision {
  const known = decided[packed];
  if (known !== undefined) return known;
  const facts = unpackFacts(packed);
  const why = impossible(facts);
  assert(why === null, `${why}: ${JSON.stringify(facts)}`);
  const rule = firstRule(facts);
  assert(rule !== null, `a rule for ${JSON.stringify(facts)}`);
  decided[packed] = rule;
  return rule;
}
