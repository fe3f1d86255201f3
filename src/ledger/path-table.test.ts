import { describe, expect, it } from 'vitest';
import { type MemoryHost, memoryHost } from '../../test/support/memory-host.ts';
import { encodeLine } from '../format/checked-lines.ts';
import { encodePathTable, readPathTable } from './path-table.ts';

const FOLDER = '/out';
const FILE = `${FOLDER}/.tidemark/paths.log`;

async function hostWith(bytes: Uint8Array | null): Promise<MemoryHost> {
  const host = memoryHost();
  await host.files.makeDirectory(`${FOLDER}/.tidemark`);
  if (bytes === null) return host;
  const file = await host.files.create(FILE, 0o644);
  await file.write(bytes);
  await file.close();
  return host;
}

const refused = (why: string) => ({ code: 'format-refused', message: expect.stringContaining(why) });

describe('the table of a run\u2019s names', () => {
  for (const rows of [0, 1, 1000, 1001, 2500]) {
    it(`comes back as it was written: ${rows} rows`, async () => {
      const paths = Array.from({ length: rows }, (_, row) => (row % 7 === 3 ? null : `rank_${row % 2}/\u00e9 "${row}"\\.pt`));
      const { bytes, sha256 } = encodePathTable(paths);
      const host = await hostWith(bytes);
      expect(await readPathTable(host.files, FOLDER, sha256)).toEqual(paths);
    });
  }

  it('is refused when it is gone, changed, or another one', async () => {
    const { bytes, sha256 } = encodePathTable(['a.pt', 'b.pt']);
    await expect(readPathTable((await hostWith(null)).files, FOLDER, sha256)).rejects.toMatchObject(refused('it is not there'));
    for (const cut of [bytes.subarray(0, bytes.length - 1), Buffer.concat([bytes, bytes]), encodePathTable(['b.pt', 'a.pt']).bytes]) {
      await expect(readPathTable((await hostWith(cut)).files, FOLDER, sha256)).rejects.toMatchObject(
        refused('not the table that run.json names'),
      );
    }
  });

  it('leads nowhere outside the folder, whoever wrote it', async () => {
    for (const path of ['../x.pt', '/etc/passwd', 'a//b.pt', '.tidemark/run.json', 'a/../b.pt', 'a\0b']) {
      const { bytes, sha256 } = encodePathTable([path]);
      await expect(readPathTable((await hostWith(bytes)).files, FOLDER, sha256)).rejects.toMatchObject(
        refused('a line of it is of another form'),
      );
    }
  });

  it('is refused in another version, or with other rows than it says', async () => {
    const { createHash } = await import('node:crypto');
    const with_ = async (...values: unknown[]): Promise<void> => {
      const bytes = Buffer.concat(values.map(encodeLine));
      await readPathTable((await hostWith(bytes)).files, FOLDER, createHash('sha256').update(bytes).digest('hex'));
    };
    await expect(with_({ format: 'tidemark.paths/2', rows: 0 })).rejects.toMatchObject(refused('tidemark.paths/2'));
    await expect(with_({ format: 'tidemark.paths/1', rows: 2 }, { from: 0, paths: ['a'] })).rejects.toMatchObject(
      refused('it says 2 rows and names 1'),
    );
    await expect(with_({ format: 'tidemark.paths/1', rows: 2 }, { from: 1, paths: ['a'] })).rejects.toMatchObject(
      refused('of another form'),
    );
  });
});
