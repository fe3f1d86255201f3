import { createHash } from 'node:crypto';
import { TidemarkError } from '../core/errors.ts';
import type { FileReader } from '../host/host.ts';
import type { Message, Prompt, Prompts, RowProblem } from './dataset.ts';
import { LineIndex, type ParsedLine, type Place } from './jsonl.ts';
import { openRecords } from './open-records.ts';
import { quoted } from './quoted.ts';
import type { RecordFile } from './records.ts';
import { parseMessages, rowIdOf } from './row.ts';

const PROMPTS = { noun: 'prompt file', how: 'give another one', columns: ['messages', 'conversations', 'prompt'] };
const PROBLEMS_KEPT = 100;
const DUPLICATES_NAMED = 5;
/** Roles that a prompt may hold; the assistant's own turns are left out and answered anew. */
const ASKED_ROLES: readonly string[] = ['system', 'developer', 'user'];

/**
 * Opens and scans a prompt file (JSONL, plain, gzip or zstd, or Parquet): rows with `messages`, `conversations` or `prompt` (a text or a list of turns). A row
 * without `id` or `uuid` is named by its content. Rejects with `dataset` when the file is something else, holds no prompt, or an id stands twice.
 * Memory: 12 bytes a prompt and its id.
 */
export async function openPrompts(files: FileReader, path: string, signal?: AbortSignal): Promise<Prompts> {
  const file = await openRecords(files, path, PROMPTS);
  try {
    return await scan(file, path, signal);
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function scan(file: RecordFile, path: string, signal: AbortSignal | undefined): Promise<Prompts> {
  const lines = new LineIndex();
  const ids: string[] = [];
  const seen = new Map<string, number>();
  const duplicates: string[] = [];
  const problems: RowProblem[] = [];
  let duplicateCount = 0;
  let problemCount = 0;
  let index = 0;
  const hash = createHash('sha256');

  for await (const records of file.records()) {
    signal?.throwIfAborted();
    for (const line of records) {
      hash.update(line.text());
      hash.update('\n');
      const parsed = parsePrompt(line.value());
      if (typeof parsed === 'string') {
        problemCount += 1;
        if (problems.length < PROBLEMS_KEPT) problems.push({ index, line: line.line, message: parsed });
      } else {
        const id = parsed.id ?? unusedName(parsed.messages, seen);
        const earlier = seen.get(id);
        if (earlier === undefined) {
          seen.set(id, line.line);
          ids.push(id);
          lines.add(line.place.start, line.place.bytes);
        } else {
          duplicateCount += 1;
          if (duplicates.length < DUPLICATES_NAMED) duplicates.push(`${JSON.stringify(id)} on lines ${earlier} and ${line.line}`);
        }
      }
      index += 1;
    }
  }
  if (duplicateCount > 0) {
    const more = duplicateCount > duplicates.length ? `, and ${duplicateCount - duplicates.length} more` : '';
    throw new TidemarkError('dataset', `the prompt file ${path} has ids that stand twice: ${duplicates.join('; ')}${more}`, {
      where: path,
      hint: 'give every row an id of its own, or none: answers are kept by id',
    });
  }
  if (ids.length === 0) {
    const first = problems[0];
    throw new TidemarkError(
      'dataset',
      `the prompt file ${path} has no prompt${first === undefined ? '' : `; line ${first.line}: ${first.message}`}`,
      {
        where: path,
        hint: `${file.form === 'jsonl' ? `head -c 300 ${quoted(path)}; each line` : 'each row'} must hold messages, conversations or prompt`,
      },
    );
  }
  return {
    path,
    count: ids.length,
    problems,
    problemCount,
    fingerprint: hash.digest('hex'),
    idAt(place) {
      const id = ids[place];
      if (id === undefined) throw new RangeError(`prompt ${place} of ${ids.length}`);
      return id;
    },
    read: async (place) => readPrompt(file, path, ids[place] ?? '', lines.at(place)),
    close: () => file.close(),
  };
}

async function readPrompt(file: RecordFile, path: string, id: string, place: Place): Promise<Prompt> {
  const parsed = parsePrompt(await file.read(place));
  if (typeof parsed !== 'string') return { id, messages: parsed.messages };
  throw new TidemarkError('dataset', `the prompt file ${path} changed while it was used: prompt ${id} is now ${parsed}`, { where: path });
}

interface ParsedPrompt {
  readonly id: string | null;
  readonly messages: readonly Message[];
}

/** The prompt of a record, or what is wrong with it in words. */
function parsePrompt(parsed: ParsedLine): ParsedPrompt | string {
  if (!parsed.ok) return parsed.message;
  const { value } = parsed;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'a prompt must be a JSON object';
  const row = value as Readonly<Record<string, unknown>>;
  const key = ['messages', 'conversations', 'prompt'].find((name) => row[name] !== undefined && row[name] !== null);
  if (key === undefined) return 'it has none of messages, conversations, prompt';
  const given = row[key];
  const turns = key === 'prompt' && typeof given === 'string' ? [{ role: 'user', content: given }] : parseMessages(given, key);
  if (typeof turns === 'string') return turns;
  const messages = turns.filter(({ role }) => role !== 'assistant').map(({ role, content }) => ({ role, content }));
  const other = messages.find(({ role }) => !ASKED_ROLES.includes(role));
  if (other !== undefined)
    return `it has a turn of ${JSON.stringify(other.role.slice(0, 40))}, and only system, user and assistant turns can be answered anew`;
  if (!messages.some(({ role }) => role === 'user')) return 'it has no user turn, so there is nothing to answer';
  return { id: rowIdOf(value), messages };
}

/** By content, so that it is the same wherever the row stands; equal rows are counted. */
function unusedName(messages: readonly Message[], seen: ReadonlyMap<string, number>): string {
  const content = createHash('sha256').update(JSON.stringify(messages)).digest('hex').slice(0, 24);
  for (let count = 1; ; count += 1) {
    const name = count === 1 ? `row-${content}` : `row-${content}-${count}`;
    if (!seen.has(name)) return name;
  }
}
