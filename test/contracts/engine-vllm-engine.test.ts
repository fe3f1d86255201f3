import { existsSync } from 'node:fs';
import { link, readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import { honest } from '../support/wire-server.ts';
import { captureRow, sentIds, status, usePlace } from './engine-vllm.cases.ts';

const place = usePlace();

describe('capture', () => {
  it('sends what the connector needs', async () => {
    const found = await captureRow(place().engine());
    await found.release();
    expect(place().server.requests).toHaveLength(1);
    expect(place().server.requests[0]).toEqual({
      model: 'wire',
      prompt: [...sentIds],
      max_tokens: 1,
      temperature: 0,
      return_token_ids: true,
      request_id: expect.stringMatching(/^tm-7-2-[0-9a-f]{8}$/),
    });
  });

  it('does not wait for ever for a file that keeps changing', async () => {
    place().server.scenario = async (call) => {
      call.answer();
      for (let i = 0; i < 40; i++) {
        await writeFile(call.path, call.file().subarray(0, 50 + i * 8));
        await call.later(30);
      }
      await rm(call.path);
    };
    await expect(captureRow(place().engine())).rejects.toMatchObject({
      code: 'capture-bad',
      message: expect.stringMatching(/incomplete|still changing/),
    });
  });

  it('stops waiting for a file when told to, and removes what there is', async () => {
    place().server.scenario = async (call) => {
      await call.lock();
      await call.publish(call.file().subarray(0, 80));
      call.answer();
    };
    const stop = new AbortController();
    const waiting = captureRow(place().engine({ timeoutMs: 30_000, settleMs: 30_000 }), 1, stop.signal);
    setTimeout(() => stop.abort(new Error('enough')), 150);
    await expect(waiting).rejects.toMatchObject({ code: 'interrupted' });
    expect(await readdir(place().server.staging)).toEqual([]);
  });

  it('leaves a second name of a released file alone', async () => {
    const found = await captureRow(place().engine());
    const [name = ''] = (await readdir(place().server.staging)).filter((entry) => entry.endsWith('.safetensors'));
    await link(join(place().server.staging, name), join(place().folder, 'kept'));
    await found.release();
    expect(await readdir(place().server.staging)).toEqual([]);
    expect(existsSync(join(place().folder, 'kept'))).toBe(true);
  });

  it('says so when the file is cut while it is read', async () => {
    const found = await captureRow(place().engine());
    const [name = ''] = (await readdir(place().server.staging)).filter((entry) => entry.endsWith('.safetensors'));
    await truncate(join(place().server.staging, name), 500);
    await expect(found.readRows(0, found.tokens)).rejects.toMatchObject({
      code: 'capture-bad',
      message: expect.stringMatching(/changed or vanished/),
    });
    await found.release();
    expect(await readdir(place().server.staging)).toEqual([]);
  });

  it('explains a file that only the server may read', async () => {
    // Tests run as root, for whom no mode is an obstacle.
    const denied = async (path: string) => {
      throw new TidemarkError('storage-denied', `could not open ${path}: permission denied (EACCES)`, { where: path });
    };
    await expect(captureRow(place().engine({}, { open: denied }))).rejects.toMatchObject({
      code: 'engine-protocol',
      message: expect.stringMatching(/may not read the file that the server staged \(mode 0\d\d\d\)/),
      hint: expect.stringMatching(/as the user that runs the server.*0600/),
    });
    expect(await readdir(place().server.staging)).toEqual([]);
  });

  it('passes on that the staging volume itself fails', async () => {
    const broken = async (path: string) => {
      throw new TidemarkError('storage-failed', `could not open ${path}: input/output error (EIO)`, { where: path });
    };
    await expect(captureRow(place().engine({}, { open: broken }))).rejects.toMatchObject({
      code: 'storage-failed',
      message: expect.stringMatching(/EIO/),
    });
  });

  it('releases what somebody has deleted already', async () => {
    const found = await captureRow(place().engine());
    for (const name of await readdir(place().server.staging)) await rm(join(place().server.staging, name));
    await found.release();
  });

  it('asks for the model again after a 404: a restarted server may serve another', async () => {
    const engine = place().engine();
    place().server.scenario = status(404, '{"error":{"message":"The model `wire` does not exist."}}');
    await expect(captureRow(engine)).rejects.toMatchObject({ code: 'engine-protocol' });
    place().server.routes.set('/v1/models', { status: 200, body: '{"data":[{"id":"lora","parent":"new"},{"id":"new","parent":null}]}' });
    place().server.scenario = honest;
    await (await captureRow(engine)).release();
    expect(place().server.requests.at(-1)).toMatchObject({ model: 'new' });
  });
});

describe('describe and healthy', () => {
  it('tells model, longest prompt and what may change the numbers, without the time of the start', async () => {
    expect(await place().engine().describe()).toEqual({
      engine: 'vllm',
      model: 'wire',
      maxTokens: 511,
      state: { version: '0.22.1', root: '/models/wire', max_model_len: '512', owned_by: 'vllm' },
    });
  });

  it('does without /version', async () => {
    place().server.routes.delete('/version');
    await expect(place().engine().describe()).resolves.toMatchObject({ model: 'wire' });
  });

  it.each([
    ['no model', 200, '{"data":[]}', 'engine-protocol'],
    ['no JSON', 200, 'hello', 'engine-protocol'],
    ['not there', 404, '{}', 'engine-protocol'],
    ['starting', 503, '', 'engine-busy'],
  ])('rejects: %s', async (_, code, body, wanted) => {
    place().server.routes.set('/v1/models', { status: code, body });
    await expect(place().engine().describe()).rejects.toMatchObject({ code: wanted });
  });

  it('is not healthy when the server says so or is gone', async () => {
    const engine = place().engine();
    expect(await engine.healthy()).toBe(true);
    place().server.routes.set('/health', { status: 503, body: '' });
    expect(await engine.healthy()).toBe(false);
    await place().server.stop();
    expect(await engine.healthy()).toBe(false);
    await expect(captureRow(engine)).rejects.toMatchObject({ code: 'engine-unreachable', retry: 'later' });
  });

  it('refuses an address that is none', () => {
    expect(() => place().engine({ url: 'localhost:8000' })).toThrow(/not the address of a server/);
  });
});
