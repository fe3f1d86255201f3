import { z } from 'zod';
import { TidemarkError } from '../core/errors.ts';
import type { RandomAccess } from '../core/random-access.ts';
import { encodeLine, parseLines } from '../format/checked-lines.ts';
import type { FileReader, FileStore, WritableFile } from '../host/host.ts';
import type { GeneratedRow } from './conversation.ts';
import { partNumber, partPath } from './folder.ts';

export const PART_FORMAT = 'tidemark.answers/1';
const PIECE_BYTES = 4 * 1024 * 1024;
/** The longest line that a reader accepts, with its head: behind more unread bytes than these the tail is torn. */
const LINE_BYTES_MOST = 16 * 1024 * 1024 + 64;
/** `CCCCCCCC` and two spaces, and the line feed. */
const LINE_FIXED_BYTES = 11;

/** Where a record's line lies. */
export interface Place {
  readonly part: number;
  readonly offset: number;
  readonly bytes: number;
}

export type PartRecord =
  | { readonly kind: 'answer'; readonly row: GeneratedRow }
  | {
      readonly kind: 'failure';
      readonly id: string;
      readonly code: string;
      readonly message: string;
      readonly final: boolean;
      readonly at: number;
    }
  /** A person goes on without this prompt's answer. */
  | { readonly kind: 'accept'; readonly id: string }
  /** The output was published with these bytes. */
  | { readonly kind: 'merged'; readonly bytes: number; readonly sha256: string }
  | { readonly kind: 'close' };

const message = z.looseObject({ role: z.string(), content: z.string() });
const numbers = z.custom<readonly number[]>((value) => Array.isArray(value) && value.every((one) => typeof one === 'number'));
const recordSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('answer'),
    row: z.looseObject({
      id: z.string(),
      messages: z.array(message),
      input_ids: numbers,
      loss_mask: numbers,
      finish_reason: z.string(),
      turns: z.array(
        z.looseObject({
          finish_reason: z.string(),
          prompt_tokens: z.number(),
          completion_tokens: z.number(),
          retokenised: z.literal(true).exactOptional(),
        }),
      ),
      sampling: z.record(z.string(), z.unknown()),
    }),
  }),
  z.object({ kind: z.literal('failure'), id: z.string(), code: z.string(), message: z.string(), final: z.boolean(), at: z.number() }),
  z.object({ kind: z.literal('accept'), id: z.string() }),
  z.object({ kind: z.literal('merged'), bytes: z.number(), sha256: z.string() }),
  z.object({ kind: z.literal('close') }),
]);

/** The numbers of the parts that are there, ascending. */
export async function partNumbers(files: FileReader, folder: string): Promise<number[]> {
  const entries = (await files.list(folder)) ?? [];
  return entries.flatMap(({ name }) => partNumber(name) ?? []).sort((a, b) => a - b);
}

/**
 * The records of one part, in order, up to its torn tail if it has one. A part whose header is torn holds nothing.
 * Rejects with `format-refused` for another version.
 */
export async function* readPart(
  files: FileReader,
  folder: string,
  part: number,
): AsyncGenerator<{ readonly record: PartRecord; readonly place: Place }> {
  const path = partPath(folder, part);
  const file = await files.open(path);
  if (file === null) return;
  try {
    let header = true;
    for await (const { value, offset, bytes } of linesOf(file)) {
      if (header) {
        refuseOtherVersion(value, path);
        header = false;
        continue;
      }
      yield { record: recordOf(value, path), place: { part, offset, bytes } };
    }
  } finally {
    await file.close();
  }
}

interface Line {
  readonly value: unknown;
  readonly offset: number;
  readonly bytes: number;
}

async function* linesOf(file: RandomAccess): AsyncGenerator<Line> {
  let held: Uint8Array = new Uint8Array(0);
  for (let offset = 0; offset < file.size; offset += PIECE_BYTES) {
    const piece = await file.read(offset, Math.min(PIECE_BYTES, file.size - offset));
    const bytes = held.length === 0 ? piece : Buffer.concat([held, piece]);
    const start = offset - held.length;
    const { values, validBytes } = parseLines(bytes);
    let at = 0;
    for (const value of values) {
      const length = lineBytes(bytes, at);
      yield { value, offset: start + at, bytes: length };
      at += length;
    }
    held = bytes.subarray(validBytes);
    if (held.length > LINE_BYTES_MOST) return;
  }
}

/** Of a line that has been found whole. */
function lineBytes(bytes: Uint8Array, at: number): number {
  const space = bytes.indexOf(0x20, at);
  return space - at + LINE_FIXED_BYTES + Number(Buffer.from(bytes.subarray(at, space)).toString('latin1'));
}

function recordOf(value: unknown, path: string): PartRecord {
  const parsed = recordSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new TidemarkError('format-refused', `${path} holds a record that this tidemark does not know: ${parsed.error.issues[0]?.message}`, {
    where: path,
    hint: 'continue with the version that wrote it',
  });
}

function refuseOtherVersion(header: unknown, path: string): void {
  const format: unknown = typeof header === 'object' && header !== null && 'format' in header ? header.format : undefined;
  if (format === PART_FORMAT) return;
  throw new TidemarkError(
    'format-refused',
    `${path} is of format ${JSON.stringify(format) ?? 'unknown'}, and this tidemark reads ${PART_FORMAT}`,
    {
      where: path,
      hint: 'continue with the version that wrote it',
    },
  );
}

/** Whether its writer left a part in good order. Reads its end alone. */
export async function endsClosed(files: FileReader, path: string): Promise<boolean> {
  const last = encodeLine({ kind: 'close' });
  const file = await files.open(path);
  if (file === null) return false;
  try {
    if (file.size < last.length) return false;
    return Buffer.compare(await file.read(file.size - last.length, last.length), last) === 0;
  } finally {
    await file.close();
  }
}

/** The row of an answer, read again at its place and checked again. */
export async function readAnswer(file: RandomAccess, place: Place, path: string): Promise<GeneratedRow> {
  const { values } = parseLines(await file.read(place.offset, place.bytes));
  const record = values.length === 1 ? recordOf(values[0], path) : null;
  if (record?.kind === 'answer') return record.row;
  throw new TidemarkError('storage-failed', `${path} does not hold at byte ${place.offset} what it held when it was opened`, {
    where: path,
    hint: 'the disk or another process changed it: look at the kernel log, then start again',
  });
}

interface Waiting {
  readonly line: Uint8Array;
  readonly resolve: (place: Place) => void;
  readonly reject: (error: unknown) => void;
}

/** The part of one start. Records that wait share one write and one fsync; none is acknowledged before it is durable. */
export class PartWriter {
  readonly #file: WritableFile;
  readonly #part: number;
  #offset: number;
  #waiting: Waiting[] = [];
  #flushing: Promise<void> | null = null;
  #failure: { readonly error: unknown } | null = null;

  private constructor(file: WritableFile, part: number, offset: number) {
    this.#file = file;
    this.#part = part;
    this.#offset = offset;
  }

  static async create(files: FileStore, folder: string, part: number): Promise<PartWriter> {
    const file = await files.create(partPath(folder, part), 0o644);
    const header = encodeLine({ format: PART_FORMAT, part });
    try {
      await file.write(header);
      await file.sync();
      await files.syncDirectory(folder);
    } catch (error) {
      await file.close();
      throw error;
    }
    return new PartWriter(file, part, header.length);
  }

  append(record: PartRecord): Promise<Place> {
    // After one failed write or fsync nobody can say what the file holds: every later record fails too.
    if (this.#failure !== null) return Promise.reject(this.#failure.error);
    const line = encodeLine(record);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ line, resolve, reject });
      this.#flushing ??= this.#flush();
    });
  }

  /** Lets go in good order. After a failure there is no good order, and the file is only closed. */
  async close(): Promise<void> {
    try {
      if (this.#failure === null) await this.append({ kind: 'close' });
    } finally {
      await this.#file.close();
    }
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      try {
        if (this.#failure !== null) throw this.#failure.error;
        await this.#file.write(Buffer.concat(batch.map(({ line }) => line)));
        await this.#file.sync();
        for (const { line, resolve } of batch) {
          resolve({ part: this.#part, offset: this.#offset, bytes: line.length });
          this.#offset += line.length;
        }
      } catch (error) {
        this.#failure = { error };
        for (const { reject } of batch) reject(error);
      }
    }
    this.#flushing = null;
  }
}
