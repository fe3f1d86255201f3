import { createHash } from 'node:crypto';
import { dirname } from 'node:path';
import type { Host, ReadableFile } from '../host/host.ts';
import type { Answers } from './answers.ts';
import { partPath } from './folder.ts';
import { readAnswer } from './parts.ts';

const CHUNK_BYTES = 4 * 1024 * 1024;

export interface MergeOptions {
  readonly folder: string;
  readonly output: string;
  /** Of our lock: temporary names carry it. */
  readonly number: number;
  /** Prompts in the order of the output. */
  readonly count: number;
  readonly signal: AbortSignal;
}

/**
 * Publishes all answers in the order of the prompts: temporary file, fsync, rename, fsync of the folder. Readers see no output or the whole one.
 * The same answers give the same bytes, however often the work was interrupted.
 */
export async function mergeAnswers(
  host: Host,
  answers: Answers,
  options: MergeOptions,
): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const { folder, output, number, count, signal } = options;
  const temporary = temporaryName(output, number);
  const parts = new Map<number, ReadableFile>();
  const hash = createHash('sha256');
  let total = 0;
  const file = await host.files.create(temporary, 0o644);
  try {
    let waiting: Uint8Array[] = [];
    let waitingBytes = 0;
    const flush = async (): Promise<void> => {
      const chunk = Buffer.concat(waiting);
      hash.update(chunk);
      total += chunk.length;
      waiting = [];
      waitingBytes = 0;
      await file.write(chunk);
    };
    for (let prompt = 0; prompt < count; prompt += 1) {
      if (answers.stateAt(prompt) !== 'answered') continue;
      const place = answers.placeAt(prompt);
      const path = partPath(folder, place.part);
      const row = await readAnswer(await opened(host, parts, path, place.part), place, path);
      const line = Buffer.from(`${JSON.stringify(row)}\n`, 'utf8');
      waiting.push(line);
      waitingBytes += line.length;
      if (waitingBytes >= CHUNK_BYTES) {
        signal.throwIfAborted();
        await flush();
      }
    }
    await flush();
    await file.sync();
  } catch (error) {
    await file.close();
    await host.files.unlink(temporary);
    throw error;
  } finally {
    await Promise.all([...parts.values()].map((part) => part.close()));
  }
  await file.close();
  await host.files.rename(temporary, output);
  await host.files.syncDirectory(dirname(output));
  return { bytes: total, sha256: hash.digest('hex') };
}

/** What merges that were killed left behind. */
export async function removeTemporaries(host: Host, output: string, numbers: readonly number[]): Promise<void> {
  for (const number of numbers) await host.files.unlink(temporaryName(output, number));
}

function temporaryName(output: string, number: number): string {
  return `${output}.${number}.tmp`;
}

async function opened(host: Host, parts: Map<number, ReadableFile>, path: string, part: number): Promise<ReadableFile> {
  const known = parts.get(part);
  if (known !== undefined) return known;
  const file = await host.files.open(path);
  if (file === null) throw new Error(`assertion failed: ${path} was there when its answers were read`);
  parts.set(part, file);
  return file;
}
