import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocalHost } from '../host/local.ts';
import { openPrompts } from './open-prompts.ts';

const { files } = createLocalHost();
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-prompts-'));
});
afterAll(() => rm(folder, { recursive: true }));

async function open(...rows: readonly unknown[]) {
  const path = join(await mkdtemp(join(folder, 'p-')), 'prompts.jsonl');
  await writeFile(path, rows.map((row) => (typeof row === 'string' ? row : JSON.stringify(row))).join('\n'));
  return openPrompts(files, path);
}

const user = (content: string) => ({ role: 'user', content });

describe('openPrompts', () => {
  it('takes every form, and leaves out answers that were given', async () => {
    const prompts = await open(
      { id: 'a', messages: [{ role: 'system', content: 's' }, user('1'), { role: 'assistant', content: 'old' }, user('2')] },
      {
        uuid: 'b',
        conversations: [
          { from: 'human', value: '3' },
          { from: 'gpt', value: 'old' },
        ],
      },
      { id: 7, prompt: '4' },
      { id: 'd', prompt: [user('5')] },
    );
    const all = await Promise.all([0, 1, 2, 3].map((place) => prompts.read(place)));
    expect(all).toEqual([
      { id: 'a', messages: [{ role: 'system', content: 's' }, user('1'), user('2')] },
      { id: 'b', messages: [user('3')] },
      { id: '7', messages: [user('4')] },
      { id: 'd', messages: [user('5')] },
    ]);
    expect([0, 1, 2, 3].map((place) => prompts.idAt(place))).toEqual(['a', 'b', '7', 'd']);
    expect(() => prompts.idAt(4)).toThrow(RangeError);
    await prompts.close();
  });

  it('names a row without an id by its content, wherever it stands', async () => {
    const one = await open({ prompt: 'x' }, { prompt: 'y' }, { prompt: 'x' });
    const other = await open({ prompt: 'y' }, { prompt: 'x' });
    expect(one.idAt(0)).toBe(other.idAt(1));
    expect(one.idAt(1)).toBe(other.idAt(0));
    expect(one.idAt(2)).toBe(`${one.idAt(0)}-2`);
    expect(one.fingerprint).not.toBe(other.fingerprint);
    await one.close();
    await other.close();
  });

  it('counts what cannot be asked and goes on', async () => {
    const prompts = await open(
      'oops',
      { id: 'a', prompt: 'x' },
      { id: 'b' },
      { id: 'c', messages: [{ role: 'assistant', content: 'x' }] },
      { id: 'd', messages: [user('x'), { role: 'tool', content: 'y' }] },
    );
    expect(prompts.count).toBe(1);
    expect(prompts.problems.map(({ line, message }) => `${line} ${message}`)).toEqual([
      expect.stringContaining('1 not JSON'),
      '3 it has none of messages, conversations, prompt',
      '4 it has no user turn, so there is nothing to answer',
      '5 it has a turn of "tool", and only system, user and assistant turns can be answered anew',
    ]);
    await prompts.close();
  });

  it('refuses an id that stands twice, naming the lines', async () => {
    await expect(open({ id: 'a', prompt: 'x' }, { id: 'b', prompt: 'y' }, { id: 'a', prompt: 'z' })).rejects.toMatchObject({
      code: 'dataset',
      message: expect.stringContaining('"a" on lines 1 and 3'),
    });
  });

  it('refuses a file without a prompt', async () => {
    await expect(open({ text: 'x' })).rejects.toMatchObject({
      code: 'dataset',
      message: expect.stringContaining('has no prompt; line 1: it has none of'),
    });
    await expect(openPrompts(files, join(folder, 'gone'))).rejects.toMatchObject({
      code: 'dataset',
      message: expect.stringContaining('there is no prompt file at'),
    });
  });
});
