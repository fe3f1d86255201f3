import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { FileStore, WritableFile } from '../../src/host/host.ts';
import { describeNames } from './host-names.suite.ts';
import { bytesOf, errorOf, type FilesUnderTest, text, writeFile } from './host-place.ts';

/** What every `FileStore` promises. */
export function describeFileStore(name: string, setUp: () => FilesUnderTest | Promise<FilesUnderTest>): void {
  describe(`${name}: the file contract`, () => {
    let place: FilesUnderTest;
    let files: FileStore;
    let root: string;
    let at = 0;

    beforeAll(async () => {
      place = await setUp();
      ({ files } = place);
    });
    afterAll(() => place?.close());
    beforeEach(async () => {
      root = `${place.folder}/${at++}`;
      await files.makeDirectory(root);
    });

    const read = async (path: string) => text(await files.readSmall(path, 1 << 20));
    const names = async (path: string) => (await files.list(path))?.map((entry) => entry.name).sort();

    describe('nothing is there', () => {
      test.each(['missing', 'missing/deeper'])('%s', async (missing) => {
        const path = `${root}/${missing}`;
        expect(await files.list(path)).toBeNull();
        expect(await files.stat(path)).toBeNull();
        expect(await files.open(path)).toBeNull();
        expect(await files.readSmall(path, 10)).toBeNull();
        expect(await files.realPath(path)).toBeNull();
        await files.unlink(path);
      });

      test('below a file', async () => {
        await writeFile(files, `${root}/file`, 'x');
        const path = `${root}/file/below`;
        expect(await files.stat(path)).toBeNull();
        expect(await files.open(path)).toBeNull();
        expect(await files.readSmall(path, 10)).toBeNull();
        await files.unlink(path);
        expect((await errorOf(files.create(path, 0o644))).code).toBe('storage-failed');
        expect((await errorOf(files.list(`${root}/file`))).code).toBe('storage-failed');
      });
    });

    describe('listing', () => {
      test('an empty folder, and kinds', async () => {
        expect(await files.list(root)).toEqual([]);
        await writeFile(files, `${root}/file`, 'x');
        await files.makeDirectory(`${root}/folder`);
        await place.plantLink(`${root}/link`, 'file');
        const listed = [...((await files.list(root)) ?? [])].sort((a, b) => (a.name < b.name ? -1 : 1));
        expect(listed).toEqual([
          { name: 'file', kind: 'file', openable: true },
          { name: 'folder', kind: 'directory', openable: true },
          { name: 'link', kind: 'link', openable: true },
        ]);
      });

      test.each([
        'ünï 漢字 😀',
        'line\nbreak',
        `quotes ' " \``,
        '-rf',
        '$(reboot)',
        'back\\xff',
        ' lead',
        'trail ',
        '\ufeffbom',
        '...',
        '%00',
        'x'.repeat(255),
      ])('the name %j', async (odd) => {
        const path = `${root}/${odd}`;
        await writeFile(files, path, odd);
        expect(await files.list(root)).toEqual([{ name: odd, kind: 'file', openable: true }]);
        expect(await read(path)).toBe(odd);
        expect((await files.stat(path))?.kind).toBe('file');
        await files.rename(path, `${root}/plain`);
        expect(await names(root)).toEqual(['plain']);
      });

      test('a name that cannot be', async () => {
        expect((await errorOf(files.create(`${root}/${'x'.repeat(256)}`, 0o644))).code).toBe('storage-failed');
        expect((await errorOf(files.create(`${root}/a\0b`, 0o644))).code).toBe('storage-denied');
        expect((await errorOf(files.open(`${root}/a\0b`))).code).toBe('storage-denied');
      });

      test('many entries', async () => {
        const all = Array.from({ length: 500 }, (_, index) => `data_${index}.ckpt`);
        await Promise.all(all.map((one) => writeFile(files, `${root}/${one}`, '')));
        expect(await names(root)).toEqual([...all].sort());
      });
    });

    describe('reading', () => {
      test('exactly the bytes asked for', async () => {
        await writeFile(files, `${root}/file`, '0123456789');
        const file = await files.open(`${root}/file`);
        if (file === null) throw new Error('it is not there');
        expect(file.size).toBe(10);
        expect(file.stat).toMatchObject({ kind: 'file', bytes: 10, mode: 0o644, links: 1 });
        expect(text(await file.read(0, 10))).toBe('0123456789');
        expect(text(await file.read(3, 4))).toBe('3456');
        expect((await file.read(10, 0)).length).toBe(0);
        for (const [offset, length] of [
          [0, 11],
          [10, 1],
          [11, 0],
          [-1, 1],
          [0, -1],
          [0.5, 1],
          [0, Number.NaN],
        ] as const) {
          await expect(file.read(offset, length)).rejects.toBeInstanceOf(RangeError);
        }
        // Its own memory: a parser may keep it, or view it as floats.
        const first = await file.read(0, 8);
        first.fill(0);
        expect(text(await file.read(0, 8))).toBe('01234567');
        expect(first.byteOffset).toBe(0);
        await file.close();
        await file.close();
        await errorOf(file.read(0, 1));
      });

      test('many reads at once', async () => {
        await writeFile(
          files,
          `${root}/file`,
          Uint8Array.from({ length: 64 * 100 }, (_, index) => Math.floor(index / 100)),
        );
        const file = await files.open(`${root}/file`);
        const parts = await Promise.all(Array.from({ length: 64 }, (_, index) => file?.read(index * 100, 100)));
        for (const [index, part] of parts.entries()) expect(part).toEqual(new Uint8Array(100).fill(index));
        await file?.close();
      });

      test('an open file stays readable when its name goes', async () => {
        await writeFile(files, `${root}/file`, 'still here');
        const file = await files.open(`${root}/file`);
        await files.unlink(`${root}/file`);
        expect(text((await file?.read(0, 10)) ?? null)).toBe('still here');
        await file?.close();
      });

      test('small files up to a limit', async () => {
        await writeFile(files, `${root}/file`, '0123456789');
        expect(text(await files.readSmall(`${root}/file`, 10))).toBe('0123456789');
        const error = await errorOf(files.readSmall(`${root}/file`, 9));
        expect(error).toMatchObject({ code: 'format-refused', where: `${root}/file` });
        await writeFile(files, `${root}/empty`, '');
        expect(await files.readSmall(`${root}/empty`, 0)).toEqual(new Uint8Array(0));
        await writeFile(files, `${root}/larger`, 'x'.repeat(100_000));
        expect((await files.readSmall(`${root}/larger`, 100_000))?.length).toBe(100_000);
      });

      test('folders are not files', async () => {
        expect((await errorOf(files.open(root))).code).toBe('storage-denied');
        expect((await errorOf(files.readSmall(root, 10))).code).toBe('storage-denied');
      });

      test('links at the end are refused, dangling ones too; links on the way are followed', async () => {
        await files.makeDirectory(`${root}/folder`);
        await writeFile(files, `${root}/folder/file`, 'x');
        await place.plantLink(`${root}/to-file`, 'folder/file');
        await place.plantLink(`${root}/to-nothing`, 'nothing');
        await place.plantLink(`${root}/to-folder`, 'folder');
        await place.plantLink(`${root}/loop`, 'loop');
        for (const link of ['to-file', 'to-nothing', 'to-folder', 'loop']) {
          const path = `${root}/${link}`;
          expect((await errorOf(files.open(path))).code).toBe('storage-denied');
          expect((await errorOf(files.readSmall(path, 10))).code).toBe('storage-denied');
          expect((await files.stat(path))?.kind).toBe('link');
          expect((await errorOf(files.create(path, 0o644))).code).toBe('storage-failed');
        }
        expect(await read(`${root}/to-folder/file`)).toBe('x');
        expect(await names(`${root}/to-folder`)).toEqual(['file']);
        expect(await files.realPath(`${root}/to-folder/file`)).toBe(`${root}/folder/file`);
        expect(await files.realPath(`${root}/to-file`)).toBe(`${root}/folder/file`);
        expect(await files.realPath(`${root}/to-nothing`)).toBeNull();
      });
    });

    describe('writing', () => {
      test('appends, in the order of the calls', async () => {
        const file = await files.create(`${root}/file`, 0o600);
        await Promise.all(Array.from({ length: 20 }, (_, index) => file.write(bytesOf(`${index} `.repeat(1000)))));
        await file.sync();
        await file.close();
        const expected = Array.from({ length: 20 }, (_, index) => `${index} `.repeat(1000)).join('');
        expect(await read(`${root}/file`)).toBe(expected);
        expect(await files.stat(`${root}/file`)).toMatchObject({ mode: 0o600, bytes: expected.length });
      });

      test('takes a copy or finishes before it says so: the caller may reuse the memory afterwards', async () => {
        const memory = bytesOf('first');
        const file = await files.create(`${root}/file`, 0o644);
        await file.write(memory);
        memory.write('other');
        await file.write(memory.subarray(1, 3));
        await file.close();
        expect(await read(`${root}/file`)).toBe('firstth');
      });

      test('sets the mode', async () => {
        const file = await files.create(`${root}/file`, 0o600);
        await file.setMode(0o664);
        await file.close();
        expect((await files.stat(`${root}/file`))?.mode).toBe(0o664);
      });

      test('no write after close; a second close is no error', async () => {
        const file = await files.create(`${root}/file`, 0o644);
        await file.close();
        await file.close();
        await errorOf(file.write(bytesOf('x')));
        expect(await read(`${root}/file`)).toBe('');
      });

      test('creating is exclusive: of many one wins, and a taken name says so', async () => {
        const results = await Promise.allSettled(Array.from({ length: 8 }, () => files.create(`${root}/file`, 0o644)));
        const won = results.filter((one): one is PromiseFulfilledResult<WritableFile> => one.status === 'fulfilled');
        expect(won.length).toBe(1);
        await won[0]?.value.close();
        for (const one of results) {
          if (one.status === 'rejected')
            expect(one.reason).toMatchObject({ code: 'storage-failed', where: `${root}/file`, hint: `ls -ld ${root}/file` });
        }
        expect((await errorOf(files.create(root, 0o644))).code).toBe('storage-failed');
      });

      test('creating where there is no folder', async () => {
        const error = await errorOf(files.create(`${root}/none/file`, 0o644));
        expect(error).toMatchObject({ code: 'storage-failed', where: `${root}/none/file`, retry: 'never' });
        expect(error.message).toMatch(/^could not create .*\/none\/file: .*\(ENOENT\)$/);
      });
    });

    describeNames(() => ({ files, root, place }));

    test('space, also of what is not there yet', async () => {
      const space = await files.space(`${root}/not/yet`);
      expect(space.totalBytes).toBeGreaterThan(0);
      expect(space.freeBytes).toBeLessThanOrEqual(space.totalBytes);
      expect(space.freeInodes).toBeGreaterThan(0);
    });

    test('a full disk: says so, keeps what was written before, and works again when there is room', async (context) => {
      if ('skipped' in place.small) return context.skip(place.small.skipped);
      const { files: small, folder } = place.small;
      await writeFile(small, `${folder}/kept`, 'kept');
      const file = await small.create(`${folder}/large`, 0o644);
      const error = await errorOf(file.write(new Uint8Array(4 << 20).fill(7)));
      expect(error).toMatchObject({
        code: 'storage-full',
        retry: 'later',
        where: `${folder}/large`,
        hint: `df -h ${folder}; df -i ${folder}`,
      });
      // A part went in, and nothing afterwards may make the file look whole.
      await expect(file.write(bytesOf('x'))).rejects.toBe(error);
      await expect(file.sync()).rejects.toBe(error);
      await file.close();
      const written = (await small.stat(`${folder}/large`))?.bytes ?? 0;
      expect(written).toBeGreaterThan(0);
      expect(written).toBeLessThan(4 << 20);
      expect((await small.space(folder)).freeBytes).toBeLessThan(64 * 1024);
      await small.unlink(`${folder}/large`);
      await writeFile(small, `${folder}/after`, new Uint8Array(100_000));
      expect(text(await small.readSmall(`${folder}/kept`, 10))).toBe('kept');
    });
  });
}
