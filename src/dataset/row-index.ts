import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { isTidemarkError } from '../core/errors.ts';
import { RowTable } from '../format/row-table.ts';
import type { FileStat, FileStore } from '../host/host.ts';
import type { RowProblem } from './dataset.ts';
import { LineIndex, PLACE_BYTES } from './jsonl.ts';

const MAGIC = 'TMINDX01';
const HEADER_BYTES = 32;
const KEY_BYTES_MOST = 1024 * 1024;
/** One index; some 13 million rows. Larger ones are not kept. */
const INDEX_BYTES_MOST = 1024 * 1024 * 1024;
/** All indexes together; the oldest go. */
const FOLDER_BYTES_MOST = 2 * 1024 * 1024 * 1024;
const FREE_BYTES_LEAST = 1024 * 1024 * 1024;
/** A file changed twice within the grain of its timestamps looks unchanged; what is older than this cannot be in that state. */
const SETTLED_MS = 2000;
/** A temporary file this old belongs to a process that died. */
const ABANDONED_MS = 60 * 60 * 1000;

/** Where row indexes are kept, and with what. Made in the app, which knows the user's folders. */
export interface RowIndexStore {
  readonly files: FileStore;
  readonly folder: string;
  /** Of tidemark: another version may read rows in another way. */
  readonly version: string;
  now(): number;
  randomBytes(length: number): Uint8Array;
  /** Default 2 GiB. */
  readonly folderBytesMost?: number;
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
    const file = await store.files.open(pathOf(store, key));
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
  try {
    const now = await store.files.stat(key.realPath);
    if (now === null || keyText(store, { ...key, stat: now }) !== keyText(store, key)) return;
    const bytes = encode(rows, keyText(store, key));
    const most = store.folderBytesMost ?? FOLDER_BYTES_MOST;
    const { freeBytes } = await store.files.space(store.folder);
    if (bytes.length > Math.min(INDEX_BYTES_MOST, most) || freeBytes < bytes.length + FREE_BYTES_LEAST) return;
    await store.files.makeDirectory(store.folder);
    await removeOldest(store, most - bytes.length);
    await write(store, pathOf(store, key), bytes);
  } catch (error) {
    if (!isTidemarkError(error, 'storage-full', 'storage-failed', 'storage-denied')) throw error;
  }
}

/** No fsync: an index that a power cut tore fails its checksum and is made again. */
async function write({ files, randomBytes }: RowIndexStore, path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}.${Buffer.from(randomBytes(6)).toString('hex')}.tmp`;
  const file = await files.create(temporary, 0o600);
  try {
    await file.write(bytes);
    await file.close();
    await files.rename(temporary, path);
  } catch (error) {
    await file.close();
    await files.unlink(temporary);
    throw error;
  }
}

async function removeOldest(store: RowIndexStore, bytesMost: number): Promise<void> {
  const found: { readonly path: string; readonly bytes: number; readonly modifiedMs: number }[] = [];
  for (const { name, kind } of (await store.files.list(store.folder)) ?? []) {
    if (kind !== 'file' || !/^[0-9a-f]{32}\.rows(\.[0-9a-f]{12}\.tmp)?$/.test(name)) continue;
    const path = `${store.folder}/${name}`;
    const stat = await store.files.stat(path);
    if (stat === null) continue;
    if (name.endsWith('.tmp') && store.now() - stat.modifiedMs > ABANDONED_MS) await store.files.unlink(path);
    else found.push({ path, bytes: stat.bytes, modifiedMs: stat.modifiedMs });
  }
  let sum = found.reduce((total, { bytes }) => total + bytes, 0);
  for (const { path, bytes } of found.sort((a, b) => a.modifiedMs - b.modifiedMs)) {
    if (sum <= bytesMost) return;
    await store.files.unlink(path);
    sum -= bytes;
  }
}

/** One index for a file and a way of reading it: a changed file replaces its index. */
function pathOf(store: RowIndexStore, { realPath, tokenizer, template, maxTokens }: RowIndexKey): string {
  const name = createHash('sha256')
    .update(JSON.stringify([realPath, tokenizer, template, maxTokens]))
    .digest('hex');
  return `${store.folder}/${name.slice(0, 32)}.rows`;
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
