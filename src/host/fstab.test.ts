import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseFstab, plannedUnder } from './fstab.ts';
import { createLocalFiles } from './local-files.ts';
import { createLocalMachine } from './local-machine.ts';

const text = String.raw`# /etc/fstab: static file system information.
UUID=6d0c1f5e / ext4 errors=remount-ro 0 1
UUID=7d0c1f5e none swap sw 0 0
UUID=8d0c1f5e	/data/	ext4	defaults,nofail	0 2
box:/x /data/two\040words nfs4 _netdev,nofail
/dev/sr0 /data/cd iso9660 noauto,user
half a line
`;

test('fstab', () => {
  const planned = parseFstab(text);
  expect(planned).toEqual([
    { mountPoint: '/data', source: 'UUID=8d0c1f5e', filesystem: 'ext4' },
    { mountPoint: '/data/two words', source: 'box:/x', filesystem: 'nfs4' },
  ]);
  expect(plannedUnder(planned, '/data/run')?.mountPoint).toBe('/data');
  expect(plannedUnder(planned, '/data/two words')?.mountPoint).toBe('/data/two words');
  expect(plannedUnder(planned, '/data/cd/x')?.mountPoint).toBe('/data');
  expect(plannedUnder(planned, '/database')).toBeNull();
});

test('the machine tells which mount a folder should lie on, and that it cannot where there is no such file', async () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'tidemark-fstab-')));
  try {
    mkdirSync(join(root, 'data'));
    const fstab = join(root, 'fstab');
    writeFileSync(fstab, `/dev/vdb ${root}/data xfs defaults 0 0\n`);
    const machine = createLocalMachine({ files: createLocalFiles(), fstab });
    expect(await machine.plannedMount?.(join(root, 'data/run'))).toEqual({
      known: true,
      value: { mountPoint: join(root, 'data'), source: '/dev/vdb', filesystem: 'xfs' },
      source: fstab,
    });
    expect(await machine.plannedMount?.(root)).toMatchObject({ known: true, value: null });
    const without = createLocalMachine({ files: createLocalFiles(), fstab: join(root, 'none') });
    expect(await without.plannedMount?.(root)).toMatchObject({ known: false });
  } finally {
    rmSync(root, { recursive: true });
  }
});
