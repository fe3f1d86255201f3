import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { Template } from '@huggingface/jinja';
import { Tokenizer } from '@huggingface/tokenizers';
import { messageOf, TidemarkError } from '../core/errors.ts';
import type { FileReader } from '../host/host.ts';
import type { ConversationEncoder, Message } from './dataset.ts';
import { printable } from './jsonl.ts';
import { type EncodeText, sectionedEncoder } from './sectioned-encoder.ts';

/** The largest vocabularies known take about 40 MB. */
const TOKENIZER_BYTES_MOST = 512 * 1024 * 1024;
const CONFIG_BYTES_MOST = 64 * 1024 * 1024;
/** What Llama 3's template writes when it is told no date; transformers before 4.46 always wrote it. */
const FIXED_DATE = '26 Jul 2024';

type Config = Readonly<Record<string, unknown>>;

/**
 * The encoder of a model folder: tokenizer.json, and the chat template from chat_template.jinja or
 * tokenizer_config.json. Rejects with `model` when either is missing, unreadable, or would give other ids tomorrow.
 */
export async function openConversationEncoder(files: FileReader, modelFolder: string): Promise<ConversationEncoder> {
  const tokenizerFile = await readNamed(files, modelFolder, 'tokenizer.json', TOKENIZER_BYTES_MOST);
  const configFile = await readNamed(files, modelFolder, 'tokenizer_config.json', CONFIG_BYTES_MOST);
  const jinjaFile = await readNamed(files, modelFolder, 'chat_template.jinja', CONFIG_BYTES_MOST);
  if (tokenizerFile === null) throw missing(modelFolder, 'tokenizer.json', 'the tokenizer');
  if (configFile === null) throw missing(modelFolder, 'tokenizer_config.json', 'the special tokens and the chat template');
  const config = parseConfig(configFile, join(modelFolder, 'tokenizer_config.json'));
  const source = jinjaFile === null ? templateIn(config) : Buffer.from(jinjaFile).toString('utf8');
  if (source === null) throw missing(modelFolder, 'chat_template.jinja', 'the chat template (tokenizer_config.json has none either)');
  refuseDated(source, modelFolder);

  const template = parseTemplate(source, modelFolder);
  const specials = specialTokens(config);
  const render = (messages: readonly Message[], prompt: boolean): string =>
    template.render({ ...specials, messages, add_generation_prompt: prompt, tools: null, documents: null, date_string: FIXED_DATE });
  // Built at the first conversation: a dataset that carries ids should not wait a second for a vocabulary.
  let encodeText: EncodeText | undefined;
  return {
    tokenizerDigest: createHash('sha256').update(tokenizerFile).digest('hex'),
    templateDigest: createHash('sha256').update(source, 'utf8').digest('hex'),
    encode(messages) {
      encodeText ??= buildTokenizer(tokenizerFile, config, modelFolder);
      return encodeConversation(messages, render, encodeText);
    },
  };
}

type Render = (messages: readonly Message[], addGenerationPrompt: boolean) => string;

/**
 * Ids of the whole conversation, and a mask over what the assistant says. A turn's tokens run from the end of the
 * prompt that asks for it to the end of the conversation cut behind it. That is only true where each shorter
 * rendering is the beginning of the longer one, so it is checked, token by token, and otherwise refused.
 */
export function encodeConversation(
  messages: readonly Message[],
  render: Render,
  encodeText: EncodeText,
): { readonly inputIds: Uint32Array; readonly lossMask: Uint8Array } {
  const tokensOf = (count: number, prompt: boolean): Uint32Array => {
    let text: string;
    try {
      text = render(messages.slice(0, count), prompt);
    } catch (error) {
      const upTo = count === messages.length ? 'the conversation' : `its first ${count} turns`;
      throw new TidemarkError('dataset', `the chat template refuses ${upTo}: ${printable(messageOf(error), 120)}`, { cause: error });
    }
    return encodeText(text);
  };
  const inputIds = tokensOf(messages.length, false);
  const lossMask = new Uint8Array(inputIds.length);
  for (const [turn, message] of messages.entries()) {
    if (message.role !== 'assistant') continue;
    const before = tokensOf(turn, true);
    const behind = turn + 1 === messages.length ? inputIds : tokensOf(turn + 1, false);
    if (!isPrefix(before, behind) || !isPrefix(behind, inputIds)) {
      throw new TidemarkError(
        'dataset',
        `the chat template writes turn ${turn} (assistant) otherwise once more turns follow, so its loss mask cannot be told: give input_ids and loss_mask (tidemark generate does)`,
      );
    }
    lossMask.fill(1, before.length, behind.length);
  }
  return { inputIds, lossMask };
}

function isPrefix(shorter: Uint32Array, longer: Uint32Array): boolean {
  if (shorter.length > longer.length) return false;
  for (let at = 0; at < shorter.length; at += 1) if (shorter[at] !== longer[at]) return false;
  return true;
}

async function readNamed(files: FileReader, folder: string, name: string, mostBytes: number): Promise<Uint8Array | null> {
  // In a Hugging Face cache every file of a snapshot is a link into the blobs, so links are resolved first.
  const real = await files.realPath(join(folder, name));
  return real === null ? null : files.readSmall(real, mostBytes);
}

function missing(folder: string, name: string, holds: string): TidemarkError {
  return new TidemarkError('model', `the model folder ${folder} has no ${name}, which holds ${holds}`, {
    where: join(folder, name),
    hint: 'set target.model (or --model FOLDER) to the whole model folder, or give rows with input_ids',
  });
}

function buildTokenizer(file: Uint8Array, config: Config, folder: string): EncodeText {
  try {
    const definition: unknown = JSON.parse(Buffer.from(file).toString('utf8'));
    if (typeof definition !== 'object' || definition === null) throw new TypeError('it is not an object');
    return sectionedEncoder(new Tokenizer(definition, config));
  } catch (error) {
    throw new TidemarkError(
      'model',
      `the tokenizer ${join(folder, 'tokenizer.json')} cannot be used: ${printable(messageOf(error), 200)}`,
      {
        where: join(folder, 'tokenizer.json'),
        hint: 'give rows with input_ids, made by the tokenizer that the server uses',
        cause: error,
      },
    );
  }
}

function parseConfig(file: Uint8Array, where: string): Config {
  try {
    const value: unknown = JSON.parse(Buffer.from(file).toString('utf8'));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Config;
    throw new TypeError('it is not an object');
  } catch (error) {
    throw new TidemarkError('model', `${where} cannot be read: ${printable(messageOf(error), 200)}`, { where, cause: error });
  }
}

/** One template, or several by name: transformers takes `default`. */
function templateIn(config: Config): string | null {
  const entry = config.chat_template;
  if (typeof entry === 'string') return entry;
  if (!Array.isArray(entry)) return null;
  const named = (entry as readonly unknown[]).filter(
    (one): one is { readonly name: unknown; readonly template: unknown } => typeof one === 'object' && one !== null,
  );
  const chosen = named.find((one) => one.name === 'default')?.template;
  return typeof chosen === 'string' ? chosen : null;
}

function parseTemplate(source: string, folder: string): Template {
  try {
    return new Template(source);
  } catch (error) {
    throw new TidemarkError('model', `the chat template of ${folder} cannot be read: ${printable(messageOf(error), 200)}`, {
      where: folder,
      hint: 'give rows with input_ids and loss_mask',
      cause: error,
    });
  }
}

/** A row's ids must be the same tomorrow, on every machine. */
function refuseDated(source: string, folder: string): void {
  if (!/strftime_now\s*\(/.test(source) || source.includes('date_string')) return;
  throw new TidemarkError('model', `the chat template of ${folder} writes today's date, so every row would have other ids tomorrow`, {
    where: folder,
    hint: 'give rows with input_ids and loss_mask (tidemark generate writes them), or put a fixed date into chat_template.jinja',
  });
}

/** `bos_token` and its kin, which templates write by name. They stand as text or as `{content}`. */
function specialTokens(config: Config): Readonly<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const [key, value] of Object.entries(config)) {
    if (!key.endsWith('_token')) continue;
    if (typeof value === 'string') found[key] = value;
    else if (typeof value === 'object' && value !== null && 'content' in value && typeof value.content === 'string')
      found[key] = value.content;
  }
  return found;
}
