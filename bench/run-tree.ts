import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

const SAMPLE_MS = 100;
const PAGE_BYTES = 4096;
const TICKS_PER_SECOND = 100;

/** What a program and all of its children cost. */
export interface Cost {
  readonly seconds: number;
  /** Of all processes of the tree together, at the fullest moment seen: looked at ten times a second, and shared pages count for each. */
  readonly peakBytes: number;
  /** Everything that they read by system calls, from caches too: their own code, the dataset, and the files. */
  readonly readBytes: number;
  /** Processor seconds. */
  readonly processorSeconds: number;
  readonly stdout: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly keepOutput?: boolean;
}

/** Runs a program to its end. A survey that finds damage exits with 3 or 4; only another failure is one. */
export async function runTree(file: string, argv: readonly string[], options: RunOptions = {}): Promise<Cost> {
  const before = own();
  const lookedBefore = lookedBytes;
  const began = performance.now();
  const child = spawn(file, [...argv], {
    env: { ...process.env, ...options.env },
    stdio: ['ignore', options.keepOutput === true ? 'pipe' : 'ignore', 'pipe'],
  });
  let peakBytes = 0;
  const timer = setInterval(() => {
    if (child.pid !== undefined) peakBytes = Math.max(peakBytes, residentBytes(child.pid));
  }, SAMPLE_MS);
  const pieces: Buffer[] = [];
  let stderr = '';
  child.stdout?.on('data', (piece: Buffer) => pieces.push(piece));
  child.stderr?.on('data', (piece: Buffer) => {
    stderr = (stderr + piece.toString('utf8')).slice(-2000);
  });
  const code = await new Promise<number | null>((done, failed) => {
    child.once('error', failed);
    child.once('close', done);
  }).finally(() => clearInterval(timer));
  const seconds = (performance.now() - began) / 1000;
  if (code !== 0 && code !== 3 && code !== 4) throw new Error(`${file} ${argv.slice(0, 3).join(' ')} ended with ${code}: ${stderr}`);
  const after = own();
  const stdout = Buffer.concat(pieces).toString('utf8');
  // What a process and the children that it waited for have read is added to their parent's account when it waits for them: to ours.
  const readBytes = Math.max(0, after.readBytes - before.readBytes - stdout.length - (lookedBytes - lookedBefore));
  return { seconds, peakBytes, readBytes, processorSeconds: after.childSeconds - before.childSeconds, stdout };
}

/** What the looks themselves have read so far. */
let lookedBytes = 0;

function look(path: string): string {
  const text = readFileSync(path, 'latin1');
  lookedBytes += text.length;
  return text;
}

function own(): { readonly readBytes: number; readonly childSeconds: number } {
  const io = /^rchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'latin1'))?.[1];
  const fields = fieldsOf(readFileSync('/proc/self/stat', 'latin1'));
  return { readBytes: Number(io), childSeconds: (Number(fields[13]) + Number(fields[14])) / TICKS_PER_SECOND };
}

/** From field 3 on: a command's name may hold anything up to the last parenthesis. */
function fieldsOf(stat: string): readonly string[] {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

function residentBytes(root: number): number {
  const found = new Map<number, { readonly parent: number; readonly bytes: number }>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const fields = fieldsOf(look(`/proc/${name}/stat`));
      found.set(Number(name), { parent: Number(fields[1]), bytes: Number(fields[21]) * PAGE_BYTES });
    } catch {
      // It ended between the listing and the look.
    }
  }
  let sum = 0;
  for (const [pid, { bytes }] of found) {
    for (let at: number | undefined = pid; at !== undefined && at > 1; at = found.get(at)?.parent) {
      if (at !== root) continue;
      sum += bytes;
      break;
    }
  }
  return sum;
}

/** Whether the kernel's caches can be dropped here: only root may. */
export function canDropCaches(): boolean {
  try {
    dropCaches();
    return true;
  } catch {
    return false;
  }
}

export function dropCaches(): void {
  writeFileSync('/proc/sys/vm/drop_caches', '3');
}
