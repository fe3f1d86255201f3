import type { Prompts } from '../dataset/dataset.ts';
import type { FileReader } from '../host/host.ts';
import type { GeneratedRow } from './conversation.ts';
import { type PartRecord, type Place, partNumbers, readPart } from './parts.ts';

/** What is known of a prompt. `failed`: tried in an earlier start or in this one, and may be tried again. */
const STATES = ['open', 'answered', 'failed', 'refused', 'accepted'] as const;
export type PromptState = (typeof STATES)[number];

/** Sums over all answers that count. */
export interface AnswerTotals {
  readonly answered: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Rows with an answer that was cut at `max_tokens`. */
  readonly truncated: number;
  /** Rows with an answer of no text. */
  readonly empty: number;
  /** Earlier turns whose tokens do not stand in the last prompt; their mask is 0. */
  readonly retokenised: number;
}

/** All that the parts hold, by prompt: 21 bytes a prompt and its id. The rows themselves stay on the disk. */
export class Answers {
  readonly #places: Map<string, number>;
  readonly #states: Uint8Array;
  readonly #parts: Uint32Array;
  readonly #offsets: Float64Array;
  readonly #bytes: Uint32Array;
  /** How many prompts are in each state: asked after every answer, so never counted anew. */
  readonly #counts: number[];
  #totals = { answered: 0, promptTokens: 0, completionTokens: 0, truncated: 0, empty: 0, retokenised: 0 };
  #merged: { readonly bytes: number; readonly sha256: string } | null = null;

  constructor(prompts: Prompts) {
    this.#places = new Map(Array.from({ length: prompts.count }, (_, place) => [prompts.idAt(place), place]));
    this.#states = new Uint8Array(prompts.count);
    this.#parts = new Uint32Array(prompts.count);
    this.#offsets = new Float64Array(prompts.count);
    this.#bytes = new Uint32Array(prompts.count);
    this.#counts = STATES.map((state) => (state === 'open' ? prompts.count : 0));
  }

  /** Reads every part, oldest first. The first answer of a prompt counts: it may be in an output already. */
  static async load(files: FileReader, folder: string, prompts: Prompts, signal: AbortSignal): Promise<Answers> {
    const answers = new Answers(prompts);
    for (const part of await partNumbers(files, folder)) {
      for await (const { record, place } of readPart(files, folder, part)) answers.add(record, place);
      signal.throwIfAborted();
    }
    return answers;
  }

  get totals(): AnswerTotals {
    return this.#totals;
  }

  /** The output as it was last published, unless something has changed since. */
  get merged(): { readonly bytes: number; readonly sha256: string } | null {
    return this.#merged;
  }

  stateAt(prompt: number): PromptState {
    return STATES[this.#states[prompt] ?? 0] ?? 'open';
  }

  countOf(...states: readonly PromptState[]): number {
    return states.reduce((count, state) => count + (this.#counts[STATES.indexOf(state)] ?? 0), 0);
  }

  /** Where the answer of a prompt lies; only of one that is answered. */
  placeAt(prompt: number): Place {
    return { part: this.#parts[prompt] ?? 0, offset: this.#offsets[prompt] ?? 0, bytes: this.#bytes[prompt] ?? 0 };
  }

  add(record: PartRecord, place: Place): void {
    switch (record.kind) {
      case 'answer':
        this.#answer(record.row, place);
        return;
      case 'failure':
        this.#set(record.id, record.final ? 'refused' : 'failed');
        return;
      case 'accept':
        this.#set(record.id, 'accepted');
        return;
      case 'merged':
        this.#merged = { bytes: record.bytes, sha256: record.sha256 };
        return;
      case 'close':
    }
  }

  #answer(row: GeneratedRow, { part, offset, bytes }: Place): void {
    const prompt = this.#places.get(row.id);
    if (prompt === undefined || this.stateAt(prompt) === 'answered') return;
    this.#move(prompt, 'answered');
    this.#parts[prompt] = part;
    this.#offsets[prompt] = offset;
    this.#bytes[prompt] = bytes;
    this.#merged = null;
    const { turns, messages } = row;
    const sum = (of: (turn: GeneratedRow['turns'][number]) => number): number => turns.reduce((total, turn) => total + of(turn), 0);
    const totals = this.#totals;
    this.#totals = {
      answered: totals.answered + 1,
      promptTokens: totals.promptTokens + sum((turn) => turn.prompt_tokens),
      completionTokens: totals.completionTokens + sum((turn) => turn.completion_tokens),
      truncated: totals.truncated + (turns.some((turn) => turn.finish_reason === 'length') ? 1 : 0),
      empty: totals.empty + (messages.some(({ role, content }) => role === 'assistant' && content === '') ? 1 : 0),
      retokenised: totals.retokenised + sum((turn) => (turn.retokenised === true ? 1 : 0)),
    };
  }

  #set(id: string, state: PromptState): void {
    const prompt = this.#places.get(id);
    if (prompt !== undefined && this.stateAt(prompt) !== 'answered') this.#move(prompt, state);
  }

  #move(prompt: number, state: PromptState): void {
    const before = this.#states[prompt] ?? 0;
    const after = STATES.indexOf(state);
    this.#counts[before] = (this.#counts[before] ?? 0) - 1;
    this.#counts[after] = (this.#counts[after] ?? 0) + 1;
    this.#states[prompt] = after;
  }
}
