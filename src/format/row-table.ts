import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { TidemarkError } from '../core/errors.ts';
import type { RowIdentity } from '../core/identity.ts';

const MAGIC = 'TMROWS01';
const HEADER_BYTES = 64;
const RECORD_BYTES = 64;
const CHUNK_ROWS = 1024;
const FLAG_NO_SAMPLE = 1;
/** Beside it: the operator's own limit on tokens left the row out. */
const FLAG_DROPPED = 2;
const OTHER_VERSION_HINT = 'go on with the tidemark that wrote it';

/**
 * The row table (`rows.bin`, docs/on-disk.md): 64 bytes a row, so a million rows take 64 MB in memory
 * and on disk. It is what ties files to rows when the dataset itself is not at hand.
 */
export class RowTable {
  readonly rows: number;
  readonly #records: Uint8Array;
  readonly #bytes: Buffer;
  readonly #view: DataView;
  #root: string | undefined;

  constructor(records: Uint8Array) {
    if (records.length % RECORD_BYTES !== 0) throw new RangeError('row records must be whole');
    this.#records = records;
    this.#bytes = Buffer.from(records.buffer, records.byteOffset, records.byteLength);
    this.#view = new DataView(records.buffer, records.byteOffset, records.byteLength);
    this.rows = records.length / RECORD_BYTES;
  }

  /** null for a row that has no sample (malformed or dropped). */
  at(index: number): RowIdentity | null {
    if (index < 0 || index >= this.rows) throw new RangeError(`row ${index} of ${this.rows}`);
    const start = index * RECORD_BYTES;
    if ((this.#view.getUint32(start + 60, true) & FLAG_NO_SAMPLE) !== 0) return null;
    const hex = (offset: number): string => this.#bytes.toString('hex', start + offset, start + offset + 16);
    // Decoded where it is asked: most questions are for the lengths, and the text of three digests costs more than all else.
    return {
      get identity() {
        return hex(0);
      },
      get stripped() {
        return hex(16);
      },
      get mask() {
        return hex(32);
      },
      tokens: this.#view.getUint32(start + 48, true),
      strippedTokens: this.#view.getUint32(start + 52, true),
      lossTokens: this.#view.getUint32(start + 56, true),
    };
  }

  /** Whether a row has no sample because the operator's limit on tokens left it out, and not because it is malformed. */
  isDropped(index: number): boolean {
    return (this.#view.getUint32(index * RECORD_BYTES + 60, true) & FLAG_DROPPED) !== 0;
  }

  /** The fingerprint's root, 64 hex digits. */
  get root(): string {
    this.#root ??= rootOf(this.#records);
    return this.#root;
  }

  /** The root that this table had when it ended after `rows` rows. */
  rootOfFirst(rows: number): string {
    return rows === this.rows ? this.root : rootOf(this.#records.subarray(0, rows * RECORD_BYTES));
  }

  /** The first `most` rows whose records differ, among those that both tables have. */
  differences(other: RowTable, most: number): number[] {
    const found: number[] = [];
    const both = Math.min(this.rows, other.rows);
    for (let index = 0; index < both && found.length < most; index += 1) {
      const start = index * RECORD_BYTES;
      if (Buffer.compare(this.#records.subarray(start, start + RECORD_BYTES), other.#records.subarray(start, start + RECORD_BYTES)) !== 0) {
        found.push(index);
      }
    }
    return found;
  }

  /** The file's bytes. */
  encode(): Uint8Array {
    const file = new Uint8Array(HEADER_BYTES + this.#records.length);
    const view = new DataView(file.buffer);
    file.set(Buffer.from(MAGIC, 'latin1'), 0);
    view.setUint32(8, RECORD_BYTES, true);
    view.setUint32(12, CHUNK_ROWS, true);
    view.setBigUint64(16, BigInt(this.rows), true);
    file.set(Buffer.from(this.root, 'hex'), 24);
    view.setUint32(56, crc32(file.subarray(0, 56)), true);
    file.set(this.#records, HEADER_BYTES);
    return file;
  }

  /** @throws TidemarkError `format-refused` when the bytes are not a whole table of this version */
  static decode(file: Uint8Array, where: string): RowTable {
    const refuse = (why: string): TidemarkError =>
      new TidemarkError('format-refused', `the row table ${where} is not readable: ${why}`, {
        where,
        hint: 'give the dataset with --dataset FILE',
      });
    if (file.length < HEADER_BYTES) throw refuse(`it has ${file.length} bytes, less than its header`);
    const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
    const magic = Buffer.from(file.subarray(0, 8)).toString('latin1');
    if (magic !== MAGIC && /^TMROWS\d\d$/.test(magic)) throw newerTable(where, magic);
    if (magic !== MAGIC) throw refuse('its first bytes are not TMROWS01');
    if (view.getUint32(56, true) !== crc32(file.subarray(0, 56))) throw refuse('its header checksum is wrong');
    if (view.getUint32(8, true) !== RECORD_BYTES || view.getUint32(12, true) !== CHUNK_ROWS) throw refuse('it has another record size');
    const rows = Number(view.getBigUint64(16, true));
    if (file.length !== HEADER_BYTES + rows * RECORD_BYTES) throw refuse(`it should hold ${rows} rows and has ${file.length} bytes`);
    const table = new RowTable(file.subarray(HEADER_BYTES));
    if (table.root !== Buffer.from(file.subarray(24, 56)).toString('hex'))
      throw refuse('its records do not have the digest that its header states');
    return table;
  }
}

/** A table of another version; told from a damaged one, because it must not be replaced. */
function newerTable(where: string, magic: string): TidemarkError {
  return new TidemarkError('format-refused', `the row table ${where} is of version ${magic}, and this tidemark reads ${MAGIC}`, {
    where,
    hint: OTHER_VERSION_HINT,
  });
}

export function isOtherTableVersion(error: unknown): boolean {
  return error instanceof TidemarkError && error.hint === OTHER_VERSION_HINT;
}

/** Collects rows in order; grows by doubling. */
export class RowTableBuilder {
  #records = new Uint8Array(RECORD_BYTES * CHUNK_ROWS);
  #rows = 0;

  /** @param row null for a malformed row, `dropped` for one that the limit on tokens leaves out */
  add(row: RowIdentity | 'dropped' | null): void {
    const start = this.#rows * RECORD_BYTES;
    if (start === this.#records.length) {
      const grown = new Uint8Array(this.#records.length * 2);
      grown.set(this.#records);
      this.#records = grown;
    }
    const view = new DataView(this.#records.buffer);
    if (row === null || row === 'dropped') {
      view.setUint32(start + 60, row === null ? FLAG_NO_SAMPLE : FLAG_NO_SAMPLE | FLAG_DROPPED, true);
    } else {
      this.#records.set(Buffer.from(row.identity, 'hex'), start);
      this.#records.set(Buffer.from(row.stripped, 'hex'), start + 16);
      this.#records.set(Buffer.from(row.mask, 'hex'), start + 32);
      view.setUint32(start + 48, row.tokens, true);
      view.setUint32(start + 52, row.strippedTokens, true);
      view.setUint32(start + 56, row.lossTokens, true);
    }
    this.#rows += 1;
  }

  build(): RowTable {
    return new RowTable(this.#records.slice(0, this.#rows * RECORD_BYTES));
  }
}

function rootOf(records: Uint8Array): string {
  const rows = records.length / RECORD_BYTES;
  const root = createHash('sha256');
  const head = Buffer.alloc(9);
  head[0] = 1;
  head.writeBigUInt64LE(BigInt(rows), 1);
  root.update(head);
  for (let start = 0; start < records.length; start += CHUNK_ROWS * RECORD_BYTES) {
    const chunk = createHash('sha256');
    chunk.update(Buffer.from([0]));
    chunk.update(records.subarray(start, start + CHUNK_ROWS * RECORD_BYTES));
    root.update(chunk.digest());
  }
  return root.digest('hex');
}
