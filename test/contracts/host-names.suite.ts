import { beforeEach, describe, expect, test } from 'vitest';
import type { FileStore } from '../../src/host/host.ts';
import { errorOf, type FilesUnderTest, text, writeFile } from './host-place.ts';

interface Here {
  readonly files: FileStore;
  readonly root: string;
  readonly place: FilesUnderTest;
}

/** The part of the file contract that is about names and folders; called by `host.suite.ts`. */
export function describeNames(here: () => Here): void {
  let files: FileStore;
  let root: string;
  let place: FilesUnderTest;

  beforeEach(() => {
    ({ files, root, place } = here());
  });

  const read = async (path: string) => text(await files.readSmall(path, 1 << 20));
  const names = async (path: string) => (await files.list(path))?.map((entry) => entry.name).sort();

  describe('names', () => {
    test('link gives a second name and never replaces', async () => {
      await writeFile(files, `${root}/one`, '1');
      await writeFile(files, `${root}/two`, '2');
      expect(await files.link(`${root}/one`, `${root}/final`)).toBe(true);
      expect(await files.link(`${root}/two`, `${root}/final`)).toBe(false);
      expect(await read(`${root}/final`)).toBe('1');
      const [one, final] = [await files.stat(`${root}/one`), await files.stat(`${root}/final`)];
      expect(final).toMatchObject({ links: 2, inode: one?.inode, device: one?.device });
      await files.unlink(`${root}/one`);
      expect(await files.stat(`${root}/final`)).toMatchObject({ links: 1 });
    });

    test('link onto itself is taken by us, as after an answer that was lost', async () => {
      await writeFile(files, `${root}/one`, '1');
      expect(await files.link(`${root}/one`, `${root}/final`)).toBe(true);
      expect(await files.link(`${root}/one`, `${root}/final`)).toBe(true);
    });

    test('of many links to one name, one wins', async () => {
      await Promise.all(Array.from({ length: 8 }, (_, index) => writeFile(files, `${root}/${index}`, `${index}`)));
      const won = await Promise.all(Array.from({ length: 8 }, (_, index) => files.link(`${root}/${index}`, `${root}/final`)));
      expect(won.filter((one) => one === true).length).toBe(1);
      expect(await read(`${root}/final`)).toBe(`${won.indexOf(true)}`);
    });

    test('link does not follow: onto a dangling link, a folder; from nothing', async () => {
      await writeFile(files, `${root}/one`, '1');
      await place.plantLink(`${root}/dangling`, 'nowhere');
      expect(await files.link(`${root}/one`, `${root}/dangling`)).toBe(false);
      await files.makeDirectory(`${root}/folder`);
      expect(await files.link(`${root}/one`, `${root}/folder`)).toBe(false);
      expect((await errorOf(files.link(`${root}/none`, `${root}/new`))).code).toBe('storage-failed');
      expect((await errorOf(files.link(`${root}/one`, `${root}/none/new`))).code).toBe('storage-failed');
      expect(await files.stat(`${root}/nowhere`)).toBeNull();
    });

    test('rename replaces', async () => {
      await writeFile(files, `${root}/one`, '1');
      await writeFile(files, `${root}/two`, '2');
      await files.rename(`${root}/one`, `${root}/two`);
      expect(await names(root)).toEqual(['two']);
      expect(await read(`${root}/two`)).toBe('1');
      expect((await errorOf(files.rename(`${root}/none`, `${root}/two`))).code).toBe('storage-failed');
      await files.makeDirectory(`${root}/folder`);
      expect((await errorOf(files.rename(`${root}/two`, `${root}/folder`))).code).toBe('storage-failed');
      expect(await read(`${root}/two`)).toBe('1');
    });

    test('rename between two names of one file keeps both', async () => {
      await writeFile(files, `${root}/one`, '1');
      await files.link(`${root}/one`, `${root}/two`);
      await files.rename(`${root}/one`, `${root}/two`);
      expect(await names(root)).toEqual(['one', 'two']);
    });

    test('rename into another folder, and of a folder', async () => {
      await files.makeDirectory(`${root}/a`);
      await files.makeDirectory(`${root}/b`);
      await writeFile(files, `${root}/a/file`, 'x');
      await files.rename(`${root}/a/file`, `${root}/b/file`);
      expect(await names(`${root}/a`)).toEqual([]);
      await files.rename(`${root}/b`, `${root}/c`);
      expect(await read(`${root}/c/file`)).toBe('x');
    });

    test('unlink removes a file or a link, not what it points to, and not a folder', async () => {
      await writeFile(files, `${root}/file`, 'x');
      await place.plantLink(`${root}/link`, 'file');
      await files.unlink(`${root}/link`);
      expect(await names(root)).toEqual(['file']);
      await files.unlink(`${root}/file`);
      await files.unlink(`${root}/file`);
      await files.makeDirectory(`${root}/folder`);
      await errorOf(files.unlink(`${root}/folder`));
      expect(await names(root)).toEqual(['folder']);
    });
  });

  describe('folders', () => {
    test('with parents, again, at once, and with a slash at the end', async () => {
      const deep = `${root}/${'deep/'.repeat(40)}end`;
      await Promise.all([files.makeDirectory(deep), files.makeDirectory(deep), files.makeDirectory(`${deep}/`)]);
      await files.makeDirectory(deep);
      expect((await files.stat(deep))?.kind).toBe('directory');
      await writeFile(files, `${deep}/file`, 'x');
      await files.syncDirectory(deep);
      expect(await names(deep)).toEqual(['file']);
    });

    test('through a link to a folder, not through one to nothing', async () => {
      await files.makeDirectory(`${root}/real`);
      await place.plantLink(`${root}/link`, 'real');
      await place.plantLink(`${root}/dangling`, 'nowhere');
      await files.makeDirectory(`${root}/link/inside`);
      await files.makeDirectory(`${root}/link`);
      expect(await names(`${root}/real`)).toEqual(['inside']);
      expect((await errorOf(files.makeDirectory(`${root}/dangling`))).code).toBe('storage-failed');
      expect(await files.stat(`${root}/nowhere`)).toBeNull();
    });

    test('not where a file is', async () => {
      await writeFile(files, `${root}/file`, 'x');
      expect((await errorOf(files.makeDirectory(`${root}/file`))).code).toBe('storage-failed');
      expect((await errorOf(files.makeDirectory(`${root}/file/below`))).code).toBe('storage-failed');
    });

    test('syncing what is not there, or not a folder, fails', async () => {
      await writeFile(files, `${root}/file`, 'x');
      await errorOf(files.syncDirectory(`${root}/none`));
      await errorOf(files.syncDirectory(`${root}/file`));
    });
  });
}
