/**
 * What was seen of one row, as data: one word per column, so that the rules are a table and every
 * combination can be walked. `unread` means that the level did not ask.
 */
export const COLUMNS = {
  /** The ledger's last word. `tried` failed without being given up; `accepted` also stands for a row that the dataset gives no sample. */
  ledger: ['none', 'committed', 'tried', 'failed', 'set-aside', 'accepted'],
  /** `open`: there, and a live process may still be writing it. */
  file: ['no', 'yes', 'open'],
  readable: ['unread', 'yes', 'no'],
  whole: ['unread', 'yes', 'no'],
  /** The file's own checksums as far as they were compared, and the ledger's size and checksums. `unprovable`: there are none. */
  checksum: ['unread', 'holds', 'differs', 'unprovable'],
  /** `unknown`: there is no dataset to compare with. */
  ids: ['unread', 'match', 'differ', 'unknown'],
  values: ['unread', 'good', 'bad'],
  shape: ['unread', 'fits', 'misfit'],
} as const satisfies Record<string, readonly string[]>;

export type Column = keyof typeof COLUMNS;

export type RowFacts = { readonly [K in Column]: (typeof COLUMNS)[K][number] };

export const NOTHING_SEEN: RowFacts = {
  ledger: 'none',
  file: 'no',
  readable: 'unread',
  whole: 'unread',
  checksum: 'unread',
  ids: 'unread',
  values: 'unread',
  shape: 'unread',
};

const NAMES = Object.keys(COLUMNS) as readonly Column[];

/** How many combinations there are: a row's facts fit into 16 bits. */
export const COMBINATIONS = NAMES.reduce((product, name) => product * COLUMNS[name].length, 1);

/** The facts as one number, so that a million rows take 2 MB. */
export function packFacts(facts: RowFacts): number {
  let packed = 0;
  for (const name of NAMES) {
    const words: readonly string[] = COLUMNS[name];
    packed = packed * words.length + words.indexOf(facts[name]);
  }
  return packed;
}

const unpacked: (RowFacts | undefined)[] = new Array(COMBINATIONS);

/** The facts of a number; remembered, because a tree has few different ones and asks for them many times. */
export function unpackFacts(packed: number): RowFacts {
  const known = unpacked[packed];
  if (known !== undefined) return known;
  const facts = unpackAnew(packed);
  unpacked[packed] = facts;
  return facts;
}

function unpackAnew(packed: number): RowFacts {
  const facts: Record<string, string> = {};
  let rest = packed;
  for (const name of [...NAMES].reverse()) {
    const words = COLUMNS[name];
    facts[name] = words[rest % words.length] ?? '';
    rest = Math.floor(rest / words.length);
  }
  return facts as unknown as RowFacts;
}
