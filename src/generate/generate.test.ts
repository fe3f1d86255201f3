import { beforeEach, describe, expect, it } from 'vitest';
import { type FaultyHost, faultyHost, SimulatedCrash } from '../../test/support/faulty-host.ts';
import { type Survivor, survivorCorners } from '../../test/support/memory-crash.ts';
import { createMemoryFiles } from '../../test/support/memory-files.ts';
import { memoryHost } from '../../test/support/memory-host.ts';
import type { Prompts } from '../dataset/dataset.ts';
import type { Host, Http } from '../host/host.ts';
import { generate } from './generate.ts';
import type { GenerateOptions } from './options.ts';

interface ChatBody {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly seed: number;
}

/** Ids of the prompts that were asked, one entry a request. */
let asked: string[] = [];
beforeEach(() => {
  asked = [];
});

/** A server whose answers depend on the request alone. */
const http: Http = {
  async request({ url, body }) {
    if (url.endsWith('/v1/models')) return json(200, { data: [{ id: 'm' }] });
    const { messages, seed } = body as ChatBody;
    const question = messages.at(-1)?.content ?? '';
    asked.push(question);
    await new Promise((resolve) => setImmediate(resolve));
    if (question === 'no') return json(400, { error: { message: 'too long' } });
    const content = `${question}:${seed}`;
    return json(200, {
      prompt_token_ids: [...Buffer.from(messages.map((message) => message.content).join('|'))],
      choices: [{ message: { content }, finish_reason: 'stop', token_ids: [...Buffer.from(content)] }],
    });
  },
  close: async () => undefined,
};

function json(status: number, value: unknown) {
  return { status, headers: {}, body: new Uint8Array(Buffer.from(JSON.stringify(value))) };
}

function promptsOf(questions: readonly string[]): Prompts {
  return {
    path: '/p.jsonl',
    count: questions.length,
    problems: [],
    problemCount: 0,
    fingerprint: questions.join(),
    idAt: (place) => `id-${questions[place]}`,
    read: async (place) => ({ id: `id-${questions[place]}`, messages: [{ role: 'user', content: questions[place] ?? '' }] }),
    close: async () => undefined,
  };
}

const options: GenerateOptions = {
  output: '/data/out.jsonl',
  urls: ['http://a'],
  model: null,
  sampling: { temperature: 1, topP: 1, maxTokens: 8, seed: 7, extra: {} },
  inFlight: 3,
  timeoutMs: 1000,
  attempts: 3,
  consecutiveFailures: 4,
  acceptFailures: false,
  takeOver: false,
  drainMs: 1000,
};

type Files = ReturnType<typeof createMemoryFiles>;

function newFiles(): Files {
  return createMemoryFiles({ folders: ['/data'] });
}

/** A process on that disk; those before it are dead. */
function hostOn(files: Files, pid: number): Host {
  return { ...memoryHost({ files, identity: { pid }, seed: pid, isAlive: (other) => (other.pid === pid ? 'alive' : 'dead') }), http };
}

async function outputOf(files: Files): Promise<string> {
  return Buffer.from((await files.readSmall('/data/out.jsonl', 1e6)) ?? new Uint8Array(0)).toString('utf8');
}

const six = promptsOf(['1', '2', '3', '4', '5', '6']);

describe('generate', () => {
  it('answers all, publishes them in order, and has nothing to do the second time', async () => {
    const files = newFiles();
    expect(await generate(hostOn(files, 1), six, options)).toMatchObject({
      outcome: 'complete',
      reason: null,
      prompts: 6,
      answered: 6,
      answeredNow: 6,
    });
    const output = await outputOf(files);
    expect(
      output
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { id: string }).id),
    ).toEqual(['id-1', 'id-2', 'id-3', 'id-4', 'id-5', 'id-6']);
    const faulty = faultyHost(hostOn(files, 2));
    expect(await generate(faulty, six, options)).toMatchObject({ outcome: 'complete', answered: 6, answeredNow: 0 });
    expect(faulty.trace).toEqual([]);
    expect(asked).toHaveLength(6);
  });

  it('keeps refusals for good, and publishes without them only when told to', async () => {
    const files = newFiles();
    const prompts = promptsOf(['1', '2', '3', 'no', '4']);
    const first = await generate(hostOn(files, 1), prompts, { ...options, inFlight: 1 });
    expect(first).toMatchObject({ outcome: 'incomplete', answered: 4, failed: { open: 0, refused: 1, accepted: 0 } });
    expect(first.reason).toContain('1 were refused by the server for good');
    expect(await outputOf(files)).toBe('');
    expect(await generate(hostOn(files, 2), prompts, options)).toMatchObject({ outcome: 'incomplete', answeredNow: 0 });
    expect(asked.filter((question) => question === 'no')).toHaveLength(1);
    expect(await generate(hostOn(files, 3), prompts, { ...options, acceptFailures: true })).toMatchObject({
      outcome: 'complete',
      failed: { accepted: 1 },
    });
    expect((await outputOf(files)).trim().split('\n')).toHaveLength(4);
    expect(await generate(hostOn(files, 4), prompts, options)).toMatchObject({ outcome: 'complete', failed: { accepted: 1 } });
  });

  it('stops soon when every prompt is refused, and calls none of them final', async () => {
    const files = newFiles();
    const prompts = { ...promptsOf(Array.from({ length: 50 }, () => 'no')), idAt: (place: number) => `id-${place}` };
    const result = await generate(hostOn(files, 1), prompts, { ...options, inFlight: 1 });
    expect(result).toMatchObject({ outcome: 'incomplete', answered: 0, failed: { open: 4, refused: 0 } });
    expect(result.reason).toContain('the last 4 prompts failed, the last one so: the server answered 400: too long');
  });

  it('names every setting that differs, and writes nothing', async () => {
    const files = newFiles();
    await generate(hostOn(files, 1), six, options);
    const host = faultyHost(hostOn(files, 2));
    const other = { ...options, sampling: { ...options.sampling, temperature: 0.5, extra: { top_k: 4 } } };
    await expect(generate(host, promptsOf(['1', '2']), other)).rejects.toMatchObject({ code: 'run-mismatch' });
    await expect(generate(host, promptsOf(['1', '2']), other)).rejects.toThrow(
      /prompts\.count: 6 here, 2 asked\n.*prompts\.fingerprint: .*\n.*sampling\.temperature: 1 here, 0\.5 asked\n.*sampling\.extra\.top_k: nothing here, 4 asked$/,
    );
    expect(host.trace).toEqual([]);
  });

  it('never replaces a file that is not its own', async () => {
    const files = newFiles();
    const file = await files.create('/data/out.jsonl', 0o644);
    await file.close();
    await expect(generate(hostOn(files, 1), six, options)).rejects.toMatchObject({ code: 'usage' });
    expect(await files.stat('/data/out.jsonl.tidemark')).toBeNull();
  });

  it('is refused while another process lives, and asks a person about another machine', async () => {
    const files = newFiles();
    // The first process dies before it can let go.
    await expect(
      generate(faultyHost(hostOn(files, 1), { faults: [{ kind: 'stop', at: { op: 'write', path: /part-/, nth: 3 } }] }), six, options),
    ).rejects.toThrow(SimulatedCrash);
    const others = (alive: 'alive' | 'unknown'): Host => ({ ...memoryHost({ files, identity: { pid: 9 }, isAlive: () => alive }), http });
    await expect(generate(others('alive'), six, options)).rejects.toMatchObject({
      code: 'run-locked',
      message: expect.stringContaining('process 1 on memory'),
    });
    await expect(generate(others('unknown'), six, options)).rejects.toMatchObject({ code: 'run-unknown-holder' });
    expect(await generate(others('unknown'), six, { ...options, takeOver: true })).toMatchObject({ outcome: 'complete' });
  });

  it('ends with the disk, and goes on from there when there is room', async () => {
    for (const [path, nth] of [
      [/part-/, 1],
      [/part-/, 3],
      [/out\.jsonl\.1\.tmp/, 1],
      [/settings/, 1],
    ] as const) {
      const files = newFiles();
      const full = faultyHost(hostOn(files, 1), {
        faults: [{ kind: 'fail', at: { op: 'write', path, nth }, error: 'ENOSPC', keepBytes: 5 }],
      });
      let counted = 0;
      const work = generate(full, six, { ...options, inFlight: 1, onProgress: ({ answered }) => (counted = Math.max(counted, answered)) });
      await expect(work).rejects.toMatchObject({ code: 'storage-full', retry: 'later' });
      expect(await files.stat('/data/out.jsonl')).toBeNull();
      asked = [];
      expect(await generate(hostOn(files, 2), six, options)).toMatchObject({ outcome: 'complete', answeredNow: 6 - counted });
      expect(asked).toHaveLength(6 - counted);
    }
  });

  it('survives death at every step, and power loss behind it: each answer once, and the same bytes', async () => {
    const plain = newFiles();
    const trial = faultyHost(hostOn(plain, 1));
    await generate(trial, six, { ...options, inFlight: 2 });
    const expected = await outputOf(plain);
    const steps = trial.trace.length;
    expect(steps).toBeGreaterThan(20);
    const survivors: readonly Survivor[] = [...survivorCorners, 11, 12, 13];
    for (let step = 1; step <= steps; step += 1) {
      for (const fault of [
        { kind: 'stop', at: step },
        { kind: 'stop', at: step, when: 'after' },
        { kind: 'tear', at: step },
      ] as const) {
        const files = newFiles();
        const dying: FaultyHost = faultyHost(hostOn(files, 1), { faults: [fault] });
        let counted = 0;
        await generate(dying, six, {
          ...options,
          inFlight: 2,
          onProgress: ({ answered }) => (counted = dying.dead ? counted : Math.max(counted, answered)),
        }).catch((error: unknown) => {
          if (!(error instanceof SimulatedCrash)) throw error;
        });
        for (const survivor of survivors) {
          const left = files.crash(survivor);
          asked = [];
          const result = await generate(hostOn(left, 2), six, options);
          const where = `step ${step} ${JSON.stringify(fault)} ${survivor}`;
          expect(result.outcome, where).toBe('complete');
          expect(await outputOf(left), where).toBe(expected);
          // What was counted before the crash is never asked for again.
          expect(asked.length, where).toBeLessThanOrEqual(6 - counted);
        }
      }
    }
  });
});
