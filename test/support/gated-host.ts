import { openSync, readFileSync, writeSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Host } from '../../src/host/host.ts';
import { type AroundStep, aroundMutations, type MutatingOp, type Mutation, mutatingOps } from './mutations.ts';

/**
 * For real processes under a real SIGKILL: says in a file what it is about to do, and kills itself where it is told to.
 * Nothing is cleaned up, no handler runs; what is left is what the kernel holds.
 */
const pathClasses = ['sample-temp', 'sample', 'ledger', 'lease', 'run-record', 'capture', 'other'] as const;

export type PathClass = (typeof pathClasses)[number];

export interface TraceRecord {
  /** Mutating operations so far in this process, this one counted. */
  readonly count: number;
  /** Of this class and operation, this one counted: the `n` of a gate. */
  readonly nth: number;
  readonly class: PathClass;
  readonly op: MutatingOp;
  /** `after` once the operation came back without an error. Others may be under way at the same time. */
  readonly phase: 'before' | 'after';
  readonly pid: number;
  /** The last part of the path. */
  readonly name: string;
}

export interface Gate {
  readonly class: PathClass;
  readonly op: MutatingOp;
  readonly nth: number;
  readonly when: 'before' | 'after' | 'mid';
}

const recordBytes = 512;

/** From the path alone (docs/on-disk.md). A folder has the class of what lies in it. */
export function pathClassOf(path: string): PathClass {
  const inMemory = /(?:^|\/)\.tidemark\/([^/]+)/.exec(path)?.[1];
  if (inMemory !== undefined) {
    if (inMemory === 'journal' || inMemory === 'ledger') return 'ledger';
    if (inMemory === 'leases') return 'lease';
    return inMemory === 'quarantine' ? 'other' : 'run-record';
  }
  const name = basename(path);
  if (/^rows_[^/]*$/.test(name)) return 'sample';
  if (/^rows_[^/]*$/.test(basename(dirname(path)))) return name.endsWith('.tmp') ? 'sample-temp' : 'sample';
  return /\.safetensors(\.lock)?$/.test(name) || /(?:^|\/)(captures?|staging)(?:\/|$)/.test(path) ? 'capture' : 'other';
}

/** `<class>:<op>:<n>[:before|after|mid]`, as in `sample:link:3:after`. */
export function parseGate(text: string): Gate {
  const [pathClass, op, nth, when = 'before', ...rest] = text.split(':');
  const gate = {
    class: pathClasses.find((one) => one === pathClass),
    op: mutatingOps.find((one) => one === op),
    when: (['before', 'after', 'mid'] as const).find((one) => one === when),
  };
  if (gate.class === undefined || gate.op === undefined || gate.when === undefined || !/^[1-9]\d*$/.test(nth ?? '') || rest.length > 0) {
    // A gate that never fires would make a crash test pass without a crash.
    throw new Error(`TIDEMARK_TEST_GATE is not <class>:<op>:<n>[:before|after|mid]: ${text}`);
  }
  return { class: gate.class, op: gate.op, nth: Number(nth), when: gate.when };
}

export interface GatedEnvironment {
  /** The file for the trace; made when it is not there. */
  readonly TIDEMARK_TEST_TRACE?: string | undefined;
  readonly TIDEMARK_TEST_GATE?: string | undefined;
}

/** `host` itself when the environment asks for nothing. */
export function gatedHost(host: Host, env: GatedEnvironment): Host {
  const trace = env.TIDEMARK_TEST_TRACE ? openSync(env.TIDEMARK_TEST_TRACE, 'w') : null;
  const gate = env.TIDEMARK_TEST_GATE ? parseGate(env.TIDEMARK_TEST_GATE) : null;
  if (trace === null && gate === null) return host;
  const counts = new Map<string, number>();
  let count = 0;

  function write(record: TraceRecord): void {
    // In place and of one size: a kill between two records leaves a whole one, and the page cache outlives the process.
    if (trace !== null) writeSync(trace, Buffer.from(`${JSON.stringify(record).padEnd(recordBytes - 1)}\n`), 0, recordBytes, 0);
  }

  const step: AroundStep = async (mutation, { whole, part }) => {
    const record = recordOf(mutation);
    write(record);
    const here = gate !== null && gate.class === record.class && gate.op === record.op && gate.nth === record.nth ? gate.when : null;
    if (here === 'before') die();
    if (here === 'mid') {
      await part?.(Math.floor((mutation.bytes ?? 0) / 2));
      die();
    }
    const result = await whole();
    write({ ...record, phase: 'after' });
    if (here === 'after') die();
    return result;
  };

  function recordOf(mutation: Mutation): TraceRecord {
    const pathClass = pathClassOf(mutation.path);
    const key = `${pathClass}:${mutation.op}`;
    const nth = (counts.get(key) ?? 0) + 1;
    counts.set(key, nth);
    count += 1;
    const name = basename(mutation.path)
      .replace(/[^ -~]/g, '?')
      .slice(-120);
    return { count, nth, class: pathClass, op: mutation.op, phase: 'before', pid: process.pid, name };
  }

  return { ...host, files: aroundMutations(host.files, step) };
}

function die(): never {
  process.kill(process.pid, 'SIGKILL');
  // The signal may reach another thread first; nothing more may happen on this one.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  throw new Error('the process outlived SIGKILL');
}

/** The last record; `null` when the process wrote none. */
export function readTrace(path: string): TraceRecord | null {
  const text = readFileSync(path, 'utf8').trim();
  return text === '' ? null : (JSON.parse(text) as TraceRecord);
}
