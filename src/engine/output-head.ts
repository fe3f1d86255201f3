import { join } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { bf16ToFloat32, f16ToFloat32 } from '../format/bf16.ts';
import { readSafetensors } from '../format/safetensors.ts';
import { DTYPE_BYTES, type TensorInfo } from '../format/tensors.ts';
import type { FileReader, ReadableFile } from '../host/host.ts';

/** The matrix that turns a final state into one logit a token. Its rows are read when they are asked for. */
export interface OutputHead {
  readonly tensor: string;
  /** The input embedding, which the model uses again. */
  readonly tied: boolean;
  readonly vocabulary: number;
  readonly width: number;
  readonly bias: Float32Array | null;
  /** `c * tanh(logit / c)`, as Gemma 2 does; null for none. */
  readonly softcap: number | null;
  /** Rows `[from, to)` as float32, row-major. */
  readRows(from: number, to: number): Promise<Float32Array>;
  close(): Promise<void>;
}

/** Names of a head of its own, and then of the embeddings that stand for it where there is none. */
const HEADS = ['lm_head.weight', 'language_model.lm_head.weight', 'model.lm_head.weight', 'output.weight', 'embed_out.weight'] as const;
const EMBEDDINGS = [
  'model.embed_tokens.weight',
  'language_model.model.embed_tokens.weight',
  'model.language_model.embed_tokens.weight',
  'language_model.embed_tokens.weight',
  'model.tok_embeddings.weight',
  'transformer.wte.weight',
  'wte.weight',
  'transformer.word_embeddings.weight',
] as const;

const INDEX = 'model.safetensors.index.json';
const INDEX_BYTES_MAX = 128 << 20;
const CONFIG_BYTES_MAX = 4 << 20;
const VOCABULARY_MAX = 1 << 24;

/**
 * Finds the head in a model folder of one or many safetensors files. Nothing of the matrix is read yet.
 * @param width the target's hidden size
 * @throws TidemarkError `model`
 */
export async function openOutputHead(files: FileReader, folder: string, width: number): Promise<OutputHead> {
  const config = await readJson(files, folder, 'config.json', CONFIG_BYTES_MAX);
  const nested = ['text_config', 'language_config', 'llm_config'].map((name) => config?.[name]).find(isFields);
  const field = (name: string): unknown => nested?.[name] ?? config?.[name];
  const index = await readJson(files, folder, INDEX, INDEX_BYTES_MAX);
  const map = isFields(index?.weight_map) ? index.weight_map : null;
  const own = map === null ? null : HEADS.find((name) => Object.hasOwn(map, name));
  const shared = map === null ? null : EMBEDDINGS.find((name) => Object.hasOwn(map, name));
  const named = own ?? shared;
  const shard = map === null ? 'model.safetensors' : named === undefined || named === null ? null : map[named];
  // A name out of a file: one with a slash could point anywhere.
  if (typeof shard !== 'string' || !/^[\w.-]+\.safetensors$/.test(shard)) throw noHead(join(folder, INDEX));
  const { file, tensors } = await openShard(files, join(folder, shard));
  try {
    const name = named ?? HEADS.find((one) => tensors.has(one)) ?? EMBEDDINGS.find((one) => tensors.has(one));
    const tensor = name === undefined ? undefined : tensors.get(name);
    if (tensor === undefined) throw noHead(join(folder, shard));
    const tied = !HEADS.some((one) => one === tensor.name);
    // Saved models leave out a head that is the embedding; one that should be of its own and is not there was lost.
    if (tied && field('tie_word_embeddings') === false) throw noHead(join(folder, shard));
    const softcap = field('final_logit_softcapping');
    const bias = tensors.get(tensor.name.replace(/\.weight$/, '.bias'));
    return {
      ...shapeOf(tensor, width, folder),
      tensor: tensor.name,
      tied,
      bias: tied || bias === undefined ? null : await readFloats(file, bias, 0, bias.bytes),
      softcap: typeof softcap === 'number' && softcap > 0 ? softcap : null,
      readRows: (from, to) =>
        readFloats(file, tensor, from * width * DTYPE_BYTES[tensor.dtype], (to - from) * width * DTYPE_BYTES[tensor.dtype]),
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

function shapeOf(tensor: TensorInfo, width: number, folder: string): { readonly vocabulary: number; readonly width: number } {
  const [vocabulary, columns, ...more] = tensor.shape;
  if (vocabulary === undefined || columns !== width || more.length > 0 || vocabulary > VOCABULARY_MAX) {
    throw new TidemarkError('model', `${tensor.name} is [${tensor.shape.join(', ')}], and the hidden size of config.json is ${width}`, {
      where: folder,
      hint: 'check that config.json and the weights belong together',
    });
  }
  if (tensor.dtype !== 'BF16' && tensor.dtype !== 'F16' && tensor.dtype !== 'F32') {
    throw new TidemarkError('model', `${tensor.name} is ${tensor.dtype}; an output head is read as BF16, F16 or F32`, {
      where: folder,
      hint: 'give the folder of the original model: quantised releases mostly leave the head as it was',
    });
  }
  return { vocabulary, width };
}

async function openShard(files: FileReader, where: string): Promise<{ file: ReadableFile; tensors: ReadonlyMap<string, TensorInfo> }> {
  const real = await files.realPath(where);
  const file = real === null ? null : await files.open(real);
  if (file === null)
    throw new TidemarkError('model', `the target model has no ${where}, which holds its output head`, { where, hint: 'download it' });
  const read = await readSafetensors(file);
  if (read.ok) return { file, tensors: read.value.tensors };
  await file.close();
  throw new TidemarkError('model', `the weight file is damaged or no safetensors file: ${read.damage.detail}`, {
    where,
    hint: 'download it again; a download that was cut off leaves such a file',
  });
}

/** Bytes `[offset, offset + length)` of a tensor as float32. */
async function readFloats(file: ReadableFile, tensor: TensorInfo, offset: number, length: number): Promise<Float32Array> {
  const bytes = await file.read(tensor.fileOffset + offset, length);
  const width = DTYPE_BYTES[tensor.dtype];
  const aligned = bytes.byteOffset % width === 0 ? bytes : Uint8Array.from(bytes);
  const [buffer, at, count] = [aligned.buffer, aligned.byteOffset, length / width];
  if (tensor.dtype === 'F32') return new Float32Array(buffer, at, count);
  const out = new Float32Array(count);
  if (tensor.dtype === 'BF16') bf16ToFloat32(new Uint16Array(buffer, at, count), out);
  else f16ToFloat32(new Uint16Array(buffer, at, count), out);
  return out;
}

type Fields = Readonly<Record<string, unknown>>;

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

async function readJson(files: FileReader, folder: string, name: string, mostBytes: number): Promise<Fields | null> {
  const real = await files.realPath(join(folder, name));
  const bytes = real === null ? null : await files.readSmall(real, mostBytes);
  if (bytes === null) return null;
  try {
    const parsed: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return isFields(parsed) ? parsed : null;
  } catch (cause) {
    throw new TidemarkError('model', 'the file is not JSON', { where: join(folder, name), cause, hint: 'download it again' });
  }
}

function noHead(where: string): TidemarkError {
  return new TidemarkError('model', `the weights have no output head under a known name (${[...HEADS, ...EMBEDDINGS].join(', ')})`, {
    where,
    hint: 'give the folder of the full model in safetensors',
  });
}
