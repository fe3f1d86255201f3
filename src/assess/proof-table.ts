import { LEVELS, type Level, levelAtLeast } from '../core/verdict.ts';
import { crc32 } from '../format/crc32.ts';
import type { FileProbe, ProbeStat } from './gather-probe.ts';
import { PROBE_BYTES, readProbe, WordTable, writeProbe } from './probe-bytes.ts';

/** A probe, the CRC-32 of its path, its level and when it was made. */
const RECORD_BYTES = PROBE_BYTES + 16;
const MAGIC = 'TMPROOF1';
const HEADER_BYTES = 24;
const FORMAT = 'tidemark.proofs/1';
const HEAD_BYTES_MOST = 16 * 1024 * 1024;
/** Files of more than this number are not kept. */
const ROWS_MOST = 16_000_000;

/** What all proofs of a table depend on: another value of any of these, and none of them counts. */
export interface ProofOrigin {
  /** The real path of the folder. */
  readonly folder: string;
  readonly layout: string;
  readonly form: string;
  readonly codec: string;
  /** What was read before the machine stopped may have been in its memory only. */
  readonly bootId: string;
  readonly version: string;
}

/** A scrub that was begun: proofs made since then count for it. */
export interface Scrub {
  readonly level: Level;
  readonly beganMs: number;
}

interface Head {
  readonly format: typeof FORMAT;
  readonly origin: ProofOrigin;
  readonly scrub: Scrub | null;
  readonly words: readonly string[];
}

/**
 * What was proved of files, one record a file number, so that a file that has not changed since is not read again. Kept in the
 * user's cache folder (docs/on-disk.md, "Proofs"); a table that is damaged or of another origin is no table.
 *
 * Memory: 112 bytes for each file number.
 */
export class ProofTable {
  readonly origin: ProofOrigin;
  scrub: Scrub | null = null;
  /** Whether anything was put since it was made or read. */
  changed = false;
  #records: Uint8Array;
  #view: DataView;
  readonly #words: WordTable;

  constructor(origin: ProofOrigin, records = new Uint8Array(0), words: readonly string[] = []) {
    this.origin = origin;
    this.#records = records;
    this.#view = viewOf(records);
    this.#words = new WordTable(words);
  }

  /** What is known of a file at least to a level; null where nothing is, or it is older than `sinceMs`. */
  find(file: number, path: string, level: Level, sinceMs = 0): { readonly probe: FileProbe; readonly madeMs: number } | null {
    const at = file * RECORD_BYTES;
    if (at >= this.#records.length) return null;
    const known = LEVELS[this.#view.getUint8(at + PROBE_BYTES + 4) - 1];
    if (known === undefined || !levelAtLeast(known, level)) return null;
    const madeMs = this.#view.getFloat64(at + PROBE_BYTES + 8, true);
    if (madeMs < sinceMs) return null;
    if (this.#view.getUint32(at + PROBE_BYTES, true) !== pathSum(path)) return null;
    return { probe: readProbe(this.#view, at, this.#words.words), madeMs };
  }

  /** Only what is plain and sound is remembered: anything else is worth another look each time. */
  put(file: number, path: string, probe: FileProbe, made: { readonly level: Level; readonly atMs: number }): void {
    if (file >= ROWS_MOST) return;
    this.#reach(file);
    const at = file * RECORD_BYTES;
    const kept = writeProbe(this.#view, at, probe, this.#words);
    this.#view.setUint8(at + PROBE_BYTES + 4, kept ? LEVELS.indexOf(made.level) + 1 : 0);
    if (!kept) return;
    this.#view.setUint32(at + PROBE_BYTES, pathSum(path), true);
    this.#view.setFloat64(at + PROBE_BYTES + 8, made.atMs, true);
    this.changed = true;
  }

  encode(): Uint8Array {
    const head: Head = { format: FORMAT, origin: this.origin, scrub: this.scrub, words: this.#words.words };
    const text = Buffer.from(JSON.stringify(head));
    const bytes = new Uint8Array(HEADER_BYTES + text.length + this.#records.length);
    bytes.set(Buffer.from(MAGIC, 'latin1'), 0);
    bytes.set(text, HEADER_BYTES);
    bytes.set(this.#records, HEADER_BYTES + text.length);
    const view = viewOf(bytes);
    view.setUint32(8, text.length, true);
    view.setUint32(12, crc32(bytes.subarray(HEADER_BYTES)), true);
    return bytes;
  }

  /** null for bytes that are damaged, of another version or of another origin. */
  static decode(bytes: Uint8Array, origin: ProofOrigin): ProofTable | null {
    if (bytes.length < HEADER_BYTES || Buffer.from(bytes.subarray(0, 8)).toString('latin1') !== MAGIC) return null;
    const view = viewOf(bytes);
    const headBytes = view.getUint32(8, true);
    const start = HEADER_BYTES + headBytes;
    if (headBytes > HEAD_BYTES_MOST || start > bytes.length || (bytes.length - start) % RECORD_BYTES !== 0) return null;
    if (view.getUint32(12, true) !== crc32(bytes.subarray(HEADER_BYTES))) return null;
    const head = headOf(Buffer.from(bytes.subarray(HEADER_BYTES, start)).toString('utf8'));
    if (head === null || JSON.stringify(head.origin) !== JSON.stringify(origin)) return null;
    const table = new ProofTable(origin, bytes.slice(start), head.words);
    table.scrub = head.scrub;
    return table;
  }

  #reach(file: number): void {
    const needed = (file + 1) * RECORD_BYTES;
    if (needed <= this.#records.length) return;
    const grown = new Uint8Array(Math.max(needed, Math.min(2 * this.#records.length, ROWS_MOST * RECORD_BYTES)));
    grown.set(this.#records);
    this.#records = grown;
    this.#view = viewOf(grown);
  }
}

/** Whether a file is the one that a proof was made of, as far as its inode tells. */
export function sameFile(a: ProbeStat, b: ProbeStat): boolean {
  return (
    a.bytes === b.bytes &&
    a.modifiedMs === b.modifiedMs &&
    a.changedMs === b.changedMs &&
    a.inode === b.inode &&
    a.device === b.device &&
    a.kind === b.kind
  );
}

/** Its checksum held, so only another version can have written another form. */
function headOf(text: string): Head | null {
  try {
    const head: unknown = JSON.parse(text);
    return typeof head === 'object' && head !== null && 'format' in head && head.format === FORMAT ? (head as Head) : null;
  } catch {
    return null;
  }
}

function pathSum(path: string): number {
  return crc32(Buffer.from(path));
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
