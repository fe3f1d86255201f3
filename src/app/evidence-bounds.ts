const KIB = 1024;
const MIB = 1024 * 1024;

/** What one tarball holds at most, and what is read for it (docs/evidence.md says the same; a test compares them). */
export const EVIDENCE_BOUNDS = {
  /** Of the report document; lists in a larger one are cut to `reportListItems`. */
  reportBytes: 8 * MIB,
  reportListItems: 2000,
  /** Of run.json and settings.json each; a larger one is named and not packed. */
  recordBytes: 256 * KIB,
  /** Starts, ends and the like from the run's journals, the newest. */
  historyRecords: 500,
  /** Lines of each journal's end, and the bytes in which they are looked for. */
  journalLines: 200,
  journalTailBytes: 256 * KIB,
  journals: 200,
  journalBytesTogether: 8 * MIB,
  leases: 200,
  /** Read for the digests of journals and of rows.bin, together; behind it a file is named without its digest. */
  digestBytesTogether: 512 * MIB,
  /** Folders described in the tree, names listed one by one in each, entries looked at, depth. */
  treeFolders: 5000,
  treeNames: 100,
  treeEntries: 5_000_000,
  treeDepth: 8,
  /** Lines of the machine's own logs, the newest. */
  systemLogLines: 1000,
  /** Of `--log`: read from its start and from its end; lines of trouble from each, lines beside one, last lines. */
  logHeadBytes: 64 * MIB,
  logTailBytes: 192 * MIB,
  logTroubleFirst: 50,
  logTroubleLast: 150,
  logBeside: 3,
  logLastLines: 200,
  /** Characters of one line of a log, and of a journal or other record, cut after redaction. */
  logLineCharacters: 500,
  recordLineCharacters: 8 * KIB,
  /** Text of the dataset's rows that is compared with what is packed. */
  rowTextBytes: 1024 * MIB,
} as const;
