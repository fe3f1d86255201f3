import { isTidemarkError, messageOf, TidemarkError } from '../core/errors.ts';
import type { TensorInfo } from '../format/tensors.ts';
import type { FileStat, Host, ReadableFile } from '../host/host.ts';
import { expectForm, firstOtherId, firstUnwrittenRow, readForm, type StatesForm, tailIsZero } from './staged-form.ts';
import { isNamedAfter, lockOf, removeStaged } from './staged-path.ts';

/** float32, the widest that an engine hands over. */
const WIDEST_STATE_BYTES = 4;

export interface StagedWait {
  /** From `resolveStaged`: it may be read and, when it is ours, deleted. */
  readonly path: string;
  readonly requestId: string;
  readonly inputIds: Uint32Array;
  readonly form: StatesForm;
  /** On the monotonic clock. */
  readonly deadlineMs: number;
  /** An incomplete file that did not change for so long has lost its writer. */
  readonly settleMs: number;
}

export interface StagedStates {
  readonly file: ReadableFile;
  readonly tensor: TensorInfo;
}

/** What one look at the name found. `mark` tells two looks apart; it is null while nothing is there. */
type Look =
  | { readonly kind: 'whole'; readonly states: StagedStates }
  | { readonly kind: 'incomplete'; readonly why: string; readonly mark: string | null; readonly patienceMs: number }
  | { readonly kind: 'refused'; readonly error: TidemarkError; readonly ours: boolean };

const firstDelayMs = 2;
const delayMsMost = 200;
/** A structure that no writer passes through is looked at again once, not until the deadline. */
const refusedPatienceMs = 1_000;

/**
 * Waits until the file that the server announced is complete, and opens it. The server answers before it writes, and
 * each safetensors version writes in another way: in order, full length first and then the bytes, or by rename. A free lock
 * proves nothing (a failed write frees it too), and Node has no `flock`, so what counts is the content: whole
 * structure, our ids, and a last row that is not zero.
 *
 * When this rejects, the staged files are deleted if they are surely ours: a regular file with our request id in its name.
 * A server that does not use the id names its files as it likes, and then only the ids inside tell whose they are.
 */
export async function takeStaged(host: Host, wait: StagedWait, signal?: AbortSignal): Promise<StagedStates> {
  let ours = isNamedAfter(wait.path, wait.requestId);
  try {
    const look = await poll(host, wait, signal);
    if (look.kind === 'whole') return look.states;
    ours &&= look.ours;
    throw look.error;
  } catch (error) {
    if (ours) await removeAfter(host, wait.path, error);
    throw error;
  }
}

async function poll(host: Host, wait: StagedWait, signal: AbortSignal | undefined): Promise<Exclude<Look, { kind: 'incomplete' }>> {
  const { clock } = host;
  const startedMs = clock.monotonicMs();
  let delayMs = firstDelayMs;
  let mark: string | null = null;
  let unchangedSinceMs = startedMs;
  for (;;) {
    if (signal?.aborted) throw interrupted(wait.path, signal.reason);
    const look = await lookAt(host, wait);
    if (look.kind !== 'incomplete') return look;
    const nowMs = clock.monotonicMs();
    if (look.mark !== mark) {
      mark = look.mark;
      unchangedSinceMs = nowMs;
    }
    const settled = mark !== null && nowMs - unchangedSinceMs >= look.patienceMs;
    const leftMs = wait.deadlineMs - nowMs;
    if (settled || leftMs <= 0) throw await incomplete(host, wait, look, nowMs - startedMs, settled);
    await clock.sleep(Math.min(delayMs, Math.max(leftMs, 1)), signal).catch((error: unknown) => {
      throw signal?.aborted ? interrupted(wait.path, signal.reason) : error;
    });
    delayMs = Math.min(delayMs * 1.5, delayMsMost);
  }
}

async function lookAt(host: Host, wait: StagedWait): Promise<Look> {
  const { path } = wait;
  const stat = await host.files.stat(path);
  if (stat === null) return { kind: 'incomplete', why: 'it never appeared', mark: null, patienceMs: wait.settleMs };
  if (stat.kind !== 'file') return { kind: 'refused', ours: false, error: notRegular(path, stat.kind) };
  const file = await host.files.open(path).catch((error: unknown) => {
    throw deniedOr(error, path, stat);
  });
  if (file === null) return { kind: 'incomplete', why: 'it never appeared', mark: null, patienceMs: wait.settleMs };
  let keep = false;
  try {
    const look = await inspect(file, wait).catch(async (error: unknown) => {
      // A writer that begins anew cuts the file below our feet; what a read then says is not the machine's failure.
      if (await hasChanged(host, path, file.stat)) return null;
      throw error;
    });
    if (look !== null && look.kind !== 'whole') return look;
    // Nobody may be writing to what we are about to copy.
    if (look === null || (await hasChanged(host, path, file.stat))) {
      return { kind: 'incomplete', why: 'it was still changing', mark: null, patienceMs: wait.settleMs };
    }
    keep = true;
    return look;
  } finally {
    if (!keep) await file.close();
  }
}

async function inspect(file: ReadableFile, wait: StagedWait): Promise<Look> {
  const incompleteBecause = (why: string, patienceMs = wait.settleMs): Look => ({
    kind: 'incomplete',
    why,
    mark: markOf(file.stat),
    patienceMs,
  });
  const read = await readForm(file);
  if (!read.ok) {
    const { kind, detail } = read.damage;
    return incompleteBecause(
      `${kind === 'torn' ? 'it is incomplete' : 'it is not a file that safetensors writes'}: ${detail}`,
      kind === 'torn' ? wait.settleMs : Math.min(refusedPatienceMs, wait.settleMs),
    );
  }
  const { states, tokenIds } = expectForm(read.value, wait.form, wait.inputIds.length, wait.path);
  const other = await firstOtherId(file, tokenIds, wait.inputIds);
  if (other !== null) {
    // Ids lie before the states: zeros up to the end are a file whose length was set before its bytes came.
    if (other.zeroFromThere) return incompleteBecause(`its token_ids were never written from position ${other.at}`);
    const error = new TidemarkError(
      'capture-bad',
      `the stored ids differ from those sent: position ${other.at} holds ${other.found}, sent was ${wait.inputIds[other.at]}`,
      { where: wait.path, hint: 'restart the server if this goes on: it gives the states of one request to another', retry: 'later' },
    );
    return { kind: 'refused', ours: true, error };
  }
  if (await tailIsZero(file, states)) return incompleteBecause('its last states are zero');
  return { kind: 'whole', states: { file, tensor: states } };
}

async function incomplete(
  host: Host,
  wait: StagedWait,
  look: Look & { kind: 'incomplete' },
  waitedMs: number,
  settled: boolean,
): Promise<TidemarkError> {
  const { path } = wait;
  const waited = `after ${(waitedMs / 1000).toFixed(1)} s${settled ? ', unchanged for the last of them' : ''}`;
  const lock = (await host.files.stat(lockOf(path))) === null ? 'there is no .lock beside it' : 'its .lock is there';
  const why = (await unwrittenRows(host, wait)) ?? look.why;
  const full = await fullStaging(host, wait, why);
  if (full !== null) return full;
  const hint =
    look.mark === null
      ? "grep 'Hidden-states write failed' in the server log; df -h and ls -ld the staging folder, as the server sees it"
      : "grep 'Hidden-states write failed' in the server log, and look whether the staging volume is full: df -h";
  return new TidemarkError('capture-bad', `the server announced its states and did not deliver them whole: ${why} (${waited}; ${lock})`, {
    where: path,
    hint,
    retry: 'later',
  });
}

/** A full staging volume is no fault of the row: every row would fail on it, and none after it has room again. */
async function fullStaging(host: Host, wait: StagedWait, why: string): Promise<TidemarkError | null> {
  const space = await host.files.space(wait.path).catch(() => null);
  if (space === null) return null;
  const needed = wait.inputIds.length * wait.form.layers * (wait.form.width ?? 1) * WIDEST_STATE_BYTES;
  // The server's torn write is gone by now, and others are in flight: room for a few samples is no room.
  if (space.freeBytes >= 4 * needed && space.freeInodes > 0) return null;
  const folder = wait.path.slice(0, wait.path.lastIndexOf('/'));
  const left = space.freeInodes > 0 ? `${space.freeBytes} bytes are free there, one sample may need ${needed}` : 'it has no free inode';
  return new TidemarkError(
    'storage-full',
    `the engine's staging folder is full (${left}); the server's file did not arrive whole: ${why}`,
    {
      where: folder,
      hint: `df -h ${folder}; make room there, then resume; what killed drivers left is removed by tidemark purge`,
      retry: 'later',
    },
  );
}

/** For the message: from which row on the states are zero, when the structure is whole. */
async function unwrittenRows(host: Host, wait: StagedWait): Promise<string | null> {
  const file = await host.files.open(wait.path).catch(() => null);
  if (file === null) return null;
  try {
    const read = await readForm(file);
    const states = read.ok ? read.value.get('hidden_states') : undefined;
    if (states === undefined || !(await tailIsZero(file, states))) return null;
    const row = await firstUnwrittenRow(file, states);
    return `its states were never written from row ${row} of ${states.shape[0]} on (zeros up to the end)`;
  } catch {
    return null;
  } finally {
    await file.close();
  }
}

/** Whether the name now has another file, or the file another length or time, than when it was opened. */
export async function hasChanged(host: Host, path: string, opened: FileStat): Promise<boolean> {
  const now = await host.files.stat(path);
  return now === null || markOf(now) !== markOf(opened);
}

function notRegular(path: string, kind: FileStat['kind']): TidemarkError {
  const what = kind === 'other' ? 'a device, pipe or socket' : `a ${kind}`;
  return new TidemarkError('engine-protocol', `refused the path that the server named: it is ${what}; it was neither read nor deleted`, {
    where: path,
    hint: 'this server must not be trusted with paths; look at what answers at its address',
  });
}

function markOf(stat: FileStat): string {
  return `${stat.device}:${stat.inode}:${stat.bytes}:${stat.modifiedMs}`;
}

/** safetensors 0.8 writes with mode 0600, which another user than the server's cannot read. */
function deniedOr(error: unknown, path: string, stat: FileStat): unknown {
  if (!isTidemarkError(error, 'storage-denied')) return error;
  const mode = stat.mode.toString(8).padStart(4, '0');
  return new TidemarkError('engine-protocol', `may not read the file that the server staged (mode ${mode}): ${error.message}`, {
    where: path,
    hint: 'run tidemark as the user that runs the server: safetensors 0.8 and later write with mode 0600',
    cause: error,
  });
}

async function removeAfter(host: Host, path: string, error: unknown): Promise<void> {
  // The first failure is the one to report; a leftover is listed by the next survey of the staging folder.
  await removeStaged(host.files, path).catch((second: unknown) => {
    if (error instanceof Error && error.cause === undefined) error.cause = `and its staged files were not deleted: ${messageOf(second)}`;
  });
}

function interrupted(path: string, cause: unknown): TidemarkError {
  return new TidemarkError('interrupted', 'stopped waiting for the staged states', { where: path, cause });
}
