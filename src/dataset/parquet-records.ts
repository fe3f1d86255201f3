import type { ColumnMetaData, SchemaTree } from 'hyparquet';
import { assembleNested } from 'hyparquet/src/assemble.js';
import { DEFAULT_PARSERS } from 'hyparquet/src/convert.js';
import { getTreePath } from 'hyparquet/src/schema.js';
import { TidemarkError } from '../core/errors.ts';
import type { ReadableFile } from '../host/host.ts';
import { damaged } from './damaged.ts';
import { printable } from './jsonl.ts';
import { ColumnReader } from './parquet-column.ts';
import { type Footer, readFooter } from './parquet-footer.ts';
import { quoted } from './quoted.ts';
import { ReadWindow, type Segment } from './read-window.ts';
import type { FileRecord, RecordFile, RecordPurpose } from './records.ts';

/** Everything that a row is made of; other columns are never read. */
const COLUMNS = ['input_ids', 'loss_mask', 'messages', 'conversations', 'prompt', 'tools', 'id', 'uuid', 'conversation_id'];
const BATCH_ROWS = 64;
/** Rows kept behind the furthest read. */
const ROWS_KEPT_BYTES = 32 * 1024 * 1024;

type TableRow = Readonly<Record<string, unknown>>;
type Batch = Segment<readonly TableRow[]>;

/**
 * A Parquet file as records, row group by row group and page by page; row i of the table is row i. A row is read again by going
 * forwards from the beginning of its row group, so that a pass in order reads everything once.
 */
export async function openParquet(
  file: ReadableFile,
  path: string,
  { realPath, purpose }: { readonly realPath: string; readonly purpose: RecordPurpose },
): Promise<RecordFile> {
  const told = (error: unknown): TidemarkError =>
    damaged(error, { name: `the Parquet file`, path, hint: `ls -l ${quoted(path)}; then copy or make it again` });
  const footer = await readFooter(file).catch((error: unknown) => {
    throw told(error);
  });
  const rows = footer.groupStarts.at(-1) ?? 0;
  refuseOtherTables(footer, path, purpose);

  async function* batches(from: number): AsyncGenerator<Batch> {
    try {
      for (let group = groupOf(footer, from); group < footer.metadata.row_groups.length; group += 1)
        yield* groupBatches(file, footer, group);
    } catch (error) {
      throw told(error);
    }
  }

  async function* records(): AsyncGenerator<readonly FileRecord[]> {
    for await (const { start, data } of batches(0)) {
      yield data.map((value, offset) => ({
        line: start + offset + 1,
        place: { start: start + offset, bytes: 0 },
        readBytes: Math.floor(((start + offset + 1) / rows) * file.size),
        textBytes: weightOf(value),
        value: () => ({ ok: true, value }),
        text: () => Buffer.from(JSON.stringify(value)),
      }));
    }
  }

  const anchor = (position: number): number => footer.groupStarts[groupOf(footer, position)] ?? 0;
  const window = new ReadWindow<readonly TableRow[]>({ anchor, segments: batches }, ROWS_KEPT_BYTES);
  return {
    form: 'parquet',
    realPath,
    stat: file.stat,
    records,
    async read({ start }) {
      const [batch] = await window.read(start, start + 1);
      if (batch === undefined) throw new RangeError(`row ${start} of ${rows}`);
      return { ok: true, value: batch.data[start - batch.start] };
    },
    async close() {
      await window.close();
      await file.close();
    },
  };
}

function refuseOtherTables(footer: Footer, path: string, { noun, columns }: RecordPurpose): void {
  const names = footer.schema.children.map(({ element }) => element.name);
  if (columns.some((name) => names.includes(name))) return;
  throw new TidemarkError(
    'dataset',
    `the ${noun} ${path} has none of the columns ${columns.join(', ')}; its columns are ${printable(names.join(', '), 200) || 'none'}`,
    { where: path, hint: 'rename the column that holds the rows, or give another file' },
  );
}

/** The row group that holds a row; empty groups hold none. */
function groupOf({ groupStarts }: Footer, row: number): number {
  return Math.max(
    0,
    groupStarts.findLastIndex((start) => start <= row),
  );
}

async function* groupBatches(file: ReadableFile, footer: Footer, group: number): AsyncGenerator<Batch> {
  const first = footer.groupStarts[group] ?? 0;
  const end = footer.groupStarts[group + 1] ?? first;
  if (end === first) return;
  const columns = columnsOf(file, footer, group);
  for (let start = first, count = 0; start < end; start += count) {
    count = Math.min(BATCH_ROWS, end - start);
    // Long rows come few at a time, and every column gives as many as the one that has the fewest ready.
    for (const { leaves } of columns) for (const { reader } of leaves) count = Math.min(count, await reader.ready(count));
    const found = columns.map((column) => ({ name: column.tree.element.name, values: valuesOf(column, count) }));
    const data = Array.from({ length: count }, (_, offset) =>
      Object.fromEntries(found.map(({ name, values }) => [name, values[offset] ?? null])),
    );
    yield { start, end: start + count, cost: data.reduce((sum, row) => sum + weightOf(row), 0), data };
  }
}

interface Column {
  readonly tree: SchemaTree;
  readonly leaves: readonly { readonly path: string; readonly reader: ColumnReader }[];
}

function columnsOf(file: ReadableFile, { metadata, schema }: Footer, group: number): readonly Column[] {
  const chunks: ColumnMetaData[] = [];
  for (const { meta_data: chunk, file_path: elsewhere } of metadata.row_groups[group]?.columns ?? []) {
    if (elsewhere !== undefined) throw new Error(`a column lies in another file, ${printable(elsewhere, 100)}`);
    if (chunk === undefined) throw new Error('a column has no description, or is encrypted');
    chunks.push(chunk);
  }
  return schema.children
    .filter(({ element }) => COLUMNS.includes(element.name))
    .map((tree) => {
      const leaves = chunks
        .filter(({ path_in_schema: path }) => path[0] === tree.element.name)
        .map((chunk) => ({
          path: chunk.path_in_schema.join('.'),
          reader: new ColumnReader(file, chunk, getTreePath(schema, chunk.path_in_schema)),
        }));
      if (leaves.length === 0) throw new Error(`row group ${group} lacks the column ${tree.element.name}`);
      return { tree, leaves };
    });
}

/** The next rows of a column, which are ready, its leaves put together to lists and structures. */
function valuesOf({ tree, leaves }: Column, count: number): ArrayLike<unknown> {
  const [only] = leaves;
  if (leaves.length === 1 && only?.reader.whole === true) return only.reader.take(count);
  const parts = new Map<string, unknown[]>();
  for (const { path, reader } of leaves) parts.set(path, reader.take(count));
  if (tree.children.length > 0) assembleNested(parts, tree, DEFAULT_PARSERS);
  const values = parts.get(tree.element.name);
  if (values === undefined || values.length !== count) throw new Error(`the parts of column ${tree.element.name} do not fit together`);
  return values;
}

/** Roughly the bytes that a value would take as text; nested as deep as a schema may be. */
function weightOf(value: unknown): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 6;
  if (Array.isArray(value)) {
    const [first] = value as readonly unknown[];
    return typeof first === 'number'
      ? value.length * 8
      : (value as readonly unknown[]).reduce<number>((sum, part) => sum + weightOf(part), 0);
  }
  return Object.values(value).reduce<number>((sum, part) => sum + weightOf(part), 0);
}
