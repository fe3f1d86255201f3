import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLocalFiles } from '../host/local-files.ts';
import { listOrphanCaptures, listStaged } from './staged-list.ts';

const files = createLocalFiles();
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tidemark-staged-'));
  const names = [
    'cmpl-tm-12-1-0a1b2c3d-0-85b9157b.safetensors',
    'cmpl-tm-12-1-0a1b2c3d-0-85b9157b.safetensors.lock',
    'cmpl-tm-13-2-ffffffff-0-00000000.safetensors.9f.tmp',
    'cmpl-af224c9ea1b4c618-0-85b9157b.safetensors',
    '.tmpAb3dEf',
    'systemd-private',
    'notes-tm-1.txt',
  ];
  for (const name of names) await writeFile(join(folder, name), 'abc');
  await mkdir(join(folder, 'folder.safetensors'));
  await symlink('/etc/hostname', join(folder, 'link.safetensors'));
});
afterEach(() => rm(folder, { recursive: true }));

describe('listStaged', () => {
  it('finds what connectors leave, and nothing else', async () => {
    const found = await listStaged(files, folder);
    expect(found.map(({ path, bytes, kind, requestId }) => [basename(path), bytes, kind, requestId])).toEqual([
      ['.tmpAb3dEf', 3, 'temporary', null],
      ['cmpl-af224c9ea1b4c618-0-85b9157b.safetensors', 3, 'states', null],
      ['cmpl-tm-12-1-0a1b2c3d-0-85b9157b.safetensors', 3, 'states', 'tm-12-1-0a1b2c3d'],
      ['cmpl-tm-12-1-0a1b2c3d-0-85b9157b.safetensors.lock', 3, 'lock', 'tm-12-1-0a1b2c3d'],
      ['cmpl-tm-13-2-ffffffff-0-00000000.safetensors.9f.tmp', 3, 'temporary', 'tm-13-2-ffffffff'],
    ]);
  });

  it('finds nothing where there is no folder', async () => {
    expect(await listStaged(files, join(folder, 'none'))).toEqual([]);
  });
});

describe('listOrphanCaptures', () => {
  it('takes only what carries a request id of ours', async () => {
    expect((await listOrphanCaptures(files, folder)).map((one) => one.requestId)).toEqual([
      'tm-12-1-0a1b2c3d',
      'tm-12-1-0a1b2c3d',
      'tm-13-2-ffffffff',
    ]);
  });
});
