/**
 * The forty digits of `.data/serialization_id`, as torch 2.1 and later write them on Linux: a hash of the
 * record names and a hash of their CRCs. No reader checks it; it is written so that a file's bytes are
 * those that torch.save would have written.
 */
import { Buffer } from 'node:buffer';
import { assert } from '../core/assert.ts';

const MASK = (1n << 64n) - 1n;
const MULTIPLIER = 0xc6a4a7935bd1e995n;
const SEED = 0xc70f6907n;
/** Bucket counts that libstdc++'s hash set steps through as it grows. */
const BUCKETS = [1, 13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273] as const;
/** Records that the last bucket count holds. */
const SERIALIZATION_ID_RECORDS_MAX = 10273;
export const SERIALIZATION_ID_BYTES = 40;

/** `at::hash_combine`. */
function combine(seed: bigint, value: bigint): bigint {
  return seed ^ ((value + 0x9e3779b9n + ((seed << 6n) & MASK) + (seed >> 2n)) & MASK);
}

/** libstdc++'s `std::hash<std::string>` (MurmurHash64A with its own seed). */
function hashOfText(text: string): bigint {
  const bytes = Buffer.from(text, 'utf8');
  const mix = (value: bigint): bigint => value ^ (value >> 47n);
  let hash = SEED ^ ((BigInt(bytes.length) * MULTIPLIER) & MASK);
  const whole = bytes.length - (bytes.length % 8);
  for (let at = 0; at < whole; at += 8) {
    const word = (mix((bytes.readBigUInt64LE(at) * MULTIPLIER) & MASK) * MULTIPLIER) & MASK;
    hash = ((hash ^ word) * MULTIPLIER) & MASK;
  }
  if (whole < bytes.length) {
    let rest = 0n;
    for (let at = bytes.length - 1; at >= whole; at -= 1) rest = (rest << 8n) | BigInt(bytes[at] ?? 0);
    hash = ((hash ^ rest) * MULTIPLIER) & MASK;
  }
  return mix((mix(hash) * MULTIPLIER) & MASK);
}

/** The names' hashes in the order in which a libstdc++ hash set gives them back. */
function setOrder(hashes: readonly bigint[]): bigint[] {
  let chain: { hash: bigint; bucket: number }[] = [];
  let step = 0;
  const insert = (into: { hash: bigint; bucket: number }[], hash: bigint): void => {
    const bucket = Number(hash % BigInt(BUCKETS[step] ?? 1));
    const first = into.findIndex((other) => other.bucket === bucket);
    into.splice(Math.max(first, 0), 0, { hash, bucket });
  };
  hashes.forEach((hash, index) => {
    if (index + 1 > (BUCKETS[step] ?? 1)) {
      step += 1;
      const grown: { hash: bigint; bucket: number }[] = [];
      for (const old of chain) insert(grown, old.hash);
      chain = grown;
    }
    insert(chain, hash);
  });
  return chain.map((item) => item.hash);
}

/** Files of one run have the same record names, so their hash is worth keeping; a few are kept, not all ever seen. */
const nameHashes = new Map<string, bigint>();
const NAME_HASHES_MAX = 32;

function hashOfNames(names: readonly string[]): bigint {
  const key = names.join('\n');
  const known = nameHashes.get(key);
  if (known !== undefined) return known;
  assert(names.length <= SERIALIZATION_ID_RECORDS_MAX, `at most ${SERIALIZATION_ID_RECORDS_MAX} records`);
  const hash = setOrder(names.map(hashOfText)).reduce(combine, 0n);
  if (nameHashes.size >= NAME_HASHES_MAX) nameHashes.clear();
  nameHashes.set(key, hash);
  return hash;
}

/** @param records every record before this one, in order, names without the archive's prefix */
export function serializationId(records: readonly { readonly name: string; readonly bytes: number; readonly crc32: number }[]): string {
  let sums = 0n;
  for (const record of records) if (record.bytes > 0) sums = combine(sums, BigInt(record.crc32));
  const names = hashOfNames(records.map((record) => record.name));
  return `${names}`.padStart(20, '0') + `${sums}`.padStart(20, '0');
}
