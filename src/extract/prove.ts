import { isTidemarkError } from '../core/errors.ts';
import { identityOf, maskDigestOf } from '../core/identity.ts';
import type { Verdict } from '../core/verdict.ts';
import type { Damage } from '../format/tensors.ts';
import type { Store, StoredSample } from '../store/store.ts';

export type Proof =
  | { readonly ok: true; readonly value: { readonly bytes: number; readonly crc32: number; readonly records: readonly number[] } }
  | { readonly ok: false; readonly verdict: Verdict };

/**
 * Proves the file of a row that no journal has recorded: structure, ids, mask, and every byte. Only what
 * passes all of it may be recorded as ours. Null when no file is there.
 */
export async function proveStored(
  store: Store,
  index: number,
  row: { readonly identity: string; readonly mask: string; readonly tokens: number },
): Promise<Proof | null> {
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

async function proveOpened(
  store: Store,
  sample: StoredSample,
  row: { readonly identity: string; readonly mask: string; readonly tokens: number },
): Promise<Proof> {
  const misfit = store.layout.misfit(sample.tensors, { tokens: row.tokens, width: null, auxiliaryLayers: null });
  if (misfit !== null) return { ok: false, verdict: { kind: 'poisoned', reason: 'shape', detail: misfit } };
  const ids = await sample.readIds();
  if (!ids.ok) return { ok: false, verdict: verdictOf(ids.damage) };
  const sameIds = identityOf(ids.value.inputIds) === row.identity;
  const sameMask = ids.value.lossMask === null || maskDigestOf(ids.value.lossMask) === row.mask;
  if (!sameIds || !sameMask)
    return { ok: false, verdict: { kind: 'drifted', reason: 'other-row', detail: 'its ids or mask are not those of its row' } };
  const whole = await sample.checkBytes();
  if (!whole.ok) return { ok: false, verdict: verdictOf(whole.damage) };
  return { ok: true, value: { bytes: sample.source.size, crc32: whole.crc32, records: sample.records.map((record) => record.crc32) } };
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
