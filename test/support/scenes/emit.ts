import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RandomAccess } from '../../../src/core/random-access.ts';

export interface EmitFile {
  readonly out: string;
  readonly kind: 'torch' | 'safetensors';
  /** JSON, with tensors as emit.py's header describes them. */
  readonly object: unknown;
  readonly stem?: string;
  readonly layout?: string;
  readonly crc?: boolean;
  readonly align?: number;
  readonly metadata?: Readonly<Record<string, string>>;
}

const HERE = fileURLToPath(new URL('.', import.meta.url));

function python(script: string, args: readonly string[], input = ''): void {
  const done = spawnSync('python3', ['-B', join(HERE, script), ...args], { input, encoding: 'utf8', maxBuffer: 1 << 28 });
  if (done.error !== undefined) throw new Error(`python3 did not start (Debian package python3): ${done.error.message}`);
  if (done.status !== 0) throw new Error(`${script} failed:\n${done.stderr}`);
}

/** Runs `use` with a new folder that is gone afterwards. */
export async function inFolder<T>(use: (folder: string) => T | Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'tidemark-format-'));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Files as the reference writer makes them, by the name in `out`. */
export function emit(files: readonly EmitFile[]): Promise<Map<string, Buffer>> {
  return inFolder((folder) => {
    emitInto(folder, files);
    return new Map(files.map((file) => [file.out, readFileSync(join(folder, file.out))]));
  });
}

export function emitInto(folder: string, files: readonly EmitFile[]): void {
  python('emit.py', [folder], JSON.stringify(files));
}

export interface Tear {
  readonly how: string;
  /** The cheapest check that must notice. */
  readonly seen_by: 'size' | 'structure' | 'crc' | 'content' | 'none';
  readonly bytes: Buffer;
}

/** Every kind of damage of one good file, as tear.py makes it. `other` is the file whose end stale-tail appends. */
export function tears(name: string, good: Uint8Array, seed: number, other?: Uint8Array): Promise<Tear[]> {
  return inFolder((folder) => {
    writeFileSync(join(folder, name), good);
    const out = join(folder, 'torn');
    const args = [join(folder, name), out, '--all', '--seed', `${seed}`];
    if (other !== undefined) {
      writeFileSync(join(folder, 'other'), other);
      args.push('--other', join(folder, 'other'));
    }
    python('tear.py', args);
    const made = JSON.parse(readFileSync(join(out, 'tears.json'), 'utf8')) as { file: string; how: string; seen_by: Tear['seen_by'] }[];
    if (readdirSync(out).length !== made.length + 1) throw new Error('tears.json names every file');
    return made.map(({ file, how, seen_by }) => ({ how, seen_by, bytes: readFileSync(join(out, file)) }));
  });
}

/** A file in memory that checks every read against its bounds and remembers the largest. */
export function memoryFile(bytes: Uint8Array): RandomAccess & { readonly seen: { reads: number; largest: number; total: number } } {
  const seen = { reads: 0, largest: 0, total: 0 };
  return {
    size: bytes.length,
    seen,
    read(offset, length) {
      if (!Number.isSafeInteger(offset) || !Number.isSafeInteger(length) || offset < 0 || length < 0 || offset + length > bytes.length) {
        return Promise.reject(new RangeError(`read of ${length} bytes at ${offset} of ${bytes.length}`));
      }
      seen.reads += 1;
      seen.total += length;
      seen.largest = Math.max(seen.largest, length);
      return Promise.resolve(bytes.subarray(offset, offset + length));
    },
  };
}

/** A small generator of repeatable numbers (mulberry32): a failing seed is the whole report. */
export function seeded(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
