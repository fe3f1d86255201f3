import { z } from 'zod';

/** What clients may send: vLLM's fields as far as this engine has them; a field that would change the answer and is not had is refused. */

const nothing = z.literal([0, null]).optional();
const off = z.literal([false, null]).optional();

const sampling = {
  model: z.string().max(1024).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().gt(0).max(1).nullish(),
  top_k: z.number().int().min(-1).max(1_000_000).nullish(),
  seed: z.number().int().min(-Number.MAX_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER).nullish(),
  max_tokens: z.number().int().min(1).max(1_000_000_000).nullish(),
  stop: z
    .union([z.string().min(1).max(256), z.array(z.string().min(1).max(256)).max(16)])
    .nullish()
    .transform((stop) => (typeof stop === 'string' ? [stop] : (stop ?? []))),
  return_token_ids: z.boolean().nullish(),
  request_id: z.string().nullish(),
  n: z.literal([1, null]).optional(),
  presence_penalty: nothing,
  frequency_penalty: nothing,
  repetition_penalty: z.literal([1, null]).optional(),
};

/** Text is encoded on the server's one thread, at about 250,000 characters a second at worst. */
const words = z.string().max(262_144);

const tokenId = z.number().int().min(0).max(4_294_967_295);
const tokenIds = z.array(tokenId).max(1_048_576);

export const completionBody = z.looseObject({
  ...sampling,
  prompt: z.union([tokenIds, words], { error: 'one prompt for each request: a flat list of token ids, or a string' }),
  stream: off,
  echo: off,
  logprobs: z.null().optional(),
  prompt_logprobs: z.null().optional(),
  truncate_prompt_tokens: z.null().optional(),
});

const messageText = z.union([
  words,
  z
    .array(z.looseObject({ type: z.literal('text'), text: words }))
    .max(1024)
    .transform((parts) => parts.map((part) => part.text).join('\n')),
]);

const messages = z
  .array(z.looseObject({ role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']), content: messageText }))
  .min(1)
  .max(4096);

export const chatBody = z.looseObject({
  ...sampling,
  messages,
  max_completion_tokens: z.number().int().min(1).max(1_000_000_000).nullish(),
  add_generation_prompt: z.boolean().nullish(),
  continue_final_message: off,
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  logprobs: off,
  tools: z.union([z.null(), z.array(z.unknown()).max(0)]).optional(),
});

export const tokenizeBody = z
  .looseObject({
    prompt: words.optional(),
    messages: messages.optional(),
    add_special_tokens: z.boolean().nullish(),
    add_generation_prompt: z.boolean().nullish(),
  })
  .refine((body) => (body.prompt === undefined) !== (body.messages === undefined), { error: 'either prompt (a string) or messages' });

export const detokenizeBody = z.looseObject({ tokens: tokenIds });

/** Part of a file name, so no path and nothing that a shell or a listing could take for something else. */
export const requestIdText = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, 'a request id is 1 to 128 of A-Z a-z 0-9 . _ - and begins with a letter or digit');

export type ChatBody = z.infer<typeof chatBody>;
export type TokenizeBody = z.infer<typeof tokenizeBody>;
