import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocalHost } from '../host/local.ts';
import type { ConversationEncoder, Message } from './dataset.ts';
import { sectionedEncoder } from './sectioned-encoder.ts';
import { encodeConversation, openConversationEncoder } from './tokenizer.ts';

const model = join(import.meta.dirname, '../../models/tide-5m');
const { files } = createLocalHost();
const BOS = 1;
const USER = 2;
const ASSISTANT = 3;
const END = 4;

let tokenizer: Tokenizer;
let encoder: ConversationEncoder;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-tokenizer-'));
  const json = async (name: string) => JSON.parse(await readFile(join(model, name), 'utf8')) as object;
  tokenizer = new Tokenizer(await json('tokenizer.json'), await json('tokenizer_config.json'));
  encoder = await openConversationEncoder(files, model);
});
afterAll(() => rm(folder, { recursive: true }));

/** What the template's generation tags say, written out by hand: an answer and its end count. */
function byTags(messages: readonly Message[]): { inputIds: Uint32Array; lossMask: Uint8Array } {
  const ids = [BOS];
  const mask = [0];
  for (const { role, content } of messages) {
    const text = content === '' ? [] : tokenizer.encode(content, { add_special_tokens: false }).ids;
    ids.push(role === 'assistant' ? ASSISTANT : USER, ...text, END);
    mask.push(0, ...[...text, END].map(() => (role === 'assistant' ? 1 : 0)));
  }
  return { inputIds: Uint32Array.from(ids), lossMask: Uint8Array.from(mask) };
}

describe('the shipped target', () => {
  it('gets the mask of its generation tags', () => {
    const messages = [
      { role: 'user', content: 'How many bytes are in 3 KiB?' },
      { role: 'assistant', content: 'There are 3072 bytes.' },
      { role: 'user', content: 'And in 4?' },
      { role: 'assistant', content: '4096.' },
    ];
    const { inputIds, lossMask } = encoder.encode(messages);
    expect({ inputIds, lossMask }).toEqual(byTags(messages));
    const counted = [...inputIds].filter((_, at) => lossMask[at] === 1);
    expect(tokenizer.decode(counted)).toBe('There are 3072 bytes.<|end|>4096.<|end|>');
  });

  it('gets it for any conversation', () => {
    const turn = fc.record({
      role: fc.constantFrom('user', 'assistant', 'system'),
      content: fc.oneof(fc.string(), fc.string({ unit: 'binary' })),
    });
    const conversation = fc.array(turn, { minLength: 1, maxLength: 7 });
    fc.assert(
      fc.property(conversation, (messages) => {
        expect(encoder.encode(messages)).toEqual(byTags(messages));
      }),
      { numRuns: 300 },
    );
  });

  it('has digests that tell a changed file', async () => {
    await cp(model, join(folder, 'changed'), { recursive: true, filter: (path) => !/\.(onnx|safetensors)$/.test(path) });
    const config = await readFile(join(model, 'tokenizer_config.json'), 'utf8');
    await writeFile(join(folder, 'changed/tokenizer_config.json'), config.replace('<|user|>', '<|user|> '));
    const changed = await openConversationEncoder(files, join(folder, 'changed'));
    expect(changed.tokenizerDigest).toBe(encoder.tokenizerDigest);
    expect(changed.tokenizerDigest).toMatch(/^[0-9a-f]{64}$/);
    expect(changed.templateDigest).not.toBe(encoder.templateDigest);
  });
});

describe('a model folder', () => {
  it('may hold links, and a template file that wins over the configuration', async () => {
    const at = await mkdtemp(join(folder, 'links-'));
    for (const name of ['tokenizer.json', 'tokenizer_config.json']) await symlink(join(model, name), join(at, name));
    await writeFile(
      join(at, 'chat_template.jinja'),
      '{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}{% endif %}',
    );
    const plain = await openConversationEncoder(files, at);
    expect(plain.encode([{ role: 'assistant', content: '12' }])).toEqual({
      inputIds: Uint32Array.from(tokenizer.encode('12').ids),
      lossMask: Uint8Array.of(1, 1),
    });
  });

  it.each([
    ['no file', [], 'has no tokenizer.json'],
    ['no configuration', ['tokenizer.json'], 'has no tokenizer_config.json'],
  ])('with %s is refused by name', async (_, names, message) => {
    const at = await mkdtemp(join(folder, 'bad-'));
    for (const name of names) await symlink(join(model, name), join(at, name));
    await expect(openConversationEncoder(files, at)).rejects.toMatchObject({ code: 'model', message: expect.stringContaining(message) });
  });

  it.each([
    ['{{ strftime_now("%Y-%m-%d") }}', "writes today's date"],
    ['{% if %}', 'cannot be read'],
  ])('with the template %s is refused', async (template, message) => {
    const at = await mkdtemp(join(folder, 'bad-'));
    for (const name of ['tokenizer.json', 'tokenizer_config.json']) await symlink(join(model, name), join(at, name));
    await writeFile(join(at, 'chat_template.jinja'), template);
    await expect(openConversationEncoder(files, at)).rejects.toMatchObject({ code: 'model', message: expect.stringContaining(message) });
  });
});

describe('a template that is not prefix-stable', () => {
  const letters = (text: string) => Uint32Array.from([...text], (letter) => letter.codePointAt(0) ?? 0);
  const turns = ['user', 'assistant', 'user', 'assistant'].map((role) => ({ role, content: role }));

  it('is an error that names the turn', () => {
    const dropsThinking = (messages: readonly Message[], prompt: boolean) =>
      messages
        .map(({ role, content }, at) => (role === 'assistant' && at === messages.length - 1 ? `(think)${content}` : content))
        .join('') + (prompt ? ':' : '');
    expect(() => encodeConversation(turns, dropsThinking, letters)).toThrow(/writes turn 1 \(assistant\) otherwise once more turns follow/);
  });

  it('that refuses a conversation says why', () => {
    const refuses = (): string => {
      throw new Error('roles must alternate');
    };
    expect(() => encodeConversation(turns, refuses, letters)).toThrow('the chat template refuses the conversation: roles must alternate');
  });
});

it('sections are not trusted where special tokens do not cut', () => {
  // A stand-in vocabulary in which the letter before a special token changes it.
  const crooked = {
    encode: (text: string) => ({
      ids: [...text].map((letter, at) => (letter === '#' ? 1000 + (text.codePointAt(at - 1) ?? 0) : letter.charCodeAt(0))),
      tokens: [],
      attention_mask: [],
    }),
    get_added_tokens_decoder: () =>
      new Map([[1, { content: '#', id: 1, special: true, normalized: false, lstrip: false, rstrip: false, single_word: false }]]),
  };
  const encode = sectionedEncoder(crooked as unknown as Tokenizer);
  for (const text of ['a#b#c', 'a#b#cd#e', 'ab#']) expect([...encode(text)]).toEqual(crooked.encode(text).ids);
});
