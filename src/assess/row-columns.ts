import { NOTHING_SEEN, packFacts } from './facts.ts';

/** Words for what stands behind a fact, one byte a row. */
export const NOTES = [
  'none',
  'empty',
  'truncated',
  'zero-filled',
  'structure',
  'trailing-bytes',
  'checksum',
  'nan',
  'inf',
  'zero',
  'shape',
  'io-error',
  'permission',
  'timeout',
] as const;
export type Note = (typeof NOTES)[number];

/** Details in words are kept for so many rows; the counts and ranges of all others are complete all the same. */
const DETAILS_MOST = 10_000;

/**
 * What was seen of all rows, in columns: about 40 bytes a row, so that a million rows cost 40 MB however
 * large their files are. Filled by gather.ts, read by the pure rest.
 */
export class RowColumns {
  readonly rows: number;
  readonly facts: Uint16Array;
  readonly notes: Uint8Array;
  readonly bytes: Float64Array;
  /** Milliseconds since the epoch: when the file was last written, 0 where there is none. */
  readonly modifiedMs: Float64Array;
  /** When the journal recorded the commit, 0 where none did. */
  readonly committedMs: Float64Array;
  /** Bytes the filesystem set aside; fewer than `bytes` hints at a hole. */
  readonly allocated: Float64Array;
  /** CRC-32 of the whole file, where every byte was read. */
  readonly crc32: Uint32Array;
  /** Ids that the file holds, padding included; 0 where not read. */
  readonly fileTokens: Uint32Array;
  /** Number of the shape in `shapes`, from 1; 0 where not read. */
  readonly shapeOf: Uint16Array;
  /** Bit 0: every byte was read; bit 1: every value, too; bit 2: the file cannot prove its own bytes; bit 3: it has no token ids and fits in all else. */
  readonly depth: Uint8Array;
  readonly shapes: string[] = [''];
  readonly details = new Map<number, string>();
  /** Of rows whose file holds other ids: their stripped identity. */
  readonly otherIds = new Map<number, string>();

  constructor(rows: number) {
    this.rows = rows;
    this.facts = new Uint16Array(rows).fill(packFacts(NOTHING_SEEN));
    this.notes = new Uint8Array(rows);
    this.bytes = new Float64Array(rows);
    this.modifiedMs = new Float64Array(rows);
    this.committedMs = new Float64Array(rows);
    this.allocated = new Float64Array(rows);
    this.crc32 = new Uint32Array(rows);
    this.fileTokens = new Uint32Array(rows);
    this.shapeOf = new Uint16Array(rows);
    this.depth = new Uint8Array(rows);
  }

  noteOf(row: number): Note {
    return NOTES[this.notes[row] ?? 0] ?? 'none';
  }

  setNote(row: number, note: Note, detail: string | null): void {
    this.notes[row] = NOTES.indexOf(note);
    if (detail === null) this.details.delete(row);
    else if (this.details.has(row) || this.details.size < DETAILS_MOST) this.details.set(row, detail);
  }

  /** Everything of one row of another table that has the same shapes, except the ids that it holds. */
  copyRow(from: RowColumns, source: number, target: number): void {
    this.facts[target] = from.facts[source] ?? 0;
    this.notes[target] = from.notes[source] ?? 0;
    this.bytes[target] = from.bytes[source] ?? 0;
    this.modifiedMs[target] = from.modifiedMs[source] ?? 0;
    this.committedMs[target] = from.committedMs[source] ?? 0;
    this.allocated[target] = from.allocated[source] ?? 0;
    this.crc32[target] = from.crc32[source] ?? 0;
    this.fileTokens[target] = from.fileTokens[source] ?? 0;
    this.shapeOf[target] = from.shapeOf[source] ?? 0;
    this.depth[target] = from.depth[source] ?? 0;
    const detail = from.details.get(source);
    if (detail !== undefined) this.details.set(target, detail);
  }

  /** The number of a shape's text; beyond 65,534 different ones the rest share the last. */
  shapeNumber(text: string): number {
    const known = this.shapes.indexOf(text);
    if (known > 0) return known;
    if (this.shapes.length >= 65_535) return 65_534;
    this.shapes.push(text);
    return this.shapes.length - 1;
  }
}

export const DEPTH = { bytes: 1, values: 2, unprovable: 4, noIds: 8 } as const;
