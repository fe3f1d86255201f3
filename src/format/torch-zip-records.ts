import type { RandomAccess } from '../core/random-access.ts';
import { combineCrc32, crc32 } from './crc32.ts';
import { corrupt, parsed, quote } from './damage.ts';
import type { Parsed } from './tensors.ts';
import type { TorchZip } from './torch-zip.ts';

/** Bytes of one read. Two are in flight, so that the disk works while the last piece is summed. */
const PIECE_BYTES = 8 * 1024 * 1024;
/** Below this, summing bytes a second time costs less than combining two sums. */
const COMBINE_BYTES_MIN = 64 * 1024;
const NAMES_MAX = 8;

export interface RecordsCheck {
  /** CRC-32 of the whole file, headers included: what the ledger keeps. */
  readonly fileCrc32: number;
  readonly bytes: number;
}

/** A stretch of the file with its own sum: a record's data, or the headers between two. */
interface Stretch {
  readonly end: number;
  readonly record: { readonly name: string; readonly crc32: number } | null;
}

/**
 * Reads every byte of a file whose structure is proved and compares each record's CRC-32 with the
 * directory's. Where the file has no CRCs (`zip.crcComputed` is false) it only sums: the answer is then `ok` with
 * `fileCrc32`, which proves nothing by itself.
 *
 * @param onBytes called after each piece with the count of bytes it had, for progress
 * @returns damage `corrupt`/`checksum` that names the records, after all of the file was read
 * @throws only what `source.read` rejects with, or what `onBytes` throws
 */
export function checkRecords(source: RandomAccess, zip: TorchZip, onBytes?: (bytes: number) => void): Promise<Parsed<RecordsCheck>> {
  return parsed(async () => {
    const stretches = stretchesOf(zip, source.size);
    const wrong: string[] = [];
    let fileCrc32 = 0;
    let index = 0;
    let start = 0;
    let sum = 0;
    const finish = (stretch: Stretch): void => {
      if (stretch.end - start >= COMBINE_BYTES_MIN) fileCrc32 = combineCrc32(fileCrc32, sum, stretch.end - start);
      if (zip.crcComputed && stretch.record !== null && stretch.record.crc32 !== sum) wrong.push(stretch.record.name);
      start = stretch.end;
      sum = 0;
    };
    for await (const { offset, bytes } of piecesOf(source)) {
      let at = 0;
      while (at < bytes.length) {
        const stretch = stretches[index] as Stretch;
        const end = Math.min(stretch.end - offset, bytes.length);
        const part = bytes.subarray(at, end);
        sum = crc32(part, sum);
        if (stretch.end - start < COMBINE_BYTES_MIN) fileCrc32 = crc32(part, fileCrc32);
        at = end;
        if (offset + at === stretch.end) {
          finish(stretch);
          index += 1;
        }
      }
      onBytes?.(bytes.length);
    }
    if (wrong.length > 0) {
      const names = wrong.slice(0, NAMES_MAX).map(quote).join(', ');
      const more = wrong.length > NAMES_MAX ? ` and ${wrong.length - NAMES_MAX} more` : '';
      corrupt(`the data of ${names}${more} does not have the CRC-32 that it was written with`);
    }
    return { fileCrc32, bytes: source.size };
  });
}

/** The whole file in order, cut where records begin and end. Empty ones have nothing to sum: their CRC is 0. */
function stretchesOf(zip: TorchZip, size: number): Stretch[] {
  const stretches: Stretch[] = [];
  for (const record of zip.records) {
    if (record.bytes === 0) continue;
    stretches.push({ end: record.offset, record: null }, { end: record.offset + record.bytes, record });
  }
  stretches.push({ end: size, record: null });
  return stretches;
}

async function* piecesOf(source: RandomAccess): AsyncGenerator<{ readonly offset: number; readonly bytes: Uint8Array }> {
  const read = (offset: number): Promise<Uint8Array> | null => {
    if (offset >= source.size) return null;
    const piece = source.read(offset, Math.min(PIECE_BYTES, source.size - offset));
    // If the caller stops before it takes this piece, its failure has nobody to tell.
    piece.catch(() => undefined);
    return piece;
  };
  let next = read(0);
  for (let offset = 0; next !== null; offset += PIECE_BYTES) {
    const bytes = await next;
    next = read(offset + PIECE_BYTES);
    yield { offset, bytes };
  }
}
