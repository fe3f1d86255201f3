import { describe, expect, it } from 'vitest';
import type { Message } from '../dataset/dataset.ts';
import { type Answer, answerConversation } from './conversation.ts';
import { requestSeed, type Sampling } from './sampling.ts';

const sampling: Sampling = { temperature: 0.7, topP: 0.9, maxTokens: 16, seed: 1, extra: { top_k: 5 } };
const user = (content: string): Message => ({ role: 'user', content });

/** A token a letter; each turn ends in 0. */
const idsOf = (messages: readonly Message[]) =>
  messages.flatMap(({ content }) => [...[...content].map((letter) => letter.charCodeAt(0)), 0]);

async function answered(answers: readonly Partial<Answer>[], turns: readonly Message[]) {
  const asked: Message[][] = [];
  const row = await answerConversation({ id: 'a', messages: turns }, 'm', sampling, async (messages, turn) => {
    asked.push([...messages]);
    const content = answers[turn]?.content ?? '';
    const tokenIds = [...[...content].map((letter) => letter.charCodeAt(0)), 0];
    return { content, reasoning: null, promptIds: idsOf(messages), tokenIds, finishReason: 'stop', ...answers[turn] };
  });
  return { row, asked };
}

describe('answerConversation', () => {
  it('answers every user turn on top of the answers before it', async () => {
    const { row, asked } = await answered(
      [{ content: 'A' }, { content: 'BB', finishReason: 'length' }],
      [{ role: 'system', content: 's' }, user('1'), user('2')],
    );
    expect(asked.map((messages) => messages.map(({ content }) => content).join(' '))).toEqual(['s 1', 's 1 A 2']);
    expect(row).toEqual({
      id: 'a',
      messages: [
        { role: 'system', content: 's' },
        user('1'),
        { role: 'assistant', content: 'A' },
        user('2'),
        { role: 'assistant', content: 'BB' },
      ],
      input_ids: [...Buffer.from('s\x001\0A\x002\0BB\0')],
      loss_mask: [0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1],
      finish_reason: 'length',
      turns: [
        { finish_reason: 'stop', prompt_tokens: 4, completion_tokens: 2 },
        { finish_reason: 'length', prompt_tokens: 8, completion_tokens: 3 },
      ],
      sampling: { top_k: 5, model: 'm', temperature: 0.7, top_p: 0.9, max_tokens: 16, seed: 1 },
    });
  });

  it('gives an earlier answer no mask where the later prompt holds other tokens', async () => {
    const { row } = await answered([{ content: 'A', tokenIds: [7, 0] }, { content: 'B' }], [user('1'), user('2')]);
    expect(row.turns[0]).toEqual({ finish_reason: 'stop', prompt_tokens: 2, completion_tokens: 2, retokenised: true });
    expect(row.loss_mask).toEqual([0, 0, 0, 0, 0, 0, 1, 1]);
    const shorter = await answered([{ content: 'A', tokenIds: Array(50).fill(1) }, { content: 'B' }], [user('1'), user('2')]);
    expect(shorter.row.turns[0]?.retokenised).toBe(true);
  });

  it('keeps what was thought, and leaves it out of the history', async () => {
    const { row, asked } = await answered([{ content: 'A', reasoning: 'hm' }, { content: 'B' }], [user('1'), user('2')]);
    expect(row.messages[1]).toEqual({ role: 'assistant', content: 'A', reasoning_content: 'hm' });
    expect(asked[1]?.[1]).toEqual({ role: 'assistant', content: 'A' });
  });
});

it('a seed depends on the run, the row and the turn, and on nothing else', () => {
  const seeds = [requestSeed(1, 'a', 0), requestSeed(1, 'a', 1), requestSeed(1, 'b', 0), requestSeed(2, 'a', 0)];
  expect(new Set(seeds).size).toBe(4);
  expect(requestSeed(1, 'a', 0)).toBe(seeds[0]);
  for (const seed of seeds) expect(Number.isInteger(seed) && seed >= 0 && seed < 2 ** 31).toBe(true);
});
