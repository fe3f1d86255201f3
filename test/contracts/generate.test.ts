import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { openPrompts } from '../../src/dataset/open-prompts.ts';
import { type GenerateSummary, generate } from '../../src/generate/generate.ts';
import type { GenerateOptions } from '../../src/generate/options.ts';
import { createLocalHost } from '../../src/host/local.ts';

const root = join(import.meta.dirname, '../..');
const host = createLocalHost();
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-generate-'));
});
afterAll(async () => {
  await host.http.close();
  await rm(folder, { recursive: true });
});

interface ChatBody {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly seed: number;
}

interface ChatServer {
  readonly url: string;
  /** Last user turns, one a request, in the order they came. */
  readonly asked: string[];
  /** Questions that are not answered until `release`. */
  hold: (question: string) => boolean;
  release(): void;
}

const open: Server[] = [];
const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** Answers depend on the request alone, as those of one model with one seed do. */
async function chatServer(): Promise<ChatServer> {
  const asked: string[] = [];
  let waiting: (() => void)[] = [];
  const chat: { hold: (question: string) => boolean } = { hold: () => false };
  const server = createServer(async (request, response) => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of request) chunks.push(chunk as Uint8Array);
    if (request.method === 'GET') return response.end('{"data":[{"id":"m"}]}');
    const { messages, seed } = JSON.parse(Buffer.concat(chunks).toString('utf8')) as ChatBody;
    const question = messages.at(-1)?.content ?? '';
    asked.push(question);
    if (chat.hold(question)) await new Promise<void>((resolve) => waiting.push(resolve));
    const content = `${question} answered with ${seed}`;
    const answer = {
      choices: [{ message: { content }, finish_reason: 'stop', token_ids: [...Buffer.from(content), 0] }],
      prompt_token_ids: [...Buffer.from(messages.map((message) => `${message.content}\0`).join(''))],
    };
    return response.end(JSON.stringify(answer));
  });
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return Object.assign(chat, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    release: () => {
      chat.hold = () => false;
      for (const resolve of waiting) resolve();
      waiting = [];
    },
  });
}

async function promptFile(count: number, turns = 1): Promise<string> {
  const path = join(await mkdtemp(join(folder, 'p-')), 'prompts.jsonl');
  const rows = Array.from({ length: count }, (_, at) => ({
    id: `id-${at + 1}`,
    messages: Array.from({ length: turns }, (_turn, turn) => ({ role: 'user', content: turn === 0 ? `${at + 1}` : `${at + 1}.${turn}` })),
  }));
  await writeFile(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  return path;
}

function optionsFor(path: string, urls: readonly string[], more: Partial<GenerateOptions> = {}): GenerateOptions {
  return {
    output: path.replace('prompts', 'out'),
    urls,
    model: null,
    sampling: { temperature: 0.7, topP: 1, maxTokens: 64, seed: 3, extra: {} },
    inFlight: 4,
    timeoutMs: 20_000,
    attempts: 3,
    retryMs: 5,
    consecutiveFailures: 16,
    acceptFailures: false,
    takeOver: false,
    drainMs: 5000,
    ...more,
  };
}

async function start(path: string, options: GenerateOptions): Promise<GenerateSummary> {
  const prompts = await openPrompts(host.files, path);
  try {
    return await generate(host, prompts, options);
  } finally {
    await prompts.close();
  }
}

/** The same work in a process of its own, which can be killed for real. Resolves once it has counted so many answers. */
async function startChild(path: string, options: GenerateOptions, untilAnswered: number): Promise<ChildProcess> {
  const script = `
    import { openPrompts } from '${root}/src/dataset/open-prompts.ts';
    import { generate } from '${root}/src/generate/generate.ts';
    import { createLocalHost } from '${root}/src/host/local.ts';
    const host = createLocalHost();
    const prompts = await openPrompts(host.files, ${JSON.stringify(path)});
    await generate(host, prompts, { ...${JSON.stringify(options)}, onProgress: ({ answered }) => console.log('answered', answered, '.') });
  `;
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  await new Promise<void>((resolve, reject) => {
    let text = '';
    child.stdout?.on('data', (chunk: Uint8Array) => {
      text += Buffer.from(chunk).toString('utf8');
      if (text.includes(`answered ${untilAnswered} .`)) resolve();
    });
    child.on('exit', (code) => reject(new Error(`the child ended with ${code}: ${text}`)));
  });
  child.removeAllListeners('exit');
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await gone;
}

async function outputOf(options: GenerateOptions) {
  const text = await readFile(options.output, 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { id: string; input_ids: number[]; loss_mask: number[]; turns: object[]; messages: object[] });
}

describe('generate against a real server', () => {
  it('killed after 5 of 8 answers, asks for what is missing and nothing else (P03)', async () => {
    const server = await chatServer();
    const path = await promptFile(8);
    const options = optionsFor(path, [server.url]);
    // Prompt 2 is answered last; 7 and 8 do not come back before the kill either, so that exactly five do.
    server.hold = (question) => ['2', '7', '8'].includes(question);
    const child = await startChild(path, options, 5);
    await kill(child);
    expect(await readdir(`${options.output}.tidemark`)).toContain('part-0001.log');
    const before = [...server.asked];
    expect(before.filter((question) => question === '2')).toHaveLength(1);
    server.release();
    server.asked.length = 0;

    const summary = await start(path, options);
    expect(summary).toMatchObject({
      outcome: 'complete',
      prompts: 8,
      answered: 8,
      answeredNow: 3,
      failed: { open: 0, refused: 0, accepted: 0 },
    });
    expect([...server.asked].sort()).toEqual(['2', '7', '8']);
    expect((await outputOf(options)).map(({ id }) => id)).toEqual(Array.from({ length: 8 }, (_, at) => `id-${at + 1}`));

    const fresh = await promptFile(8);
    await start(fresh, optionsFor(fresh, [server.url]));
    expect(await readFile(options.output, 'utf8')).toBe(await readFile(fresh.replace('prompts', 'out'), 'utf8'));
  });

  it('is locked while it runs, for processes that see each other', async () => {
    const server = await chatServer();
    const path = await promptFile(3);
    const options = optionsFor(path, [server.url]);
    server.hold = (question) => question === '3';
    const child = await startChild(path, options, 2);
    await expect(start(path, options)).rejects.toMatchObject({
      code: 'run-locked',
      message: expect.stringContaining(`process ${child.pid}`),
    });
    await kill(child);
    server.release();
    expect(await start(path, options)).toMatchObject({ outcome: 'complete', answeredNow: 1 });
    // It let go in good order, so the same process may come again.
    expect(await start(path, options)).toMatchObject({ outcome: 'complete', answeredNow: 0 });
  });

  it('told to stop, finishes the conversations in flight and no others', async () => {
    const server = await chatServer();
    const path = await promptFile(20, 2);
    const controller = new AbortController();
    const options = optionsFor(path, [server.url], { inFlight: 2, signal: controller.signal });
    server.hold = (question) => {
      if (question === '5') controller.abort();
      return false;
    };
    const stopped = await start(path, options);
    expect(stopped).toMatchObject({ outcome: 'interrupted' });
    expect(stopped.answered).toBeGreaterThanOrEqual(5);
    expect(stopped.answered).toBeLessThanOrEqual(6);
    // A conversation that was begun was also ended.
    expect(server.asked.filter((question) => question.includes('.'))).toHaveLength(stopped.answered);
    server.asked.length = 0;
    expect(await start(path, { ...options, signal: new AbortController().signal })).toMatchObject({ outcome: 'complete', answered: 20 });
    expect(server.asked).toHaveLength(2 * (20 - stopped.answered));
  });

  it('told to stop, does not wait for a server that hangs', async () => {
    const server = await chatServer();
    const path = await promptFile(3);
    const controller = new AbortController();
    server.hold = () => {
      controller.abort();
      return true;
    };
    const summary = await start(path, optionsFor(path, [server.url], { drainMs: 100, signal: controller.signal }));
    expect(summary).toMatchObject({ outcome: 'interrupted', answered: 0 });
    expect(summary.seconds).toBeLessThan(5);
  });

  it('spreads over servers, one of which is dead', async () => {
    const [one, two] = [await chatServer(), await chatServer()];
    const path = await promptFile(40);
    const summary = await start(path, optionsFor(path, [one.url, two.url, 'http://127.0.0.1:9']));
    expect(summary).toMatchObject({ outcome: 'complete', answered: 40 });
    expect(Math.min(one.asked.length, two.asked.length)).toBeGreaterThan(8);
  });

  it('gives up soon when no server lives, and the next start tries again', async () => {
    const path = await promptFile(50);
    const options = optionsFor(path, ['http://127.0.0.1:9'], { model: 'm', attempts: 2, consecutiveFailures: 6 });
    const summary = await start(path, options);
    expect(summary).toMatchObject({ outcome: 'incomplete', answered: 0 });
    expect(summary.failed.open).toBeLessThan(12);
    const server = await chatServer();
    expect(await start(path, { ...options, urls: [server.url] })).toMatchObject({ outcome: 'complete', answered: 50, failed: { open: 0 } });
  });

  it("writes the ids that the server returned, with a mask over the target's own tokens in every turn", async () => {
    const server = await chatServer();
    const path = await promptFile(1, 3);
    const options = optionsFor(path, [server.url]);
    const summary = await start(path, options);
    const [row] = await outputOf(options);
    if (row === undefined) throw new Error('no row');
    const counted = row.input_ids.filter((_, at) => row.loss_mask[at] === 1);
    expect(Buffer.from(counted).toString('utf8')).toMatch(/^1 answered with \d+\0(1\.[12] answered with \d+\0){2}$/);
    expect(row.messages).toHaveLength(6);
    expect(summary).toMatchObject({ retokenised: 0, truncated: 0, empty: 0, completionTokens: counted.length });
  });
});
