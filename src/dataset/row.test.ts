import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TidemarkError } from '../core/errors.ts';
import type { ConversationEncoder, Message } from './dataset.ts';
import { parseMessages, parseRow, rowIdOf } from './row.ts';

const without = { encoder: null, maxTokens: null };

/** One token a letter; what an assistant says counts. */
const letters: ConversationEncoder = {
  tokenizerDigest: '',
  templateDigest: '',
  encode(messages: readonly Message[]) {
    if (messages.some(({ role }) => role === 'critic')) throw new TidemarkError('dataset', 'the chat template refuses it');
    const bits = messages.flatMap(({ role, content }) =>
      [...content].map((letter) => [letter.codePointAt(0) ?? 0, role === 'assistant' ? 1 : 0] as const),
    );
    return { inputIds: Uint32Array.from(bits, ([id]) => id), lossMask: Uint8Array.from(bits, ([, bit]) => bit) };
  },
};
const withLetters = { encoder: letters, maxTokens: null };

function problemOf(value: unknown, options: Parameters<typeof parseRow>[1] = withLetters): string {
  const row = parseRow(value, options);
  return row.kind === 'problem' ? row.message : `no problem but ${row.kind}`;
}

describe('a row with input_ids', () => {
  it('is taken as it stands; without a mask every token counts', () => {
    expect(parseRow({ id: 'a', input_ids: [1, 4294967295, 0], loss_mask: [0, 1, 0] }, without)).toEqual({
      kind: 'row',
      id: 'a',
      inputIds: Uint32Array.of(1, 4294967295, 0),
      lossMask: Uint8Array.of(0, 1, 0),
    });
    expect(parseRow({ input_ids: [5, 6], loss_mask: null, messages: null }, without)).toMatchObject({ lossMask: Uint8Array.of(1, 1) });
  });

  it('wins over a conversation in the same row', () => {
    expect(parseRow({ input_ids: [9], messages: [{ role: 'assistant', content: 'abc' }] }, withLetters)).toMatchObject({
      inputIds: Uint32Array.of(9),
    });
  });

  it.each([
    [{ input_ids: [] }, 'input_ids is empty'],
    [{ input_ids: 'abc' }, 'input_ids must be a list of token ids, and is a string'],
    [{ input_ids: [[1, 2]] }, 'input_ids[0] is no token id: [1,2]'],
    [{ input_ids: [1, -1] }, 'input_ids[1] is no token id: -1'],
    [{ input_ids: [1.5] }, 'input_ids[0] is no token id: 1.5'],
    [{ input_ids: [4294967296] }, 'input_ids[0] is no token id: 4294967296'],
    [{ input_ids: [null] }, 'input_ids[0] is no token id: null'],
    [{ input_ids: [1, 2], loss_mask: [1] }, 'loss_mask has 1 entries and input_ids 2'],
    [{ input_ids: [1], loss_mask: [2] }, 'loss_mask[0] must be 0 or 1, and is 2'],
    [{ input_ids: [1], loss_mask: 'x' }, 'loss_mask must be a list of 0 and 1, and is a string'],
    [[1, 2], 'a row must be a JSON object, and this is a list'],
    [null, 'a row must be a JSON object, and this is null'],
    [{ text: 'x' }, 'it has none of input_ids, messages, conversations; its keys are text'],
  ])('%j is a problem', (value, message) => {
    expect(problemOf(value)).toBe(message);
  });

  it('that is over the limit is dropped; one at the limit is not', () => {
    expect(problemOf({ input_ids: [1, 2, 3] }, { encoder: null, maxTokens: 2 })).toBe('too long: 3 tokens, and the limit is 2');
    expect(parseRow({ input_ids: [1, 2] }, { encoder: null, maxTokens: 2 }).kind).toBe('row');
  });

  it('comes back exactly for any ids and mask', () => {
    const tokens = fc.array(fc.tuple(fc.integer({ min: 0, max: 0xffffffff }), fc.integer({ min: 0, max: 1 })), { minLength: 1 });
    fc.assert(
      fc.property(tokens, (pairs) => {
        const text = JSON.stringify({ input_ids: pairs.map(([id]) => id), loss_mask: pairs.map(([, bit]) => bit) });
        const row = parseRow(JSON.parse(text), without);
        if (row.kind !== 'row') throw new Error(row.kind);
        expect([...row.inputIds]).toEqual(pairs.map(([id]) => id));
        expect([...row.lossMask]).toEqual(pairs.map(([, bit]) => bit));
      }),
    );
  });
});

describe('a row with a conversation', () => {
  it('is encoded, in either form', () => {
    const expected = { kind: 'row', id: '7', inputIds: Uint32Array.of(97, 98, 99), lossMask: Uint8Array.of(0, 1, 1) };
    const parts = [
      { type: 'text', text: 'b' },
      { type: 'text', text: 'c' },
    ];
    expect(
      parseRow(
        {
          id: 7,
          messages: [
            { role: 'user', content: 'a' },
            { role: 'assistant', content: 'bc' },
          ],
        },
        withLetters,
      ),
    ).toEqual(expected);
    expect(
      parseRow(
        {
          id: 7,
          messages: [
            { role: 'user', content: 'a' },
            { role: 'assistant', content: parts },
          ],
        },
        withLetters,
      ),
    ).toEqual(expected);
    expect(
      parseRow(
        {
          uuid: '7',
          conversations: [
            { from: 'human', value: 'a' },
            { from: 'gpt', value: 'bc' },
          ],
        },
        withLetters,
      ),
    ).toEqual(expected);
  });

  it('needs an encoder', () => {
    expect(parseRow({ messages: [{ role: 'user', content: 'a' }] }, without)).toEqual({ kind: 'needs-encoder' });
  });

  it.each([
    [{ messages: [] }, 'messages is empty'],
    [{ messages: 'hello' }, 'messages must be a list of turns, and is a string'],
    [{ conversations: ['a'] }, 'conversations[0] must be an object, and is a string'],
    [{ messages: [{ content: 'a' }] }, 'messages[0] says neither role nor from'],
    [{ messages: [{ role: 'user' }] }, 'messages[0] has no text content'],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, 'messages[0] has no text content'],
    [{ messages: [{ role: 'user', content: 'a' }] }, 'it has no assistant token, so nothing can be learned from it'],
    [{ messages: [{ role: 'assistant', content: '' }] }, 'the chat template makes no token of it'],
    [{ messages: [{ role: 'critic', content: 'a' }] }, 'the chat template refuses it'],
    [
      { messages: [{ role: 'assistant', content: 'a', tool_calls: [] }] },
      'messages[0] has tool calls, which are not supported: give the row as input_ids',
    ],
    [{ messages: [{ role: 'user', content: 'a' }], tools: [] }, 'it has `tools`, which are not supported: give the row as input_ids'],
  ])('%j is a problem', (value, message) => {
    expect(problemOf(value)).toBe(message);
  });

  it('knows ShareGPT roles and nothing of the prototype', () => {
    const turns = ['human', 'gpt', 'system', 'constructor'].map((from) => ({ from, value: 'x' }));
    const messages = parseMessages(turns, 'conversations');
    expect(typeof messages === 'string' ? messages : messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'system',
      'constructor',
    ]);
  });

  it('keeps the thinking of an answer for the template', () => {
    expect(parseMessages([{ role: 'assistant', content: 'a', reasoning_content: 'hm' }], 'messages')).toEqual([
      { role: 'assistant', content: 'a', reasoning_content: 'hm' },
    ]);
  });
});

it('any JSON value is a row or a problem', () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => ['row', 'problem', 'needs-encoder'].includes(parseRow(value, without).kind)));
});

it('a row id is a text or a whole number', () => {
  expect([{ id: 'a' }, { uuid: 'b' }, { id: 3 }, { id: '' }, { id: 1.5 }, { id: {} }, {}, null].map(rowIdOf)).toEqual([
    'a',
    'b',
    '3',
    null,
    null,
    null,
    null,
    null,
  ]);
});
