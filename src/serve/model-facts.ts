import { z } from 'zod';
import { messageOf, TidemarkError } from '../core/errors.ts';
import type { FileReader } from '../host/host.ts';

/** What the server needs to know of a target, from its `config.json`. */
export interface ModelFacts {
  readonly layerCount: number;
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  /** Prompt and answer together. */
  readonly contextLength: number;
  readonly keyValueHeadCount: number;
  readonly headSize: number;
  readonly endTokenIds: readonly number[];
}

const SMALL_FILE_BYTES_MAX = 64 * 1024 * 1024;
const count = z.number().int().min(1);

const configSchema = z.looseObject({
  model_type: z.literal('llama'),
  num_hidden_layers: count.max(1024),
  hidden_size: count.max(65_536),
  vocab_size: count.max(4_194_304),
  max_position_embeddings: count.max(16_777_216),
  num_attention_heads: count.max(1024),
  num_key_value_heads: count.max(1024),
  head_dim: count.max(1024).optional(),
  eos_token_id: z.union([z.number().int().min(0), z.array(z.number().int().min(0)).min(1).max(64)]),
});

export function parseModelFacts(config: unknown, where: string): ModelFacts {
  const parsed = configSchema.safeParse(config);
  if (!parsed.success) {
    throw new TidemarkError('model', `the model's configuration is not one this engine can serve: ${z.prettifyError(parsed.error)}`, {
      where,
    });
  }
  const { data } = parsed;
  return {
    layerCount: data.num_hidden_layers,
    hiddenSize: data.hidden_size,
    vocabularySize: data.vocab_size,
    contextLength: data.max_position_embeddings,
    keyValueHeadCount: data.num_key_value_heads,
    headSize: data.head_dim ?? Math.floor(data.hidden_size / data.num_attention_heads),
    endTokenIds: typeof data.eos_token_id === 'number' ? [data.eos_token_id] : data.eos_token_id,
  };
}

/** A whole file of the model's folder, or an error that says which one is missing. */
export async function readModelFile(files: FileReader, path: string): Promise<Uint8Array> {
  const bytes = await files.readSmall(path, SMALL_FILE_BYTES_MAX);
  if (bytes === null) {
    throw new TidemarkError('model', 'a file of the model is missing', {
      where: path,
      hint: 'name a folder that holds config.json, model.onnx, tokenizer.json and tokenizer_config.json',
    });
  }
  return bytes;
}

export async function readModelJson(files: FileReader, path: string): Promise<unknown> {
  const bytes = await readModelFile(files, path);
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    return value;
  } catch (error) {
    throw new TidemarkError('model', `a file of the model is not JSON: ${messageOf(error)}`, { where: path, cause: error });
  }
}
