import { Template } from '@huggingface/jinja';
import { Tokenizer } from '@huggingface/tokenizers';
import { z } from 'zod';
import { messageOf, TidemarkError } from '../core/errors.ts';
import type { Host } from '../host/host.ts';
import { readModelJson } from './model-facts.ts';

interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

/** Text to token ids and back, as the model's own files say. */
export interface EngineText {
  /** Without adding any token: a rendered chat already holds its special tokens as text. */
  encode(text: string): readonly number[];
  /** With what the tokenizer's own post-processor adds (nothing, for tide-5m). */
  encodeWithSpecialTokens(text: string): readonly number[];
  /** Special tokens left out unless `keepSpecialTokens`. Ids that end inside a character give U+FFFD at the end. */
  decode(tokenIds: readonly number[], options?: { readonly keepSpecialTokens?: boolean }): string;
  /** Throws a `TidemarkError` `engine-refused` when the template rejects the messages. */
  renderChat(messages: readonly ChatMessage[], options: { readonly addGenerationPrompt: boolean }): string;
}

const tokenizerSchema = z.looseObject({ model: z.looseObject({}) });
const tokenText = z.union([z.string(), z.looseObject({ content: z.string() }).transform((token) => token.content)]);
const tokenizerConfigSchema = z.looseObject({
  chat_template: z.string(),
  bos_token: tokenText.nullish(),
  eos_token: tokenText.nullish(),
  pad_token: tokenText.nullish(),
});

export async function loadText(host: Host, directory: string): Promise<EngineText> {
  const tokenizerPath = `${directory}/tokenizer.json`;
  const configPath = `${directory}/tokenizer_config.json`;
  const tokenizerFile = tokenizerSchema.safeParse(await readModelJson(host.files, tokenizerPath));
  if (!tokenizerFile.success) throw new TidemarkError('model', 'tokenizer.json holds no tokenizer', { where: tokenizerPath });
  const config = tokenizerConfigSchema.safeParse(await readModelJson(host.files, configPath));
  if (!config.success) {
    throw new TidemarkError('model', `tokenizer_config.json does not fit: ${z.prettifyError(config.error)}`, { where: configPath });
  }
  try {
    return createText(new Tokenizer(tokenizerFile.data, config.data), new Template(config.data.chat_template), {
      bos_token: config.data.bos_token ?? '',
      eos_token: config.data.eos_token ?? '',
      pad_token: config.data.pad_token ?? '',
    });
  } catch (error) {
    throw new TidemarkError('model', `the tokenizer or chat template cannot be read: ${messageOf(error)}`, {
      where: directory,
      cause: error,
    });
  }
}

function createText(tokenizer: Tokenizer, template: Template, specialTokens: Readonly<Record<string, string>>): EngineText {
  return {
    encode: (text) => tokenizer.encode(text, { add_special_tokens: false }).ids,
    encodeWithSpecialTokens: (text) => tokenizer.encode(text).ids,
    decode: (tokenIds, options) =>
      tokenIds.length === 0 ? '' : tokenizer.decode([...tokenIds], { skip_special_tokens: options?.keepSpecialTokens !== true }),
    renderChat(messages, options) {
      try {
        return template.render({ ...specialTokens, messages, add_generation_prompt: options.addGenerationPrompt });
      } catch (error) {
        throw new TidemarkError('engine-refused', `the chat template rejects these messages: ${messageOf(error)}`, { cause: error });
      }
    },
  };
}
