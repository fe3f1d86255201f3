import { describe, expect, test } from 'vitest';
import type { Host } from '../host/host.ts';
import { createMisbehaviour, parseMisbehaviour } from './misbehaviour.ts';

const unused = (): never => {
  throw new Error('not used in this test');
};
const host: Host = {
  get files() {
    return unused();
  },
  get http() {
    return unused();
  },
  get clock() {
    return unused();
  },
  get machine() {
    return unused();
  },
  randomBytes: unused,
};
const tools = { host, publish: unused, staging: null, kill: unused, symlink: null };
const never = new AbortController().signal;

describe('the words of --misbehave', () => {
  test('come with numbers, sizes and triggers', () => {
    expect(parseMisbehaviour(['slow=250; short:by=4,on=3,on=9', '503:every=3'])).toEqual([
      { word: 'slow', number: 250, by: 0, on: [], every: null, after: null },
      { word: 'short', number: 0, by: 4, on: [3, 9], every: null, after: null },
      { word: '503', number: 0, by: 0, on: [], every: 3, after: null },
    ]);
    expect(parseMisbehaviour(['late', 'hang:after=0'])).toEqual([
      { word: 'late', number: 2000, by: 0, on: [], every: null, after: null },
      { word: 'hang', number: 0, by: 0, on: [], every: null, after: 0 },
    ]);
    expect(parseMisbehaviour([' ; '])).toEqual([]);
  });

  test.each([
    ['shrot', /unknown word "shrot".*zero-tail.*never-completes/],
    ['toString', /unknown word "toString"/],
    ['nan=4', /nan takes no number/],
    ['slow=ten', /"ten" is not a whole number/],
    ['slow=1=2', /unknown word/],
    ['hang:by=2', /hang takes no "by"/],
    ['hang:at=2', /unknown key "at"; the keys are on, every, after and by/],
    ['hang:on', /"" is not a whole number of at least 1/],
    ['hang:every=0', /"0" is not a whole number of at least 1/],
    ['hang:every=2,every=3', /"every" comes twice/],
  ])('are refused when wrong: %s', (spec, message) => {
    expect(() => parseMisbehaviour([spec])).toThrow(message);
  });

  test('refuse a link where nobody can make one', () => {
    expect(() => createMisbehaviour(parseMisbehaviour(['link-path']), tools)).toThrow(/link-path/);
  });
});

describe('triggers', () => {
  async function statuses(spec: string, count: number): Promise<readonly unknown[]> {
    const misbehaviour = createMisbehaviour(parseMisbehaviour([spec]), tools);
    const found: unknown[] = [];
    for (let i = 0; i < count; i++) {
      const instead = await misbehaviour.next().arrive(never);
      found.push(instead === null || instead === 'drop' ? instead : instead.status);
    }
    return found;
  }

  test('count requests from 1', async () => {
    expect(await statuses('503:on=2', 3)).toEqual([null, 503, null]);
    expect(await statuses('429:every=2', 5)).toEqual([null, 429, null, 429, null]);
    expect(await statuses('drop:after=2', 4)).toEqual([null, null, 'drop', 'drop']);
    expect(await statuses('500', 2)).toEqual([500, 500]);
    expect(await statuses('400:every=2,after=2', 4)).toEqual([null, null, null, 400]);
  });

  test('a hang ends with its client and makes /health honest about it, unless health lies', async () => {
    for (const [spec, health] of [
      ['hang', false],
      ['hang;health-lies', true],
    ] as const) {
      const misbehaviour = createMisbehaviour(parseMisbehaviour([spec]), tools);
      const client = new AbortController();
      const arrival = misbehaviour.next().arrive(client.signal);
      expect(misbehaviour.health(true)).toBe(health);
      client.abort(new Error('gone'));
      await expect(arrival).rejects.toThrow('gone');
      expect(misbehaviour.health(true)).toBe(true);
    }
  });
});

describe('spoilt captures', () => {
  const capture = { tokenIds: [5, 6, 7], layerCount: 2, hiddenSize: 2, values: Float32Array.from({ length: 12 }, (_, at) => at + 1) };
  const spoil = (spec: string) =>
    createMisbehaviour(parseMisbehaviour([spec]), tools)
      .next()
      .capture(capture);

  test('differ from the honest one as their word says', () => {
    expect([...spoil('short:by=1').values]).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect([...spoil('zero-tail:by=2').values]).toEqual([1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    expect([...spoil('zero-states').values]).toEqual(Array.from({ length: 12 }, () => 0));
    expect([...spoil('nan').values].filter(Number.isNaN)).toHaveLength(1);
    expect([...spoil('inf:by=3').values].filter((value) => value === Number.POSITIVE_INFINITY)).toHaveLength(3);
    expect(spoil('drop-last-layer')).toEqual({ ...capture, layerCount: 1, values: Float32Array.of(1, 2, 5, 6, 9, 10) });
    expect([...spoil('equal-layers').values]).toEqual([1, 2, 1, 2, 5, 6, 5, 6, 9, 10, 9, 10]);
    expect(spoil('wrong-file-ids').tokenIds).toEqual([5, 6, 6]);
    expect([...capture.values]).toEqual(Array.from({ length: 12 }, (_, at) => at + 1));
  });
});
