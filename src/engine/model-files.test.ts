import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLocalFiles } from '../host/local-files.ts';
import { readTargetModel } from './model-files.ts';

const files = createLocalFiles();
const tide = new URL('../../models/tide-5m', import.meta.url).pathname;
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-model-'));
});
afterEach(() => rm(folder, { recursive: true }));

const llama = { architectures: ['LlamaForCausalLM'], hidden_size: 4, num_hidden_layers: 6, vocab_size: 100, rms_norm_eps: 1e-6 };

/** A safetensors file of one-dimensional tensors, each as its dtype and bytes. */
function safetensors(tensors: Readonly<Record<string, readonly [dtype: string, bytes: Uint8Array, length?: number]>>): Uint8Array {
  let at = 0;
  const header = Object.entries(tensors).map(([name, [dtype, bytes, length = 4]]) => {
    const from = at;
    at += bytes.length;
    return [name, { dtype, shape: [length], data_offsets: [from, at] }];
  });
  const text = JSON.stringify(Object.fromEntries(header));
  const padded = text.padEnd(Math.ceil(text.length / 8) * 8);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  return Buffer.concat([length, Buffer.from(padded), ...Object.values(tensors).map(([, bytes]) => bytes)]);
}

const f32 = (...values: number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);
const u16 = (...words: number[]): Uint8Array => new Uint8Array(Uint16Array.from(words).buffer);

async function model(config: unknown, weights: Uint8Array, name = 'model.safetensors'): Promise<void> {
  await writeFile(join(folder, 'config.json'), JSON.stringify(config));
  await writeFile(join(folder, name), weights);
}

const read = () => readTargetModel(files, folder);

describe('readTargetModel', () => {
  it('reads the embedded target', async () => {
    const target = await readTargetModel(files, tide);
    expect(target).toMatchObject({
      architecture: 'LlamaForCausalLM',
      layerCount: 8,
      hiddenSize: 256,
      vocabularySize: 1344,
      normTensor: 'model.norm.weight',
    });
    expect(target.norm).toMatchObject({ kind: 'rms', epsilon: 1e-5, bias: null });
    expect(target.norm.weight.length).toBe(256);
    expect(target.digest).toMatch(/^[0-9a-f]{32}$/);
  });

  it.each([
    ['F32', f32(1, 2, -0.5, 4)],
    ['BF16', u16(0x3f80, 0x4000, 0xbf00, 0x4080)],
    ['F16', u16(0x3c00, 0x4000, 0xb800, 0x4400)],
  ])('reads a norm of dtype %s', async (dtype, bytes) => {
    await model(llama, safetensors({ 'model.norm.weight': [dtype, bytes] }));
    expect([...(await read()).norm.weight]).toEqual([1, 2, -0.5, 4]);
  });

  it('reads one shard of many, through links as a Hugging Face cache has them', async () => {
    await mkdir(join(folder, 'blobs'));
    await writeFile(join(folder, 'blobs', 'a'), safetensors({ 'language_model.model.norm.weight': ['F32', f32(1, 2, 3, 4)] }));
    await symlink('blobs/a', join(folder, 'model-00002-of-00002.safetensors'));
    const index = {
      metadata: { total_size: 99 },
      weight_map: {
        'lm_head.weight': 'model-00001-of-00002.safetensors',
        'language_model.model.norm.weight': 'model-00002-of-00002.safetensors',
      },
    };
    await writeFile(join(folder, 'model.safetensors.index.json'), JSON.stringify(index));
    const text = {
      architectures: ['DeepseekV3ForCausalLM'],
      hidden_size: 4,
      num_hidden_layers: 61,
      vocab_size: 163_840,
      rms_norm_eps: 1e-5,
    };
    await writeFile(join(folder, 'config.json'), JSON.stringify({ architectures: ['KimiK25ForConditionalGeneration'], text_config: text }));
    expect(await read()).toMatchObject({
      architecture: 'KimiK25ForConditionalGeneration',
      layerCount: 61,
      normTensor: 'language_model.model.norm.weight',
    });
  });

  it('knows norms with 1 + w and layer norms with a bias', async () => {
    const gemma = { architectures: ['Gemma3ForConditionalGeneration'], text_config: { hidden_size: 4, num_hidden_layers: 34 } };
    await model(gemma, safetensors({ 'model.language_model.norm.weight': ['F32', f32(0, 0, 0, 0)] }));
    expect(await read()).toMatchObject({ vocabularySize: null, norm: { kind: 'rms-plus-one', epsilon: 1e-6 } });
    const neox = { architectures: ['GPTNeoXForCausalLM'], hidden_size: 4, num_hidden_layers: 2, vocab_size: 9, layer_norm_eps: 1e-5 };
    const weights = {
      'gpt_neox.final_layer_norm.weight': ['F32', f32(1, 1, 1, 1)],
      'gpt_neox.final_layer_norm.bias': ['F32', f32(5, 6, 7, 8)],
    } as const;
    await model(neox, safetensors(weights));
    const target = await read();
    expect(target.norm.kind).toBe('layer');
    expect([...(target.norm.bias ?? [])]).toEqual([5, 6, 7, 8]);
  });

  it('gives one digest to one model, wherever it lies, and another when configuration or norm differ', async () => {
    const weights = safetensors({ 'model.norm.weight': ['F32', f32(1, 2, 3, 4)] });
    await model(llama, weights);
    const { digest } = await read();
    await writeFile(join(folder, 'README.md'), 'notes');
    expect((await read()).digest).toBe(digest);
    await model({ ...llama, rope_theta: 5 }, weights);
    expect((await read()).digest).not.toBe(digest);
    await model(llama, safetensors({ 'model.norm.weight': ['F32', f32(1, 2, 3, 4.5)] }));
    expect((await read()).digest).not.toBe(digest);
  });

  const good = safetensors({ 'model.norm.weight': ['F32', f32(1, 2, 3, 4)] });
  it.each<[string, unknown, Uint8Array, RegExp, RegExp]>([
    [
      'an unknown architecture',
      { ...llama, architectures: ['OlmoForCausalLM'] },
      good,
      /norm of OlmoForCausalLM is not known/,
      /LlamaForCausalLM, .*GemmaForCausalLM/,
    ],
    ['the name of a prototype', { ...llama, architectures: ['constructor'] }, good, /norm of constructor is not known/, /known are/],
    ['no architecture', { ...llama, architectures: undefined }, good, /no architecture/, /full model/],
    ['no epsilon', { ...llama, rms_norm_eps: undefined }, good, /epsilon of the final norm \(rms_norm_eps/, /add it to config/],
    ['no width', { ...llama, hidden_size: 'four' }, good, /hidden size \(hidden_size/, /download/],
    ['another width', { ...llama, hidden_size: 8 }, good, /is \[4\], and the hidden size of config.json is 8/, /belong together/],
    ['an array', [], good, /not a JSON object/, /download/],
    [
      'other names',
      llama,
      safetensors({ 'decoder.norm_out.weight': ['F32', f32(1, 2, 3, 4)] }),
      /no final norm.*has decoder\.norm_out\.weight/,
      /full model/,
    ],
    [
      'a quantised norm',
      llama,
      safetensors({ 'model.norm.weight': ['I8', new Uint8Array(4)] }),
      /is I8; a final norm is F32/,
      /original model/,
    ],
    ['a NaN', llama, safetensors({ 'model.norm.weight': ['F32', f32(1, Number.NaN, 3, 4)] }), /not finite/, /download/],
    [
      'a bias that the norm does not have',
      llama,
      safetensors({ 'model.norm.weight': ['F32', f32(1, 2, 3, 4)], 'model.norm.bias': ['F32', f32(1, 2, 3, 4)] }),
      /has a bias/,
      /belong/,
    ],
    ['a cut download', llama, good.subarray(0, -3), /damaged/, /download/],
  ])('refuses %s', async (_, config, weights, message, hint) => {
    await model(config, weights);
    await expect(read()).rejects.toMatchObject({
      code: 'model',
      message: expect.stringMatching(message),
      hint: expect.stringMatching(hint),
    });
  });

  it('names the file that is missing and why it is needed', async () => {
    await expect(read()).rejects.toMatchObject({
      code: 'model',
      message: expect.stringMatching(/no config\.json/),
      hint: expect.stringMatching(/final norm/),
    });
    await writeFile(join(folder, 'config.json'), JSON.stringify(llama));
    await expect(read()).rejects.toMatchObject({
      message: expect.stringMatching(/no model\.safetensors and no model\.safetensors\.index\.json/),
    });
    const index = { weight_map: { 'model.norm.weight': 'model-00002-of-00002.safetensors' } };
    await writeFile(join(folder, 'model.safetensors.index.json'), JSON.stringify(index));
    await expect(read()).rejects.toMatchObject({
      message: expect.stringMatching(/no model-00002-of-00002\.safetensors, which holds its final norm/),
    });
    await writeFile(join(folder, 'model.safetensors.index.json'), '{"weight_map":{"model.norm.weight":"../../etc/passwd"}}');
    await expect(read()).rejects.toMatchObject({ message: expect.stringMatching(/no final norm/) });
    await writeFile(join(folder, 'config.json'), 'x');
    await expect(read()).rejects.toMatchObject({ message: expect.stringMatching(/not JSON/) });
  });
});
