import { type FileMetaData, parquetMetadata, parquetSchema, type SchemaTree } from 'hyparquet';
import type { RandomAccess } from '../core/random-access.ts';
import { thriftBytes } from './parquet-thrift.ts';

/** The footer of a file of a million row groups; more is no dataset. */
const FOOTER_BYTES_MOST = 64 * 1024 * 1024;
const SCHEMA_ELEMENTS_MOST = 4096;
const TAIL_BYTES = 8;

export interface Footer {
  readonly metadata: FileMetaData;
  readonly schema: SchemaTree;
  /** The first row of each row group, and behind them the number of rows. */
  readonly groupStarts: readonly number[];
}

/** What a Parquet file says of itself at its end. Throws an Error in words when that is not whole. */
export async function readFooter(file: RandomAccess): Promise<Footer> {
  const tail = file.size < 12 ? new Uint8Array(TAIL_BYTES) : await file.read(file.size - TAIL_BYTES, TAIL_BYTES);
  const magic = Buffer.from(tail.subarray(4)).toString('latin1');
  if (magic === 'PARE') throw new Error('its columns are encrypted');
  if (magic !== 'PAR1') throw new Error('its end is missing (Parquet keeps its index there): it was cut off, or is still being written');
  const bytes = new DataView(tail.buffer, tail.byteOffset).getUint32(0, true);
  if (bytes > file.size - 12) throw new Error(`its footer says that it has ${bytes} bytes, more than the file`);
  if (bytes > FOOTER_BYTES_MOST) throw new Error(`its footer has ${bytes} bytes, and at most ${FOOTER_BYTES_MOST} are read`);
  const footer = await file.read(file.size - TAIL_BYTES - bytes, bytes + TAIL_BYTES);
  if (thriftBytes(footer.subarray(0, bytes)) === null) throw new Error('its footer is not whole');
  const metadata = parquetMetadata(footer, { geoparquet: false });
  if (metadata.schema.length > SCHEMA_ELEMENTS_MOST) throw new Error(`it has more than ${SCHEMA_ELEMENTS_MOST} columns`);
  const groupStarts = [0];
  let rows = 0;
  for (const group of metadata.row_groups) {
    const count = Number(group.num_rows);
    if (!(Number.isSafeInteger(count) && count >= 0)) throw new Error('its footer states an impossible number of rows');
    rows += count;
    groupStarts.push(rows);
  }
  if (rows !== Number(metadata.num_rows)) throw new Error(`its footer states ${metadata.num_rows} rows, and its row groups ${rows}`);
  return { metadata, schema: parquetSchema(metadata), groupStarts };
}
