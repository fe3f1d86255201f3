import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { bf16ToFloat32, f16ToFloat32 } from '../format/bf16.ts';
import type { FinalNorm } from '../format/norm.ts';
import { readSafetensors } from '../format/safetensors.ts';
import { DTYPE_BYTES, type TensorInfo } from '../format/tensors.ts';
import type { FileReader, ReadableFile } from '../host/host.ts';
import { type ModelConfig, parseModelConfig } from './model-config.ts';
import { NORM_TENSORS } from './norm-kinds.ts';

/** What tidemark needs of the target: its shape, and the norm that the last state passes before it is stored. */
export interface TargetModel extends ModelConfig {
  readonly folder: string;
  readonly norm: FinalNorm;
  /** Name of the norm's weight in the checkpoint. */
  readonly normTensor: string;
  /** 128 bits over configuration, weight index and final norm: two folders of one model agree, whatever else lies in them. */
  readonly digest: string;
}

const configBytesMost = 4 << 20;
const indexBytesMost = 128 << 20;
const widthMost = 1 << 20;
const normHint = 'the layout stores the last state after the final norm, so config.json and the weight file with that norm must be here: ';

/**
 * Reads config.json and, of the weights, only the final norm: a few kilobytes, whatever the model's size.
 * Links are followed, because a Hugging Face cache is made of them.
 */
export async function readTargetModel(files: FileReader, folder: string): Promise<TargetModel> {
  const configBytes = await readNamed(files, folder, 'config.json', configBytesMost);
  if (configBytes === null) {
    throw new TidemarkError('model', 'the target model has no config.json', { where: folder, hint: `${normHint}ls ${folder}` });
  }
  const config = parseModelConfig(configBytes, join(folder, 'config.json'));
  const weights = await findNorm(files, folder);
  const { file, tensor, index } = weights;
  try {
    const biasTensor = biasOf(weights.tensors, tensor);
    const norm: FinalNorm = {
      kind: config.norm.kind,
      epsilon: config.norm.epsilon,
      weight: await readVector(file, tensor, config.hiddenSize, folder),
      bias: biasTensor === null ? null : await readVector(file, biasTensor, config.hiddenSize, folder),
    };
    if (norm.bias !== null && norm.kind !== 'layer') {
      throw new TidemarkError('model', `${tensor.name} has a bias, which the ${norm.kind} norm of ${config.architecture} does not know`, {
        where: folder,
        hint: 'check that config.json and the weights belong together',
      });
    }
    const parts = [configBytes, index ?? new TextEncoder().encode(`model.safetensors ${file.size}`), await rawBytes(file, tensor)];
    if (biasTensor !== null) parts.push(await rawBytes(file, biasTensor));
    return { ...config, folder, norm, normTensor: tensor.name, digest: digestOf(parts) };
  } finally {
    await file.close();
  }
}

interface NormPlace {
  readonly file: ReadableFile;
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  readonly tensor: TensorInfo;
  /** Bytes of model.safetensors.index.json, where the weights are in several files. */
  readonly index: Uint8Array | null;
}

async function findNorm(files: FileReader, folder: string): Promise<NormPlace> {
  const indexName = 'model.safetensors.index.json';
  const index = await readNamed(files, folder, indexName, indexBytesMost);
  const map = index === null ? null : weightMap(index, join(folder, indexName));
  const name = map === null ? null : NORM_TENSORS.find((one) => map.has(one));
  if (name === undefined) throw noNorm(join(folder, indexName), map?.keys() ?? []);
  const shard = name === null ? 'model.safetensors' : (map?.get(name) ?? 'model.safetensors');
  const where = join(folder, shard);
  const real = await files.realPath(where);
  const file = real === null ? null : await files.open(real);
  if (file === null) {
    throw new TidemarkError(
      'model',
      `the target model has no ${shard}${index === null ? ` and no ${indexName}` : ', which holds its final norm'}`,
      {
        where: folder,
        hint: `${normHint}ls -l ${folder}`,
      },
    );
  }
  try {
    const read = await readSafetensors(file);
    if (!read.ok) {
      throw new TidemarkError('model', `the weight file is damaged or no safetensors file: ${read.damage.detail}`, {
        where,
        hint: 'download it again; a download that was cut off leaves such a file',
      });
    }
    const { tensors } = read.value;
    const found = name ?? NORM_TENSORS.find((one) => tensors.has(one));
    const tensor = found === undefined ? undefined : tensors.get(found);
    if (tensor === undefined) throw noNorm(where, tensors.keys());
    return { file, tensors, tensor, index };
  } catch (error) {
    await file.close();
    throw error;
  }
}

function weightMap(bytes: Uint8Array, where: string): ReadonlyMap<string, string> {
  const parsed = parseJson(bytes, where);
  const map = typeof parsed === 'object' && parsed !== null && 'weight_map' in parsed ? parsed.weight_map : null;
  if (typeof map !== 'object' || map === null) {
    throw new TidemarkError('model', 'the weight index has no weight_map', { where, hint: 'download it again' });
  }
  const shards = new Map<string, string>();
  for (const [tensor, shard] of Object.entries(map)) {
    // The names come out of a file: one with a slash could point anywhere.
    if (typeof shard === 'string' && /^[\w.-]+\.safetensors$/.test(shard)) shards.set(tensor, shard);
  }
  return shards;
}

function noNorm(where: string, names: Iterable<string>): TidemarkError {
  const candidates = [...names].filter((name) => /norm|ln_f/.test(name) && !/layers?\.\d|\.h\.\d|blocks?\.\d/.test(name)).slice(0, 8);
  const found = candidates.length === 0 ? 'and nothing like it' : `but has ${candidates.join(', ')}`;
  return new TidemarkError('model', `the weights have no final norm under a known name (${NORM_TENSORS.join(', ')}), ${found}`, {
    where,
    hint: 'a LoRA adapter or a GGUF folder is not enough: give the folder of the full model in safetensors',
  });
}

function biasOf(tensors: ReadonlyMap<string, TensorInfo>, weight: TensorInfo): TensorInfo | null {
  return tensors.get(weight.name.replace(/\.weight$/, '.bias')) ?? null;
}

async function readVector(file: ReadableFile, tensor: TensorInfo, width: number, where: string): Promise<Float32Array> {
  if (tensor.shape.length !== 1 || tensor.shape[0] !== width || width > widthMost) {
    throw new TidemarkError('model', `${tensor.name} is [${tensor.shape.join(', ')}], and the hidden size of config.json is ${width}`, {
      where,
      hint: 'check that config.json and the weights belong together',
    });
  }
  const bytes = await rawBytes(file, tensor);
  const values = new Float32Array(width);
  // A copy, because a view of 16-bit numbers must begin at an even address.
  const own = bytes.slice().buffer;
  switch (tensor.dtype) {
    case 'F32':
      values.set(new Float32Array(own));
      break;
    case 'BF16':
      bf16ToFloat32(new Uint16Array(own), values);
      break;
    case 'F16':
      f16ToFloat32(new Uint16Array(own), values);
      break;
    default:
      throw new TidemarkError('model', `${tensor.name} is ${tensor.dtype}; a final norm is F32, BF16 or F16`, {
        where,
        hint: 'give the folder of the original model: quantisation leaves the norms as they are',
      });
  }
  if (!values.every(Number.isFinite)) {
    throw new TidemarkError('model', `${tensor.name} has values that are not finite`, { where, hint: 'download the weight file again' });
  }
  return values;
}

async function rawBytes(file: ReadableFile, tensor: TensorInfo): Promise<Uint8Array> {
  if (tensor.bytes > widthMost * DTYPE_BYTES.F64) {
    throw new TidemarkError('model', `${tensor.name} has ${tensor.bytes} bytes, too many for a norm`, { hint: 'look at the weight file' });
  }
  return file.read(tensor.fileOffset, tensor.bytes);
}

function digestOf(parts: readonly Uint8Array[]): string {
  const hash = createHash('sha256').update('tidemark.model/1\0');
  for (const part of parts) {
    const length = new DataView(new ArrayBuffer(8));
    length.setBigUint64(0, BigInt(part.length), true);
    hash.update(new Uint8Array(length.buffer)).update(part);
  }
  return hash.digest('hex').slice(0, 32);
}

async function readNamed(files: FileReader, folder: string, name: string, mostBytes: number): Promise<Uint8Array | null> {
  const real = await files.realPath(join(folder, name));
  return real === null ? null : files.readSmall(real, mostBytes);
}

function parseJson(bytes: Uint8Array, where: string): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    throw new TidemarkError('model', `the file is not JSON`, { where, cause, hint: 'download it again' });
  }
}
