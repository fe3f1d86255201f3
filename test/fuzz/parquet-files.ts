import { crc32, gzipSync } from 'node:zlib';
import { parquetWriteBuffer, type SchemaElement } from 'hyparquet-writer';
import { ByteWriter } from 'hyparquet-writer/src/bytewriter.js';
import { serializeTCompactProtocol } from 'hyparquet-writer/src/thrift.js';

const ROWS = 90;

function list(name: string, element: SchemaElement[]): SchemaElement[] {
  return [
    { name, repetition_type: 'OPTIONAL', num_children: 1, converted_type: 'LIST' },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
    ...element,
  ];
}

const leaf = (name: string, type: 'INT32' | 'INT64' | 'BOOLEAN'): SchemaElement => ({ name, type, repetition_type: 'OPTIONAL' });
const text = (name: string): SchemaElement => ({ name, type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' });
const turns = list('messages', [{ name: 'element', repetition_type: 'OPTIONAL', num_children: 2 }, text('role'), text('content')]);

/** Tables of every form that we read, small; the same in every process. */
export function parquetSeeds(): readonly Uint8Array[] {
  const ids = Array.from({ length: ROWS }, (_, row) => Array.from({ length: row % 7 }, (_id, at) => (row * 31 + at * 7) % 150_000));
  const masks = ids.map((row) => row.map((id) => id % 2 === 0));
  const talks = ids.map((row) => [
    { role: 'user', content: `What is ${row.length}? ö` },
    { role: 'assistant', content: row.join(' ') },
  ]);
  const names = ids.map((_, row) => `row-${row % 9}`);
  const compressors = { GZIP: (bytes: Uint8Array) => gzipSync(bytes, { level: 1 }) };
  const seeds: Uint8Array[] = [];
  for (const [codec, type, options] of [
    ['UNCOMPRESSED', 'INT32', { rowGroupSize: 40 }],
    ['SNAPPY', 'INT64', { rowGroupSize: 1000, pageSize: 200 }],
    ['GZIP', 'INT32', { rowGroupSize: 30 }],
  ] as const) {
    const data = ids.map((row) => (type === 'INT64' ? row.map(BigInt) : row));
    for (const encoding of ['PLAIN', 'DELTA_BINARY_PACKED', undefined] as const) {
      const schema = [
        { name: 'root', num_children: 3 },
        ...list('input_ids', [leaf('element', type)]),
        ...list('loss_mask', [leaf('element', 'BOOLEAN')]),
        text('id'),
      ];
      const columnData = [
        { name: 'input_ids', data, ...(encoding === undefined ? {} : { encoding }) },
        { name: 'loss_mask', data: masks },
        { name: 'id', data: names },
      ];
      seeds.push(new Uint8Array(parquetWriteBuffer({ columnData, schema, codec, compressors, ...options })));
    }
    const schema = [{ name: 'root', num_children: 1 }, ...turns];
    seeds.push(
      new Uint8Array(parquetWriteBuffer({ columnData: [{ name: 'messages', data: talks }], schema, codec, compressors, ...options })),
    );
  }
  return seeds;
}

/** One page as somebody states it, with whatever stands behind its header. */
export interface StatedPage {
  readonly values: number;
  readonly encoding: number;
  readonly body: Uint8Array;
  /** Bytes that it says it unpacks to. Default: what it has. */
  readonly unpackedBytes?: number;
  readonly dictionary?: boolean;
}

/** A table of one column of lists, `input_ids`, or of conversations' words, whose pages and counts are whatever is asked: every header is whole. */
export function statedParquet(table: {
  readonly rows: number;
  readonly codec: number;
  readonly pages: readonly StatedPage[];
  readonly column: 'input_ids' | 'messages';
}): Uint8Array {
  const { rows, codec, pages, column } = table;
  const pieces: Uint8Array[] = [Buffer.from('PAR1')];
  for (const { values, encoding, body, unpackedBytes = body.length, dictionary = false } of pages) {
    const stated = { field_1: values, field_2: encoding };
    pieces.push(
      thrift({
        field_1: dictionary ? 2 : 0,
        field_2: unpackedBytes,
        field_3: body.length,
        field_4: crc32(body) | 0,
        ...(dictionary ? { field_7: stated } : { field_5: { ...stated, field_3: 3, field_4: 3 } }),
      }),
      body,
    );
  }
  const bytes = pieces.slice(1).reduce((sum, piece) => sum + piece.length, 0);
  const path = column === 'input_ids' ? ['input_ids', 'list', 'element'] : ['messages', 'list', 'element', 'content'];
  const type = column === 'input_ids' ? 1 : 6;
  const group = (name: string, repetition: number, more: object = {}) => ({ field_3: repetition, field_4: name, field_5: 1, ...more });
  const schema = [
    { field_4: 'root', field_5: 1 },
    group(path[0] ?? '', 1, { field_6: 3 }),
    group('list', 2),
    ...(column === 'messages' ? [group('element', 1)] : []),
    { field_1: type, field_3: 1, field_4: path.at(-1) ?? '' },
  ];
  const chunk = {
    field_1: type,
    field_2: [0],
    field_3: path,
    field_4: codec,
    field_5: BigInt(pages.reduce((sum, page) => sum + page.values, 0)),
    field_6: BigInt(bytes),
    field_7: BigInt(bytes),
    field_9: 4n,
  };
  const footer = thrift({
    field_1: 2,
    field_2: schema,
    field_3: BigInt(rows),
    field_4: [{ field_1: [{ field_2: 4n, field_3: chunk }], field_2: BigInt(bytes), field_3: BigInt(rows) }],
  });
  const tail = Buffer.alloc(8);
  tail.writeUInt32LE(footer.length);
  tail.write('PAR1', 4, 'latin1');
  return Buffer.concat([...pieces, footer, tail]);
}

function thrift(value: Readonly<Record<`field_${number}`, unknown>>): Uint8Array {
  const writer = new ByteWriter();
  serializeTCompactProtocol(writer, value);
  return Uint8Array.from(writer.getBytes());
}

/** `count` times the same level or code in a handful of bytes. @param bits the width of one, at most 8 */
export function runOf(count: number, value: number, bits: number): Uint8Array {
  const head: number[] = [];
  for (let rest = count * 2; ; rest = Math.floor(rest / 128)) {
    head.push(rest >= 128 ? (rest % 128) + 128 : rest);
    if (rest < 128) break;
  }
  return Uint8Array.from(bits === 0 ? head : [...head, value]);
}

/** Levels as a page of the first version has them: their length, then their runs. */
export function prefixed(...runs: readonly Uint8Array[]): Uint8Array {
  const body = Buffer.concat(runs);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(body.length);
  return Buffer.concat([length, body]);
}
