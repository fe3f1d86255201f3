import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocalHost } from '../host/local.ts';
import { loadConfig, resolveLayers } from './config.ts';
import { writeInitialConfig } from './init.ts';
import { readModelShape } from './init-inspect.ts';

const host = createLocalHost();
const model = join(import.meta.dirname, '../../models/tide-5m');
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-init-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
  await host.http.close();
});

const talk = {
  messages: [
    { role: 'user', content: 'What is 2 plus 2?' },
    { role: 'assistant', content: '2 plus 2 is 4.' },
  ],
};

describe('writeInitialConfig', () => {
  it('says what it found, and its values come back from loadConfig', async () => {
    const server = createServer((request, response) => {
      response.end(request.url === '/version' ? '{"version":"0.22.1"}' : '{"data":[{"id":"tide-5m","max_model_len":1024}]}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const at = await mkdtemp(join(folder, 'i-'));
    await writeFile(join(at, 'rows.jsonl'), `${JSON.stringify(talk)}\n`.repeat(40));
    const result = await writeInitialConfig(host, { model, dataset: 'rows.jsonl', url, output: 'my states', path: null, cwd: at });
    await new Promise((resolve) => server.close(resolve));

    expect(result.found).toEqual([
      'model: LlamaForCausalLM, 8 layers, 256 wide, at most 1 024 tokens',
      expect.stringMatching(/^dataset: 40 rows with messages; of the first 40 the longest has (\d+) tokens, the mean is \1$/),
      'server: version 0.22.1, serves tide-5m (at most 1 024 tokens)',
      expect.stringMatching(/^size: 2 048 bytes a token, so about [\d.]+ MB in all$/),
    ]);
    expect(await readFile(result.path, 'utf8')).toBe(result.text);
    const settings = resolveLayers(await loadConfig(host.files, null, {}, at), 8);
    expect(settings).toMatchObject({
      output: join(at, 'my states'),
      dataset: { path: join(at, 'rows.jsonl') },
      target: { model, revision: null },
      engine: { urls: [url], staging: '/dev/shm/tidemark', inFlight: 8, timeoutMs: 120_000 },
      states: { auxiliaryLayers: [2, 4, 5], maxTokens: null },
      fileMode: 0o644,
    });
  });

  it('writes all the same when nothing can be seen, and says so', async () => {
    const at = await mkdtemp(join(folder, 'i-'));
    const result = await writeInitialConfig(host, {
      model: 'gone',
      dataset: 'gone.jsonl',
      url: 'http://127.0.0.1:9',
      output: 'o: #1',
      path: 'conf/x.yaml',
      cwd: at,
    });
    expect(result.path).toBe(join(at, 'conf/x.yaml'));
    expect(result.found[0]).toContain('has no config.json');
    expect(result.found[1]).toContain('no such file yet');
    expect(result.text).toContain('not reached when this was written');
    const settings = await loadConfig(host.files, 'conf/x.yaml', {}, at);
    expect(settings).toMatchObject({ output: join(at, 'o: #1'), target: { model: join(at, 'gone') }, states: { auxiliaryLayers: null } });
  });

  it('leaves what was not given to fill in', async () => {
    const at = await mkdtemp(join(folder, 'i-'));
    await writeInitialConfig(host, { model: null, dataset: null, url: null, output: null, path: null, cwd: at });
    await expect(loadConfig(host.files, null, {}, at)).rejects.toMatchObject({
      message: 'tidemark.yaml: still needed: output (--output), dataset (--dataset), target.model (--model), engine.urls (--url)',
    });
  });

  it('never replaces a file', async () => {
    const at = await mkdtemp(join(folder, 'i-'));
    await writeFile(join(at, 'tidemark.yaml'), 'mine');
    const options = { model: null, dataset: null, url: null, output: null, path: null, cwd: at };
    await expect(writeInitialConfig(host, options)).rejects.toMatchObject({
      code: 'config',
      message: expect.stringContaining('exists already'),
    });
    expect(await readFile(join(at, 'tidemark.yaml'), 'utf8')).toBe('mine');
  });

  it('estimates the rows of a large file and names a bad row', async () => {
    const at = await mkdtemp(join(folder, 'i-'));
    const row = `{"input_ids":[${'7,'.repeat(999)}7],"loss_mask":[${'1,'.repeat(999)}1]}\n`;
    await writeFile(join(at, 'd.jsonl'), `oops\n${row.repeat(3000)}`);
    const { found } = await writeInitialConfig(host, { model: null, dataset: 'd.jsonl', url: null, output: null, path: null, cwd: at });
    const [, rows] = /about ([\d ]+) rows/.exec(found[0] ?? '') ?? [];
    expect(Math.abs(Number(rows?.replaceAll(' ', '')) - 3001)).toBeLessThan(10);
    expect(found[0]).toContain('with input_ids and loss_mask; of the first 200 the longest has 1 000 tokens');
    expect(found[0]).toContain('1 of them cannot be used, line 1: not JSON');
  });

  it('looks into packed datasets and tables, and says what is no dataset', async () => {
    const at = await mkdtemp(join(folder, 'i-'));
    const init = async (dataset: string, path: string): Promise<string | undefined> =>
      (await writeInitialConfig(host, { model: null, dataset, url: null, output: null, path, cwd: at })).found[0];
    const lines = Array.from({ length: 300 }, (_, row) => `${JSON.stringify({ input_ids: [row, 2, 3] })}\n`);
    await writeFile(join(at, 'd.jsonl.gz'), gzipSync(lines.join('')));
    expect(await init('d.jsonl.gz', 'a.yaml')).toBe(
      'dataset: 300 rows with input_ids; of the first 200 the longest has 3 tokens, the mean is 3',
    );
    const columnData = [{ name: 'messages', data: ['a', 'b'].map((content) => [{ role: 'user', content }]), type: 'JSON' as const }];
    await writeFile(join(at, 'd.parquet'), Buffer.from(parquetWriteBuffer({ columnData })));
    expect(await init('d.parquet', 'b.yaml')).toMatch(/^dataset: 2 rows with messages/);
    await writeFile(join(at, 'd.zip'), Buffer.from('PK\x03\x04 and so on'));
    expect(await init('d.zip', 'c.yaml')).toMatch(/^dataset: the dataset .* is a zip archive or a torch file/);
  });
});

it('a multimodal model has its layers under text_config', async () => {
  const at = await mkdtemp(join(folder, 'kimi-'));
  const config = { architectures: ['LlamaForCausalLM'], text_config: { num_hidden_layers: 61, hidden_size: 7168, rms_norm_eps: 1e-5 } };
  await writeFile(join(at, 'config.json'), JSON.stringify(config));
  expect(await readModelShape(host.files, at)).toMatchObject({ layerCount: 61, hiddenSize: 7168, maxPositions: null });
  await writeFile(join(at, 'config.json'), '{}');
  await expect(readModelShape(host.files, at)).rejects.toMatchObject({ code: 'model' });
});
