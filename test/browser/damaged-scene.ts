import { copyFile, mkdir, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeScene, type Scene } from '../damage/scene.ts';

/** A scene of which some files have the wrong shape, with every other kind of damage added: all seven verdicts. */
export async function everyVerdict(): Promise<Scene> {
  const scene = await makeScene({ scene: 'wrong-shape', samples: 1200, group: 100 });
  const good = scene.truth.index.filter((row) => row.state === 'ok').map((row) => row.i);
  const at = (row: number): string => join(scene.folder, `rows_${row - (row % 100)}-${row - (row % 100) + 100}`, `data_${row}.ckpt`);
  const among = (from: number): string => {
    const row = good.find((one) => one >= from);
    if (row === undefined) throw new Error(`no good row from ${from} on`);
    return at(row);
  };
  await truncate(among(110), 700);
  await flipByte(among(210));
  await copyFile(among(350), among(310));
  await rm(among(410));
  // A link is never followed: what it leads to is somebody else's.
  await rm(among(510));
  await symlink('/nowhere', among(510));
  // A folder that is gone as a whole: its cell has one colour.
  await rm(join(scene.folder, 'rows_600-700'), { recursive: true });
  await mkdir(join(scene.folder, 'rows_600-700'));
  return scene;
}

/** Flips a byte in the middle of the largest tensor: the structure is whole, the checksum is not. */
async function flipByte(path: string): Promise<void> {
  const bytes = await readFile(path);
  const middle = Math.floor(bytes.length / 2);
  bytes[middle] = (bytes[middle] ?? 0) ^ 0x10;
  await writeFile(path, bytes);
}
