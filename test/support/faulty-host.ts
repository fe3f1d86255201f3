import { TidemarkError } from '../../src/core/errors.ts';
import { type ErrnoName, errnoError, storageError, syncError } from '../../src/host/errno.ts';
import type { FileStore, Host, ReadableFile, WritableFile } from '../../src/host/host.ts';
import { type AroundStep, aroundMutations, type MutatingOp, type Mutation } from './mutations.ts';

interface TraceEntry extends Mutation {
  /** Counted from 1 over all files. */
  readonly step: number;
}

/** The step of this number, or the `nth` (default first) step of this kind at a path that matches. */
type At = number | { readonly op?: MutatingOp; readonly path?: RegExp; readonly nth?: number };

export type Fault =
  /** The process dies at the step, `before` (default) or `after` it took effect. */
  | { readonly kind: 'stop'; readonly at: At; readonly when?: 'before' | 'after' }
  /**
   * The process dies inside the step: of a write `keepBytes` arrive (default half); of `makeDirectory` the folder is
   * made and not synced, where the files below can do that. Anything else has no inside and dies before.
   */
  | { readonly kind: 'tear'; readonly at: At; readonly keepBytes?: number }
  /** The step fails and the process lives. Of a failing write `keepBytes` (default 0) arrive. */
  | { readonly kind: 'fail'; readonly at: At; readonly error: ErrnoName | TidemarkError; readonly keepBytes?: number }
  /** The step says that it worked and does nothing: a write that was lost, a sync that was not one. */
  | { readonly kind: 'lie'; readonly at: At }
  /** One bit comes back wrong from every read (or the first `times`) that covers it. */
  | { readonly kind: 'flip'; readonly path: RegExp; readonly offset: number; readonly bit?: number; readonly times?: number }
  /** Reads that reach `fromOffset` (default 0) fail; at 0 so does opening. */
  | { readonly kind: 'unreadable'; readonly path: RegExp; readonly fromOffset?: number; readonly error?: ErrnoName };

export interface FaultPlan {
  /** Short for `{kind: 'stop', at}`. */
  readonly stopAt?: number;
  readonly faults?: readonly Fault[];
}

/** The process is gone. Not a `TidemarkError`, so that code which handles those does not handle this. */
export class SimulatedCrash extends Error {
  override readonly name = 'SimulatedCrash';
}

export interface FaultyHost extends Host {
  /** Every step that was tried, in the order they began. */
  readonly trace: readonly TraceEntry[];
  /** Whether a `stop` or `tear` happened, or `kill` was called. From then on every operation throws. */
  readonly dead: boolean;
  kill(): void;
}

type StepFault = Extract<Fault, { readonly at: At }>;
type ReadFault = Exclude<Fault, StepFault>;

export function faultyHost(host: Host, plan: FaultPlan = {}): FaultyHost {
  const faults: readonly Fault[] = [
    ...(plan.stopAt === undefined ? [] : [{ kind: 'stop', at: plan.stopAt } as const]),
    ...(plan.faults ?? []),
  ];
  const stepFaults = faults.filter((fault): fault is StepFault => 'at' in fault);
  const readFaults = faults.filter((fault): fault is ReadFault => !('at' in fault));
  const trace: TraceEntry[] = [];
  const matches = new Map<StepFault, number>();
  const flipped = new Map<ReadFault, number>();
  // A dead process's files are closed by the kernel.
  const opened: WritableFile[] = [];
  let dead = false;

  function alive(): void {
    if (dead) throw new SimulatedCrash('the process is dead');
  }

  /** Nothing may begin between the last effect and the death, so the death comes first. */
  async function die(entry: TraceEntry, lastEffect?: Promise<unknown>): Promise<never> {
    dead = true;
    await lastEffect?.catch(() => undefined);
    kill();
    throw new SimulatedCrash(`the process died at step ${entry.step}: ${entry.op} ${entry.path}`);
  }

  function kill(): void {
    dead = true;
    for (const file of opened) file.close().catch(() => undefined);
  }

  /** A result that arrives after the death is never seen. */
  async function living<T>(act: () => Promise<T>): Promise<T> {
    alive();
    const result = await act();
    alive();
    return result;
  }

  function faultAt(entry: TraceEntry): StepFault | null {
    let found: StepFault | null = null;
    for (const fault of stepFaults) {
      if (typeof fault.at === 'number') {
        if (fault.at === entry.step) found ??= fault;
        continue;
      }
      const { op, path, nth = 1 } = fault.at;
      if ((op !== undefined && op !== entry.op) || (path !== undefined && !path.test(entry.path))) continue;
      const count = (matches.get(fault) ?? 0) + 1;
      matches.set(fault, count);
      if (count === nth) found ??= fault;
    }
    return found;
  }

  const step: AroundStep = async (mutation, { whole, part, pretended }) => {
    alive();
    const entry = { step: trace.length + 1, ...mutation };
    trace.push(entry);
    const fault = faultAt(entry);
    if (fault === null) return living(whole);
    switch (fault.kind) {
      case 'stop':
        return die(entry, fault.when === 'after' ? whole() : undefined);
      case 'tear':
        return die(entry, part?.(fault.keepBytes ?? Math.floor((entry.bytes ?? 0) / 2)));
      case 'fail':
        if (entry.op === 'write') await part?.(fault.keepBytes ?? 0);
        throw failure(fault.error, entry);
      case 'lie':
        return pretended;
    }
  };

  function files(inner: FileStore): FileStore {
    const outer = aroundMutations({ ...inner, create }, step);
    async function create(path: string, mode: number): Promise<WritableFile> {
      const file = await inner.create(path, mode);
      opened.push(file);
      return file;
    }
    return {
      ...outer,
      list: (path) => living(() => inner.list(path)),
      stat: (path) => living(() => inner.stat(path)),
      realPath: (path) => living(() => inner.realPath(path)),
      space: (path) => living(() => inner.space(path)),
      async readSmall(path, mostBytes) {
        const bytes = await living(() => inner.readSmall(path, mostBytes));
        return bytes === null ? null : seen(path, 0, bytes);
      },
      async open(path) {
        const file = await living(() => inner.open(path));
        if (file === null) return null;
        seen(path, 0, new Uint8Array(0));
        return readable(path, file);
      },
      create: async (path, mode) => finalWhenFailed(await outer.create(path, mode)),
    };
  }

  function readable(path: string, file: ReadableFile): ReadableFile {
    return {
      size: file.size,
      stat: file.stat,
      read: async (offset, length) => seen(path, offset, await living(() => file.read(offset, length))),
      close: () => living(() => file.close()),
    };
  }

  /** What the reader gets to see of the bytes from `offset` on. */
  function seen(path: string, offset: number, bytes: Uint8Array): Uint8Array {
    for (const fault of readFaults) {
      if (!fault.path.test(path)) continue;
      if (fault.kind === 'unreadable') {
        const from = fault.fromOffset ?? 0;
        if (from === 0 || from < offset + bytes.length) throw storageError(errnoError(fault.error ?? 'EIO'), 'read', path);
        continue;
      }
      const at = fault.offset - offset;
      const byte = bytes[at];
      const times = flipped.get(fault) ?? 0;
      if (byte === undefined || times >= (fault.times ?? Number.POSITIVE_INFINITY)) continue;
      flipped.set(fault, times + 1);
      bytes[at] = byte ^ (1 << (fault.bit ?? 0));
    }
    return bytes;
  }

  return {
    files: files(host.files),
    http: { request: (request) => living(() => host.http.request(request)), close: () => host.http.close() },
    clock: {
      now: () => host.clock.now(),
      monotonicMs: () => host.clock.monotonicMs(),
      sleep: (ms, signal) => living(() => host.clock.sleep(ms, signal)),
    },
    machine: host.machine,
    randomBytes: (length) => host.randomBytes(length),
    trace,
    get dead() {
      return dead;
    },
    kill,
  };
}

/** A failed write or sync is final for the file, also when it was we who made it fail. */
function finalWhenFailed(file: WritableFile): WritableFile {
  let broken: unknown;
  const act = async (whole: () => Promise<void>) => {
    if (broken !== undefined) throw broken;
    try {
      await whole();
    } catch (error) {
      broken = error;
      throw error;
    }
  };
  return {
    write: (bytes) => act(() => file.write(bytes)),
    setMode: (mode) => act(() => file.setMode(mode)),
    sync: () => act(() => file.sync()),
    close: () => file.close(),
  };
}

function failure(error: ErrnoName | TidemarkError, entry: TraceEntry): TidemarkError {
  if (error instanceof TidemarkError) return error;
  const cause = errnoError(error);
  if (entry.op === 'sync' || entry.op === 'syncDirectory') return syncError(cause, entry.path);
  return storageError(cause, entry.op, entry.path);
}
