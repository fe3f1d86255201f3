import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import type { RowIdentity } from '../core/identity.ts';
import { rowIdentity } from '../core/identity.ts';
import type { StatesDtype } from '../core/run-layout.ts';
import type { StoredLastState } from '../core/settings.ts';
import type { Verdict } from '../core/verdict.ts';
import type { Dataset, Row } from '../dataset/dataset.ts';
import type { Capture, Engine } from '../engine/engine.ts';
import type { FinalNorm } from '../format/norm.ts';
import { stateSlots } from '../format/states.ts';
import type { CommitRecord, JournalWriter } from '../ledger/ledger.ts';
import type { Store } from '../store/store.ts';
import { proveStored } from './prove.ts';

export interface SampleDeps {
  readonly dataset: Dataset;
  readonly store: Store;
  /** The target's, applied to the last hidden state where `lastState` wants it and the engine has not done so. */
  readonly norm: FinalNorm | null;
  /** How the run's files have the last hidden state. */
  readonly lastState: StoredLastState;
  readonly dtype: StatesDtype;
  readonly segment: string;
  now(): number;
}

/** One try of one row, from its ids to its durable record. Rejects with a `TidemarkError`; then nothing was committed. */
export async function extractSample(
  deps: SampleDeps,
  engine: Engine,
  journal: JournalWriter,
  index: number,
  attempt: number,
  signal: AbortSignal,
): Promise<CommitRecord> {
  const row = await readRow(deps.dataset, index);
  const identity = sameAsIndexed(deps.dataset, row);
  const capture = await engine.capture({ row: index, attempt, inputIds: row.inputIds }, signal);
  try {
    return await commitCapture(deps, journal, row, identity, capture, attempt);
  } finally {
    // Only now may the server's file go: the sample is on the disk, or this try is over.
    await capture.release();
  }
}

async function commitCapture(
  deps: SampleDeps,
  journal: JournalWriter,
  row: Row,
  identity: RowIdentity,
  capture: Capture,
  attempt: number,
): Promise<CommitRecord> {
  const { store } = deps;
  const states = {
    tokens: capture.tokens,
    layers: capture.layers.length,
    width: capture.width,
    dtype: capture.dtype,
    readRows: capture.readRows.bind(capture),
  };
  const norm = normFor(deps, capture);
  const tensors = store.layout.tensorsOf({
    inputIds: row.inputIds,
    lossMask: row.lossMask,
    width: capture.width,
    auxiliaryLayers: capture.layers.length - 1,
    dtype: deps.dtype,
    slots: (first, end) => stateSlots(states, { first, end, dtype: deps.dtype, norm }),
  });
  const facts = {
    row: row.index,
    identity: identity.identity,
    mask: identity.mask,
    tokens: identity.tokens,
    segment: deps.segment,
    attempt,
  };
  for (;;) {
    const outcome = await store.publish({ index: row.index, tensors, lease: journal.lease, attempt });
    if (outcome.kind === 'published') {
      const { bytes, crc32, records } = outcome.written;
      const record: CommitRecord = { kind: 'commit', ...facts, bytes, crc32, records: records.map((part) => part.crc32), at: deps.now() };
      await journal.append(record);
      return record;
    }
    const adopted = await settleOccupied(deps, journal, facts);
    if (adopted !== null) return adopted;
  }
}

/** @throws TidemarkError `engine-protocol`: a norm cannot be taken back */
function normFor({ lastState, norm }: SampleDeps, capture: Capture): FinalNorm | null {
  if (lastState === 'pre-norm' && capture.lastStateNorm === 'post-norm') {
    throw new TidemarkError(
      'engine-protocol',
      'the files of this run have the last state before the final norm, and the engine gives it behind it',
      {
        hint: 'use an engine that gives the state before the norm, as vLLM does',
      },
    );
  }
  return lastState === 'post-norm' && capture.lastStateNorm === 'pre-norm' ? norm : null;
}

/** A file stands where ours should go: a crash left it behind publication, or another writer was here. Proved, it is ours; else it is set aside. */
async function settleOccupied(
  deps: SampleDeps,
  journal: JournalWriter,
  facts: Pick<CommitRecord, 'row' | 'identity' | 'mask' | 'tokens' | 'segment' | 'attempt'>,
): Promise<CommitRecord | null> {
  const proof = await proveStored(deps.store, facts.row, facts);
  if (proof === null) return null;
  if (proof.ok) {
    await deps.store.settle(facts.row);
    const record: CommitRecord = { kind: 'adopt', ...facts, ...proof.value, mask: proof.value.mask ?? facts.mask, at: deps.now() };
    await journal.append(record);
    return record;
  }
  await setAside(deps.store, journal, facts.row, proof.verdict, deps.now());
  return null;
}

/** Record first, then move: a crash in between leaves a bad file that is still there and still seen. */
export async function setAside(store: Store, journal: JournalWriter, row: number, verdict: Verdict, at: number): Promise<void> {
  const to = await store.quarantinePath(row, verdict);
  await journal.append({ kind: 'set-aside', row, verdict: verdict.kind, reason: verdict.reason, to, at });
  await store.setAside(row, to, verdict);
}

/** A row that was good when it was indexed and cannot be read now says something about the file, and nothing about the row. */
async function readRow(dataset: Dataset, index: number): Promise<Row> {
  try {
    return await dataset.read(index);
  } catch (error) {
    if (!isTidemarkError(error, 'dataset') || dataset.table.at(index) === null) throw error;
    throw changed(dataset, index, error);
  }
}

function changed(dataset: Dataset, index: number, cause?: unknown): TidemarkError {
  return new TidemarkError(
    'run-mismatch',
    `row ${index} of ${dataset.path} is not the row that was indexed at the start: the file has changed under the run`,
    {
      where: dataset.path,
      hint: 'restore the dataset, then resume; no row was given up',
      cause,
    },
  );
}

/** Each row is hashed again as it is sent: a dataset that changes under a running extraction is noticed at that row. */
function sameAsIndexed(dataset: Dataset, row: Row): RowIdentity {
  const now = rowIdentity(row.inputIds, row.lossMask);
  const indexed = dataset.table.at(row.index);
  if (indexed?.identity !== now.identity || indexed.mask !== now.mask) {
    throw changed(dataset, row.index);
  }
  return now;
}
