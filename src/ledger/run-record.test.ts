import { describe, expect, it } from 'vitest';
import { memoryHost } from '../../test/support/memory-host.ts';
import type { RunIdentity } from '../core/settings.ts';
import { encodeRunRecord, readRunRecord, runIdOf } from './run-record.ts';

const FOLDER = '/out';
const ID = 'ab'.repeat(16);

const identity: RunIdentity = {
  dataset: { rows: 3, root: 'cd'.repeat(32) },
  target: { name: 'm', revision: null, digest: 'ef'.repeat(32) },
  tokenizer: null,
  truncation: { maxTokens: null, policy: 'drop' },
  layers: { convention: 'boundary/1', auxiliary: [1, 2, 3], last: 4 },
  lastState: { stored: 'post-norm', norm: 'rms epsilon 1e-5 weight 00 float32' },
  dtype: 'BF16',
  layout: { name: 'specforge', extension: 'ckpt', groupSize: 2000 },
  shardRows: 2000,
};

const adopted: RunIdentity = {
  ...identity,
  lastState: { stored: 'none', norm: '' },
  dtype: 'F16',
  layout: {
    name: 'specforge-dflash',
    extension: 'pt.gz',
    groupSize: 0,
    tree: {
      pattern: 'rows_{from}-{to}/data_{index}.pt.gz',
      codec: 'torch-gzip',
      ranges: [[0, 9]],
      tensors: [{ name: 'input_ids', role: 'ids', axes: ['1', 'tokens'], dtype: 'I32' }],
      names: [],
      paths: '12'.repeat(32),
    },
  },
};

async function read(text: string | Uint8Array): Promise<unknown> {
  const host = memoryHost();
  await host.files.makeDirectory(`${FOLDER}/.tidemark`);
  const file = await host.files.create(`${FOLDER}/.tidemark/run.json`, 0o644);
  await file.write(typeof text === 'string' ? Buffer.from(text) : text);
  await file.close();
  return readRunRecord(host.files, FOLDER);
}

describe('run.json', () => {
  it.each([
    ['of a run that tidemark began', identity],
    ['of an adopted tree', adopted],
  ])('comes back as it was written: %s', async (_, written) => {
    const { record, bytes } = encodeRunRecord(written, ID, '2026-01-01T00:00:00.000Z');
    expect(await read(bytes)).toEqual(record);
  });

  it('of the first version has the id that it always had', () => {
    // Written down once: a run begun then must go on.
    expect(runIdOf(identity)).toBe('cb312b6374097bf261625c833442c4f1');
  });

  it.each([
    ['a field of the layout that is not known', { ...adopted, layout: { ...adopted.layout, sharding: 'by-hash' } }],
    ['a field of the tree that is not known', { ...adopted, layout: { ...adopted.layout, tree: { ...adopted.layout.tree, order: 'x' } } }],
    ['a container that is not known', { ...adopted, layout: { ...adopted.layout, tree: { ...adopted.layout.tree, codec: 'zarr' } } }],
    ['a layout that tidemark does not begin runs in, without its tree', { ...identity, layout: { ...identity.layout, name: 'eagle' } }],
  ])('is refused for %s', async (_, wrong) => {
    const record = { format: 'tidemark.run/1', id: runIdOf(wrong as RunIdentity), folderId: ID, createdAt: 'x', identity: wrong };
    await expect(read(JSON.stringify(record))).rejects.toMatchObject({
      code: 'format-refused',
      message: expect.stringContaining('layout'),
    });
  });
});
