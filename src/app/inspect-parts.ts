import { identityOf, rowIdentity } from '../core/identity.ts';
import type { RandomAccess } from '../core/random-access.ts';
import { combineCrc32, crc32 } from '../format/crc32.ts';
import type { TensorInfo } from '../format/tensors.ts';
import type { InspectedTensor, Inspection } from './inspect-document.ts';
import { stateWidth, summarize } from './inspect-values.ts';

const PIECE_BYTES = 4 * 1024 * 1024;
/** Sixteen million tokens: no sample of a model that exists is longer. */
const IDS_BYTES_MAX = 128 * 1024 * 1024;
const IDS = ['input_ids', 'token_ids'] as const;

/** A stretch of a file whose bytes have a sum of their own. */
export interface Span {
  readonly name: string;
  readonly offset: number;
  readonly bytes: number;
}

/** CRC-32 of each span, in order and apart, and of the whole file. Spans ascend and do not overlap. One piece in memory. */
export async function sumSpans(
  source: RandomAccess,
  spans: readonly Span[],
): Promise<{ readonly sums: ReadonlyMap<string, number>; readonly whole: number }> {
  const sums = new Map<string, number>();
  let whole = 0;
  let at = 0;
  const sumTo = async (end: number): Promise<number> => {
    let sum = 0;
    const begin = at;
    while (at < end) {
      const bytes = await source.read(at, Math.min(PIECE_BYTES, end - at));
      sum = crc32(bytes, sum);
      at += bytes.length;
    }
    whole = combineCrc32(whole, sum, end - begin);
    return sum;
  };
  for (const span of spans) {
    await sumTo(span.offset);
    sums.set(span.name, await sumTo(span.offset + span.bytes));
  }
  await sumTo(source.size);
  return { sums, whole };
}

/** The tensors as the document has them, with their values where those are asked for. */
export async function inspectTensors(
  source: RandomAccess,
  tensors: ReadonlyMap<string, TensorInfo>,
  values: boolean,
): Promise<InspectedTensor[]> {
  const width = stateWidth(tensors.values());
  const inspected: InspectedTensor[] = [];
  for (const tensor of tensors.values()) {
    const { name, dtype, shape, stride, contiguous, record, fileOffset, bytes } = tensor;
    const seen = values ? await summarize(source, tensor, width) : null;
    const read = typeof seen === 'string' ? { values: null, unread: seen } : { values: seen, unread: null };
    inspected.push({ name, dtype, shape, stride, contiguous, record, offset: fileOffset, bytes, ...read });
  }
  return inspected;
}

/** The identity of the ids in the file; a text says why there is none. */
export async function inspectIds(source: RandomAccess, tensors: ReadonlyMap<string, TensorInfo>): Promise<Inspection['identity'] | string> {
  const name = IDS.find((candidate) => tensors.has(candidate));
  if (name === undefined) return `it has none of ${IDS.join(', ')}`;
  const ids = await integersOf(source, tensors.get(name), 0xffffffff);
  if (typeof ids === 'string') return `${name} ${ids}`;
  const inputIds = Uint32Array.from(ids);
  const mask = await integersOf(source, tensors.get('loss_mask'), 1);
  const known = { tensor: name, tokens: inputIds.length, identity: identityOf(inputIds) };
  if (typeof mask === 'string' || mask.length !== inputIds.length) return { ...known, stripped: null };
  const row = rowIdentity(inputIds, Uint8Array.from(mask));
  return { ...known, stripped: { tokens: row.strippedTokens, identity: row.stripped } };
}

async function integersOf(source: RandomAccess, tensor: TensorInfo | undefined, most: number): Promise<number[] | string> {
  if (tensor === undefined) return 'is not there';
  const { dtype, bytes } = tensor;
  const width = { I64: 8, I32: 4, U8: 1, BOOL: 1 }[dtype as string];
  if (width === undefined) return `is ${dtype}, no type of ids`;
  if (!tensor.contiguous) return 'is not stored in one piece';
  if (bytes > IDS_BYTES_MAX) return `has ${bytes} bytes, more than ${IDS_BYTES_MAX}`;
  const raw = await source.read(tensor.fileOffset, bytes);
  const view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
  const numbers: number[] = [];
  for (let at = 0; at < bytes; at += width) {
    const value = width === 8 ? Number(view.getBigInt64(at, true)) : width === 4 ? view.getInt32(at, true) : view.getUint8(at);
    if (value < 0 || value > most) return `holds ${value} at place ${at / width}`;
    numbers.push(value);
  }
  return numbers;
}

const LIST_SHOWN = 1000;
const TEXT_SHOWN = 10_000;
const BYTES_SHOWN = 64;

/** A plain value as JSON can hold it; what is cut says so. */
export function plainJson(value: unknown): unknown {
  if (typeof value === 'bigint') return `${value}`;
  if (typeof value === 'number' && !Number.isFinite(value)) return `${value}`;
  if (typeof value === 'string') return value.length > TEXT_SHOWN ? `${value.slice(0, TEXT_SHOWN)}… (${value.length} characters)` : value;
  if (value instanceof Uint8Array) {
    const hex = Buffer.from(value.subarray(0, BYTES_SHOWN)).toString('hex');
    return `${value.length} bytes: ${hex}${value.length > BYTES_SHOWN ? '…' : ''}`;
  }
  if (Array.isArray(value)) {
    const shown: unknown[] = value.slice(0, LIST_SHOWN).map(plainJson);
    return value.length > LIST_SHOWN ? [...shown, `… ${value.length} in all`] : shown;
  }
  return value;
}
