import { createHash } from 'node:crypto';
import { type Guard, refusalOf } from '../assess/gather-guard.ts';
import { messageOf } from '../core/errors.ts';
import type { FileReader } from '../host/host.ts';

const LIMIT_MS = 10_000;
const PIECE_BYTES = 4 * 1024 * 1024;

/** Reads for evidence: each call is bounded in time, and a refusal is an answer. */
export interface EvidenceReader {
  readonly files: FileReader;
  readonly guard: Guard;
}

export type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly why: string };

/** What the machine refuses comes back as the reason; trouble that is no refusal is thrown. */
export async function tryRead<T>(reader: EvidenceReader, what: string, read: () => Promise<T>, limitMs = LIMIT_MS): Promise<Read<T>> {
  try {
    return { ok: true, value: await reader.guard.run(what, limitMs, read) };
  } catch (error) {
    if (refusalOf(error) === null) throw error;
    return { ok: false, why: messageOf(error) };
  }
}

export interface Tail {
  readonly text: string;
  /** Of the whole file. */
  readonly bytes: number;
  /** Whether the text begins at the file's beginning. */
  readonly whole: boolean;
}

/** A file's last bytes as text, from the first whole line on; null when nothing is there. */
export async function tailOf(files: FileReader, path: string, mostBytes: number): Promise<Tail | null> {
  const file = await files.open(path);
  if (file === null) return null;
  try {
    const length = Math.min(mostBytes, file.size);
    const text = Buffer.from(await file.read(file.size - length, length)).toString('utf8');
    const whole = length === file.size;
    return { text: whole ? text : text.slice(text.indexOf('\n') + 1), bytes: file.size, whole };
  } finally {
    await file.close();
  }
}

/** SHA-256 of a whole file; null when nothing is there. */
export async function digestOf(files: FileReader, path: string): Promise<string | null> {
  const file = await files.open(path);
  if (file === null) return null;
  try {
    const hash = createHash('sha256');
    for (let at = 0; at < file.size; at += PIECE_BYTES) hash.update(await file.read(at, Math.min(PIECE_BYTES, file.size - at)));
    return hash.digest('hex');
  } finally {
    await file.close();
  }
}
