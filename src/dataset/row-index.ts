import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { RowTable } from '../format/row-table.ts';
import type { FileStat } from '../host/host.ts';
import { type CacheFolder, keepInCache } from './cache-folder.ts';
import type { RowProblem } from './dataset.ts';
import { LineIndex, PLACE_BYTES } from './jsonl.ts';

const MAGIC = 'TMINDX01';
const HEADER_BYTES = 32;
const KEY_BYTES_MOST = 1024 * 1024;
/** One index; some 13 million rows. Larger ones are not kept. */
const INDEX_BYTES_MOST = 1024 * 1024 * 1024;
/** A file changed twice within the grain of its timestamps looks unchanged; what is older than this cannot be in that state. */
const SETTLED_MS = 2000;

/** Where row indexes are kept, and with what. Made in the app, which knows the user's folders. */
export interface RowIndexStore extends CacheFolder {
  /** Of tidemark: another version may read rows in another way. */
  readonly version: string;
}

/** What the index of a dataset depends on, besides the bytes of the file. */
export interface RowIndexKey {
  readonly realPath: string;
  readonly stat: FileStat;
  readonly form: string;
  readonly tokenizer: string | null;
  readonly template: string | null;
  readonly maxTokens: number | null;
}

/** What a scan finds. */
export interface IndexedRows {
  readonly table: RowTable;
  readonly places: LineIndex;
  readonly problems: readonly RowProblem[];
  readonly problemCount: number;
}

/** The rows that an earlier scan of the very same file found, or null: then the file is scanned. Never rejects. */
export async function loadRows(store: RowIndexStore, key: RowIndexKey): Promise<IndexedRows | null> {
  try {
    const file = await store.files.open(`${store.folder}/${nameOf(key)}`);
    if (file === null) return null;
    try {
      if (file.size < HEADER_BYTES || file.size > INDEX_BYTES_MOST) return null;
      return decode(await file.read(0, file.size), keyText(store, key));
    } finally {
      await file.close();
    }
  } catch {
    // Damaged, not readable, of another kind: whatever it is, the file itself has the answer.
    return null;
  }
}

/**
 * Keeps what a scan found, if it can be trusted later: the file must have been unchanged for two seconds when it was opened, and
 * be so still. A folder that cannot be written to is no trouble: there is no index then.
 */
export async function keepRows(store: RowIndexStore, key: RowIndexKey, openedAt: number, rows: IndexedRows): Promise<void> {
  if (openedAt - Math.max(key.stat.modifiedMs, key.stat.changedMs) < SETTLED_MS) return;
  const now = await store.files.stat(key.realPath).catch(() => null);
  if (now === null || keyText(store, { ...key, stat: now }) !== keyText(store, key)) return;
  const bytes = encode(rows, keyText(store, key));
  if (bytes.length <= INDEX_BYTES_MOST) await keepInCache(store, nameOf(key), bytes);
}

/** One index for a file and a way of reading it: a changed file replaces its index. */
function nameOf({ realPath, tokenizer, template, maxTokens }: RowIndexKey): string {
  const name = createHash('sha256')
    .update(JSON.stringify([realPath, tokenizer, template, maxTokens]))
    .digest('hex');
  return `${name.slice(0, 32)}.rows`;
}

function keyText({ version }: RowIndexStore, { realPath, stat, form, tokenizer, template, maxTokens }: RowIndexKey): string {
  const { bytes, modifiedMs, changedMs, device, inode } = stat;
  return JSON.stringify({ version, realPath, bytes, modifiedMs, changedMs, device, inode, form, tokenizer, template, maxTokens });
}

function encode({ table, places, problems, problemCount }: IndexedRows, key: string): Uint8Array {
  const head = Buffer.from(JSON.stringify({ key, problems, problemCount }));
  const rows = table.encode();
  const lines = places.encode();
  const bytes = new Uint8Array(HEADER_BYTES + head.length + rows.length + lines.length);
  bytes.set(Buffer.from(MAGIC, 'latin1'), 0);
  bytes.set(head, HEADER_BYTES);
  bytes.set(rows, HEADER_BYTES + head.length);
  bytes.set(lines, HEADER_BYTES + head.length + rows.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(8, head.length, true);
  view.setBigUint64(12, BigInt(rows.length), true);
  view.setBigUint64(20, BigInt(lines.length), true);
  view.setUint32(28, crc32(bytes.subarray(HEADER_BYTES)), true);
  return bytes;
}

function decode(bytes: Uint8Array, key: string): IndexedRows | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (Buffer.from(bytes.subarray(0, 8)).toString('latin1') !== MAGIC) return null;
  const headBytes = view.getUint32(8, true);
  const tableBytes = Number(view.getBigUint64(12, true));
  const placesBytes = Number(view.getBigUint64(20, true));
  if (headBytes > KEY_BYTES_MOST || bytes.length !== HEADER_BYTES + headBytes + tableBytes + placesBytes) return null;
  if (view.getUint32(28, true) !== crc32(bytes.subarray(HEADER_BYTES))) return null;
  const tableStart = HEADER_BYTES + headBytes;
  const head: unknown = JSON.parse(Buffer.from(bytes.subarray(HEADER_BYTES, tableStart)).toString('utf8'));
  if (!isHead(head) || head.key !== key) return null;
  const table = RowTable.decode(bytes.subarray(tableStart, tableStart + tableBytes), 'in the row index');
  if (placesBytes !== table.rows * PLACE_BYTES) return null;
  const places = LineIndex.decode(bytes.subarray(tableStart + tableBytes));
  return { table, places, problems: head.problems, problemCount: head.problemCount };
}

/** Its checksum and its key hold, so this version wrote it. */
function isHead(
  value: unknown,
): value is { readonly key: string; readonly problems: readonly RowProblem[]; readonly problemCount: number } {
  return (
    typeof value === 'object' &&
    value !== null &&
    'key' in value &&
    'problems' in value &&
    Array.isArray(value.problems) &&
    'problemCount' in value
  );
}
