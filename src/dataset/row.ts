import { isTidemarkError } from '../core/errors.ts';
import type { ConversationEncoder, Message } from './dataset.ts';
import { printable } from './jsonl.ts';

/** What one parsed line is to us. */
export type ParsedRow =
  | { readonly kind: 'row'; readonly id: string | null; readonly inputIds: Uint32Array; readonly lossMask: Uint8Array }
  /** `dropped`: nothing is wrong with it, the limit on tokens leaves it out. */
  | { readonly kind: 'problem'; readonly message: string; readonly dropped?: true }
  /** A conversation, and no tokenizer to turn it into ids. */
  | { readonly kind: 'needs-encoder' };

export interface RowOptions {
  readonly encoder: ConversationEncoder | null;
  /** Rows with more tokens are dropped; null keeps all. */
  readonly maxTokens: number | null;
}

/** ShareGPT's names for who speaks; other names go to the chat template as they are. */
const SHAREGPT_ROLES: Readonly<Record<string, string>> = {
  human: 'user',
  gpt: 'assistant',
  chatgpt: 'assistant',
  bing: 'assistant',
  bard: 'assistant',
};

/**
 * A row holds `input_ids` (with `loss_mask`, or else every token counts), or a conversation: `messages` (role, content) or
 * `conversations` (the same, or ShareGPT's from, value). Ids win where a row has both: they are what was, or will be, sent.
 */
export function parseRow(value: unknown, options: RowOptions): ParsedRow {
  if (!isObject(value)) return problem(`a row must be a JSON object, and this is ${nameOf(value)}`);
  const row = hasValue(value.input_ids) ? idsOf(value) : conversationOf(value, options.encoder);
  if (row.kind !== 'row') return row;
  if (options.maxTokens !== null && row.inputIds.length > options.maxTokens) {
    return { kind: 'problem', message: `too long: ${row.inputIds.length} tokens, and the limit is ${options.maxTokens}`, dropped: true };
  }
  return row;
}

/** A prompt's own name, by which stage 1 knows it. */
export function rowIdOf(value: unknown): string | null {
  return firstName(value, ['id', 'uuid']);
}

/** A sample's own name, after which some tools name its file; never a key of what is extracted. */
function sampleIdOf(value: unknown): string | null {
  return firstName(value, ['conversation_id', 'id', 'uuid']);
}

function firstName(value: unknown, keys: readonly string[]): string | null {
  if (!isObject(value)) return null;
  for (const key of keys) {
    const id = value[key];
    if (typeof id === 'string' && id !== '') return id;
    if (typeof id === 'number' && Number.isSafeInteger(id)) return String(id);
  }
  return null;
}

function idsOf(value: Readonly<Record<string, unknown>>): ParsedRow {
  const ids = value.input_ids;
  if (!Array.isArray(ids)) return problem(`input_ids must be a list of token ids, and is ${nameOf(ids)}`);
  if (ids.length === 0) return problem('input_ids is empty');
  const inputIds = new Uint32Array(ids.length);
  for (let at = 0; at < ids.length; at += 1) {
    const id: unknown = ids[at];
    // `>>> 0` is the number itself exactly for the integers of 32 bits.
    if (typeof id !== 'number' || id >>> 0 !== id) return problem(`input_ids[${at}] is no token id: ${shown(id)}`);
    inputIds[at] = id;
  }
  const mask = value.loss_mask;
  const lossMask = new Uint8Array(ids.length);
  if (!hasValue(mask)) return { kind: 'row', id: sampleIdOf(value), inputIds, lossMask: lossMask.fill(1) };
  if (!Array.isArray(mask)) return problem(`loss_mask must be a list of 0 and 1, and is ${nameOf(mask)}`);
  if (mask.length !== ids.length) return problem(`loss_mask has ${mask.length} entries and input_ids ${ids.length}`);
  for (let at = 0; at < mask.length; at += 1) {
    const bit: unknown = mask[at];
    if (bit !== 0 && bit !== 1) return problem(`loss_mask[${at}] must be 0 or 1, and is ${shown(bit)}`);
    lossMask[at] = bit;
  }
  return { kind: 'row', id: sampleIdOf(value), inputIds, lossMask };
}

function conversationOf(value: Readonly<Record<string, unknown>>, encoder: ConversationEncoder | null): ParsedRow {
  const key = ['messages', 'conversations'].find((name) => hasValue(value[name]));
  if (key === undefined) {
    const keys = Object.keys(value).slice(0, 8).join(', ');
    return problem(`it has none of input_ids, messages, conversations; its keys are ${printable(keys, 80) || 'none'}`);
  }
  if (hasValue(value.tools)) return problem('it has `tools`, which are not supported: give the row as input_ids');
  const messages = parseMessages(value[key], key);
  if (typeof messages === 'string') return problem(messages);
  if (encoder === null) return { kind: 'needs-encoder' };
  try {
    const { inputIds, lossMask } = encoder.encode(messages);
    if (inputIds.length === 0) return problem('the chat template makes no token of it');
    if (!lossMask.includes(1)) return problem('it has no assistant token, so nothing can be learned from it');
    return { kind: 'row', id: sampleIdOf(value), inputIds, lossMask };
  } catch (error) {
    if (isTidemarkError(error, 'dataset')) return problem(error.message);
    throw error;
  }
}

/** The turns of a conversation in either form, or what is wrong with it in words. */
export function parseMessages(value: unknown, key: string): readonly Message[] | string {
  if (!Array.isArray(value)) return `${key} must be a list of turns, and is ${nameOf(value)}`;
  if (value.length === 0) return `${key} is empty`;
  const messages: Message[] = [];
  for (const [at, turn] of (value as readonly unknown[]).entries()) {
    const where = `${key}[${at}]`;
    if (!isObject(turn)) return `${where} must be an object, and is ${nameOf(turn)}`;
    const named = turn.role ?? turn.from;
    if (typeof named !== 'string' || named === '') return `${where} says neither role nor from`;
    if (hasValue(turn.tool_calls)) return `${where} has tool calls, which are not supported: give the row as input_ids`;
    const content = textOf(turn.content ?? turn.value);
    if (content === null) return `${where} has no text content`;
    const reasoning = turn.reasoning_content;
    messages.push({
      role: Object.hasOwn(SHAREGPT_ROLES, named) ? (SHAREGPT_ROLES[named] ?? named) : named,
      content,
      ...(typeof reasoning === 'string' && reasoning !== '' ? { reasoning_content: reasoning } : {}),
    });
  }
  return messages;
}

/** Text, or a list of text parts; null for anything else (an image is not text). */
function textOf(content: unknown): string | null {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content) || content.length === 0) return null;
  const parts = (content as readonly unknown[]).map((part) => (isObject(part) && part.type === 'text' ? part.text : null));
  return parts.every((part) => typeof part === 'string') ? parts.join('') : null;
}

function problem(message: string): ParsedRow {
  return { kind: 'problem', message };
}

/** Tables turned into JSONL carry every column in every row, null where a row has none. */
function hasValue(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function nameOf(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  return Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

function shown(value: unknown): string {
  return printable(JSON.stringify(value) ?? 'nothing', 40);
}
