import { isTidemarkError } from '../core/errors.ts';
import { identityOf, maskDigestOf, strippedLength } from '../core/identity.ts';
import type { Verdict } from '../core/verdict.ts';
import type { Damage } from '../format/tensors.ts';
import type { CommitRecord } from '../ledger/ledger.ts';
import type { Store, StoredSample } from '../store/store.ts';

export type Proof =
  /** `mask` is the file's own; null where its layout keeps none. */
  | { readonly ok: true; readonly value: Pick<CommitRecord, 'bytes' | 'crc32' | 'records'> & { readonly mask: string | null } }
  | { readonly ok: false; readonly verdict: Verdict };

/** What a file must hold to be a row's. */
export interface RowToProve {
  readonly identity: string;
  readonly tokens: number;
  /** null accepts the file's own mask: a dataset of ids alone says nothing about masks. */
  readonly mask: string | null;
}

/**
 * Proves the file of a row that no journal has recorded: structure, ids, mask, and every byte. Only what
 * passes all of it may be recorded as ours. Null when no file is there.
 */
export async function proveStored(store: Store, index: number, row: RowToProve): Promise<Proof | null> {
  const opened = await store.open(index);
  if (opened === null) return null;
  if (!opened.ok) return { ok: false, verdict: verdictOf(opened.damage) };
  const { sample } = opened;
  try {
    return await proveOpened(store, sample, row);
  } catch (error) {
    // A file of ours whose records cannot be read is no reason to stop a run: it is set aside and made again.
    if (!isTidemarkError(error, 'storage-failed')) throw error;
    return { ok: false, verdict: { kind: 'unreadable', reason: 'io-error', detail: error.message } };
  } finally {
    await sample.close();
  }
}

async function proveOpened(store: Store, sample: StoredSample, row: RowToProve): Promise<Proof> {
  const misfit = store.layout.misfit(sample.tensors, { tokens: row.tokens, width: null, auxiliaryLayers: null });
  if (misfit !== null) return { ok: false, verdict: { kind: 'poisoned', reason: 'shape', detail: misfit } };
  const read = await sample.readIds();
  if (!read.ok) return { ok: false, verdict: verdictOf(read.damage) };
  const { inputIds, lossMask } = read.value;
  // SpecForge's own files carry the right padding of their batch: the row's ids, then pad ids under mask 0.
  const length =
    lossMask === null || inputIds.length === row.tokens ? inputIds.length : Math.max(row.tokens, strippedLength(inputIds, lossMask));
  const mask = lossMask === null ? null : maskDigestOf(lossMask.subarray(0, length));
  if (identityOf(inputIds.subarray(0, length)) !== row.identity || (row.mask !== null && mask !== null && mask !== row.mask)) {
    return { ok: false, verdict: { kind: 'drifted', reason: 'other-row', detail: 'its ids or mask are not those of its row' } };
  }
  const whole = await sample.checkBytes();
  if (!whole.ok) return { ok: false, verdict: verdictOf(whole.damage) };
  return {
    ok: true,
    value: { bytes: sample.stat.bytes, crc32: whole.crc32, records: sample.records.map((record) => record.crc32), mask },
  };
}

function verdictOf(damage: Damage): Verdict {
  if (damage.kind === 'corrupt') return { kind: 'corrupt', reason: 'checksum', detail: damage.detail };
  switch (damage.reason) {
    case 'empty':
    case 'truncated':
    case 'zero-filled':
    case 'trailing-bytes':
      return { kind: 'torn', reason: damage.reason, detail: damage.detail };
    default:
      return { kind: 'torn', reason: 'structure', detail: damage.detail };
  }
}
