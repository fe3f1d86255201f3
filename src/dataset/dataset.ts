import type { RowTable } from '../format/row-table.ts';

/** One row, tokenised: sample i of the run. */
export interface Row {
  readonly index: number;
  /** The row's own id where it has one; never used as a key. */
  readonly id: string | null;
  readonly inputIds: Uint32Array;
  /** One byte a token: 1 where the drafter's loss counts. */
  readonly lossMask: Uint8Array;
}

/** A row that has no sample, and why. It keeps its index, so that later rows keep theirs. */
export interface RowProblem {
  readonly index: number;
  readonly line: number;
  readonly message: string;
}

/** The source of rows. Opened once, scanned once in order, then read by index. */
export interface Dataset {
  readonly path: string;
  readonly rows: number;
  /** At most the first hundred; `problemCount` counts all. */
  readonly problems: readonly RowProblem[];
  readonly problemCount: number;
  /** The row table of docs/on-disk.md: `identityAt` and the fingerprint's root. */
  readonly table: RowTable;
  /** Reads and tokenises one row again; the caller compares its identity with the table. Rejects with `dataset` when the row has a problem. */
  read(index: number): Promise<Row>;
  close(): Promise<void>;
}

/** Turns a conversation into ids and mask. Absent when rows carry `input_ids`. */
export interface ConversationEncoder {
  /** Digests of tokenizer.json and of the chat template, for the run id. */
  readonly tokenizerDigest: string;
  readonly templateDigest: string;
  /** Throws `dataset` when the template refuses the conversation or no loss mask can be told from it. */
  encode(messages: readonly Message[]): { readonly inputIds: Uint32Array; readonly lossMask: Uint8Array };
}

export interface Message {
  readonly role: string;
  readonly content: string;
  /** The thinking before an answer, under the name that chat templates read. */
  readonly reasoning_content?: string;
}

/** One prompt of stage 1: the turns that the target answers anew. Given assistant turns have been left out. */
export interface Prompt {
  readonly id: string;
  /** System, developer and user turns, in order; at least one is the user's. */
  readonly messages: readonly Message[];
}

/** Stage 1's input. Prompts are known by id, never by place: results come back out of order. */
export interface Prompts {
  readonly path: string;
  /** Prompts that can be asked; lines with a problem are not among them. */
  readonly count: number;
  /** At most the first hundred; `problemCount` counts all. */
  readonly problems: readonly RowProblem[];
  readonly problemCount: number;
  /** SHA-256 over the text of all lines, 64 hex digits: one changed character is another fingerprint. */
  readonly fingerprint: string;
  /** @param place 0 to count - 1, in the order of the file */
  idAt(place: number): string;
  read(place: number): Promise<Prompt>;
  close(): Promise<void>;
}
