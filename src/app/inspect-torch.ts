import type { RandomAccess } from '../core/random-access.ts';
import { levelAtLeast } from '../core/verdict.ts';
import { DamageFound } from '../format/damage.ts';
import { readTorchZip, type TorchZip, torchLayoutOf } from '../format/torch-zip.ts';
import { DIRECTORY_BYTES_MAX, readDirectory } from '../format/zip-directory.ts';
import { bufferOf, zipEndAt } from '../format/zip-end.ts';
import { type Findings, hex32, type InspectedRecord, type InspectLevel, type InspectVerdict, NOTHING_FOUND } from './inspect-document.ts';
import { inspectIds, inspectTensors, plainJson, sumSpans } from './inspect-parts.ts';
import { judgeValues } from './inspect-values.ts';

const TAIL_BYTES = 64 * 1024;
const WRITERS: Readonly<Record<ReturnType<typeof torchLayoutOf>, string>> = {
  '1.13': 'torch 1.6 to 2.0',
  '2.1': 'torch 2.1 to 2.6',
  '2.7': 'torch 2.7 or later, or tidemark',
  other: 'not told by its records',
};

/** A torch zip, read as deep as the level asks. */
export async function inspectTorch(source: RandomAccess, level: InspectLevel): Promise<Findings> {
  const read = await readTorchZip(source);
  // What stands in the directory is worth seeing even where the rest is refused.
  if (!read.ok) return { ...NOTHING_FOUND, verdict: read.damage, ...(await directoryOf(source)) };
  const zip = read.value;
  const proved = [
    `structure: ${zip.records.length} records fill the file up to its end record, and local headers, directory and descriptors agree`,
    `the pickle: ${zip.tensors.size} tensors lie inside their storages; nothing in it would run code`,
  ];
  const notProved: string[] = [];
  if (!zip.crcComputed) {
    notProved.push(
      'the bytes of any record: the writer computed no checksums (save.compute_crc32 = False), so only another copy could tell',
    );
  } else proved.push('data.pkl: its CRC-32');
  const spans = zip.records.map(({ name, offset, bytes }) => ({ name, offset, bytes }));
  const summed = levelAtLeast(level, 'checksum') ? await sumSpans(source, spans) : null;
  const wrong = summed === null || !zip.crcComputed ? [] : zip.records.filter((record) => record.crc32 !== summed.sums.get(record.name));
  if (summed === null) {
    if (zip.crcComputed) notProved.push('the bytes of the tensors: not read at this level; --level checksum compares every CRC-32');
  } else if (zip.crcComputed)
    proved.push(`${zip.records.length - wrong.length} of ${zip.records.length} records: the CRC-32 of every byte`);
  const ids = levelAtLeast(level, 'identity') ? await inspectIds(source, zip.tensors) : null;
  if (typeof ids === 'string') notProved.push(`which row it holds: ${ids}`);
  const content = level === 'content';
  const tensors = await inspectTensors(source, zip.tensors, content);
  const { values, verdict } = {
    values: [...zip.values].map(([name, value]) => ({ name, value: plainJson(value) })),
    verdict: verdictOf(zip, wrong, content ? judgeValues(tensors) : null),
  };
  if (content && verdict.kind === 'sound') proved.push('values: no NaN, infinity, zero row or zero page in a tensor of states');
  return {
    writer: { guess: WRITERS[torchLayoutOf(zip)], source: 'the records beside the tensors' },
    archive: zip.prefix,
    verdict,
    proved,
    notProved,
    tensors,
    values,
    metadata: [],
    records: zip.records.map(
      ({ name, offset, bytes, crc32 }): InspectedRecord => ({
        name,
        offset,
        bytes,
        stored: zip.crcComputed ? hex32(crc32) : null,
        computed: summed === null ? null : hex32(summed.sums.get(name) ?? 0),
      }),
    ),
    identity: typeof ids === 'string' ? null : ids,
    crc32: summed === null ? null : hex32(summed.whole),
  };
}

function verdictOf(zip: TorchZip, wrong: readonly { readonly name: string }[], values: InspectVerdict | null): InspectVerdict {
  if (wrong.length > 0) {
    const names = wrong.slice(0, 8).map(({ name }) => name);
    const more = wrong.length > names.length ? ` and ${wrong.length - names.length} more` : '';
    return {
      kind: 'corrupt',
      reason: 'checksum',
      detail: `the data of ${names.join(', ')}${more} does not have the CRC-32 that it was written with`,
    };
  }
  if (values !== null) return values;
  return { kind: 'sound', reason: zip.crcComputed ? 'checked' : 'unprovable', detail: null };
}

/** The records of a damaged or refused file, where its directory still stands. */
async function directoryOf(source: RandomAccess): Promise<Partial<Findings>> {
  const tailBytes = Math.min(source.size, TAIL_BYTES);
  const tail = { offset: source.size - tailBytes, bytes: bufferOf(await source.read(source.size - tailBytes, tailBytes)) };
  const end = zipEndAt(tail, source.size);
  if (end === null || end.directoryBytes > DIRECTORY_BYTES_MAX) return {};
  try {
    const { prefix, entries } = readDirectory(bufferOf(await source.read(end.directoryOffset, end.directoryBytes)), end);
    return {
      archive: prefix,
      records: entries.map(({ name, bytes, crc32 }) => ({ name, offset: null, bytes, stored: hex32(crc32), computed: null })),
    };
  } catch (error) {
    if (error instanceof DamageFound) return {};
    throw error;
  }
}
