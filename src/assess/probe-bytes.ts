import { assert } from '../core/assert.ts';
import type { FileProbe, ProbeStat, SampleProbe } from './gather-probe.ts';

/**
 * Probes as bytes: 96 a file for the plain ones, which is nearly all of them. The way from a reader process
 * to the one that asked carries thousands a second, and the proofs that are kept for later are millions.
 *
 * | bytes | what |
 * |---|---|
 * | 0 | flags: 1 provable, 2 has ids, 4 padded on the right, 8 every byte was read, 16 every value was good |
 * | 1 | count of records |
 * | 2-3, 4-5 | shape and device: numbers of words |
 * | 8-39 | bytes, allocated bytes, modified, changed (ms): float64 each |
 * | 40-47 | inode |
 * | 48-63 | tokens, tokens without padding, CRC-32 of the file, CRC-32 over the records' own: uint32 each |
 * | 64-79, 80-95 | identity, identity without padding |
 *
 * All numbers are little-endian.
 */
export const PROBE_BYTES = 96;

const FLAG = { provable: 1, ids: 2, padded: 4, bytes: 8, values: 16 } as const;
const WORDS_MOST = 65_536;

/** Words that many files share, by number. */
export class WordTable {
  readonly words: string[];
  readonly #numbers: Map<string, number>;

  constructor(words: readonly string[] = []) {
    this.words = [...words];
    this.#numbers = new Map(words.map((word, number) => [word, number]));
  }

  /** null when there are too many. */
  numberOf(word: string): number | null {
    const known = this.#numbers.get(word);
    if (known !== undefined) return known;
    if (this.words.length >= WORDS_MOST) return null;
    this.#numbers.set(word, this.words.length);
    return this.words.push(word) - 1;
  }
}

/** Writes a probe at `at`; false, with nothing written, for one that needs more than these bytes to tell. */
export function writeProbe(into: DataView, at: number, probe: FileProbe, words: WordTable): boolean {
  const { stat, sample } = probe;
  if (probe.refusal !== null || probe.damage !== null || stat === null || stat.kind !== 'file' || sample === null) return false;
  const { ids, bytes, values } = sample;
  if (sample.misfit !== null || (ids !== null && 'damage' in ids) || (bytes !== null && 'damage' in bytes)) return false;
  if (values !== null && values.kind !== 'good') return false;
  const shape = words.numberOf(sample.shape);
  const device = words.numberOf(stat.device);
  if (shape === null || device === null || sample.recordCount > 255) return false;
  const padded = ids !== null && ids.strippedTokens !== ids.tokens;
  const flags =
    (sample.provable ? FLAG.provable : 0) |
    (ids === null ? 0 : FLAG.ids) |
    (padded ? FLAG.padded : 0) |
    (bytes === null ? 0 : FLAG.bytes) |
    (values === null ? 0 : FLAG.values);
  into.setUint8(at, flags);
  into.setUint8(at + 1, sample.recordCount);
  into.setUint16(at + 2, shape, true);
  into.setUint16(at + 4, device, true);
  into.setUint16(at + 6, 0, true);
  into.setFloat64(at + 8, stat.bytes, true);
  into.setFloat64(at + 16, stat.allocatedBytes, true);
  into.setFloat64(at + 24, stat.modifiedMs, true);
  into.setFloat64(at + 32, stat.changedMs, true);
  into.setBigUint64(at + 40, BigInt(stat.inode), true);
  into.setUint32(at + 48, ids?.tokens ?? 0, true);
  into.setUint32(at + 52, ids?.strippedTokens ?? 0, true);
  into.setUint32(at + 56, bytes?.crc32 ?? 0, true);
  into.setUint32(at + 60, sample.recordsCrc32, true);
  writeHex(into, at + 64, ids?.identity ?? null);
  writeHex(into, at + 80, padded ? ids.stripped : null);
  return true;
}

export function readProbe(from: DataView, at: number, words: readonly string[]): FileProbe {
  const flags = from.getUint8(at);
  const has = (flag: number): boolean => (flags & flag) !== 0;
  const stat: ProbeStat = {
    kind: 'file',
    bytes: from.getFloat64(at + 8, true),
    allocatedBytes: from.getFloat64(at + 16, true),
    modifiedMs: from.getFloat64(at + 24, true),
    changedMs: from.getFloat64(at + 32, true),
    device: wordAt(words, from.getUint16(at + 4, true)),
    inode: from.getBigUint64(at + 40, true).toString(),
  };
  const identity = has(FLAG.ids) ? readHex(from, at + 64) : '';
  const sample: SampleProbe = {
    provable: has(FLAG.provable),
    misfit: null,
    tokensWithoutIds: null,
    shape: wordAt(words, from.getUint16(at + 2, true)),
    recordCount: from.getUint8(at + 1),
    recordsCrc32: from.getUint32(at + 60, true),
    ids: has(FLAG.ids)
      ? {
          tokens: from.getUint32(at + 48, true),
          identity,
          strippedTokens: from.getUint32(at + 52, true),
          stripped: has(FLAG.padded) ? readHex(from, at + 80) : identity,
        }
      : null,
    bytes: has(FLAG.bytes) ? { crc32: from.getUint32(at + 56, true) } : null,
    values: has(FLAG.values) ? { kind: 'good' } : null,
  };
  return { stat, refusal: null, damage: null, sample };
}

function wordAt(words: readonly string[], number: number): string {
  const word = words[number];
  assert(word !== undefined, 'a word that the writer of these bytes numbered');
  return word;
}

/** 32 hex digits, or zeros for null. */
function writeHex(into: DataView, at: number, digits: string | null): void {
  Buffer.from(into.buffer, into.byteOffset + at, 16)
    .fill(0)
    .write(digits ?? '', 0, 16, 'hex');
}

function readHex(from: DataView, at: number): string {
  return Buffer.from(from.buffer, from.byteOffset + at, 16).toString('hex');
}
