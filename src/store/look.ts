import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import type { Codec } from '../core/run-layout.ts';
import { parsed } from '../format/damage.ts';
import { GzipStream } from '../format/gzip-stream.ts';
import { readSafetensors } from '../format/safetensors.ts';
import type { Parsed, TensorInfo } from '../format/tensors.ts';
import { TorchStream } from '../format/torch-stream.ts';
import { readTorchZip } from '../format/torch-zip.ts';
import type { FileReader, ReadableFile } from '../host/host.ts';
import { listedOrNull } from './listed.ts';

/** Folders listed below the first one, spread over all there are. */
const FOLDERS_LOOKED_AT = 16;
const DEPTH_LOOKED_AT = 3;
const FILES_OPENED = 8;

/** The names of a tree, as far as a look goes. */
export interface NamesSeen {
  /** Paths of files, relative to the folder. */
  readonly files: readonly string[];
  /** Folders that were seen, listed or not. */
  readonly folders: readonly string[];
}

/** Lists the folder, and of the folders below it a bounded number on each way down. */
export async function lookAtNames(files: FileReader, folder: string): Promise<NamesSeen> {
  const seen = { files: [] as string[], folders: [] as string[] };
  let level: string[] = [''];
  let left = FOLDERS_LOOKED_AT;
  for (let depth = 0; depth <= DEPTH_LOOKED_AT && level.length > 0; depth += 1) {
    const below: string[] = [];
    for (const path of level) {
      const entries = path === '' ? await files.list(folder) : await listedOrNull(files, `${folder}/${path}`);
      if (entries === null && path === '') {
        throw new TidemarkError('no-run', `there is no folder ${folder}`, {
          where: folder,
          hint: 'check the path, and that its disk is mounted',
        });
      }
      for (const entry of entries ?? []) {
        const full = path === '' ? entry.name : `${path}/${entry.name}`;
        if (!entry.openable || full === 'lost+found' || entry.name.startsWith('.')) continue;
        if (entry.kind === 'directory') below.push(full);
        else if (entry.kind === 'file') seen.files.push(full);
      }
    }
    below.sort((a, b) => a.length - b.length || (a < b ? -1 : 1));
    for (const path of below) seen.folders.push(path);
    // Half of what is left for each further way down, so that a tree of many ranks still shows what lies inside them.
    const share = depth + 1 < DEPTH_LOOKED_AT && below.length > left / 2 ? Math.ceil(left / 2) : left;
    level = spread(below, share);
    left -= level.length;
  }
  return seen.files.some((path) => path.includes('/')) ? seen : lookFurther(files, folder, seen);
}

/** Folders made beforehand may all be empty but a few: then the next ones are listed until one is not. */
async function lookFurther(files: FileReader, folder: string, seen: { files: string[]; folders: string[] }): Promise<NamesSeen> {
  for (const path of seen.folders) {
    const entries = await listedOrNull(files, `${folder}/${path}`);
    for (const entry of entries ?? []) if (entry.openable && entry.kind === 'file') seen.files.push(`${path}/${entry.name}`);
    if (seen.files.at(-1)?.startsWith(`${path}/`) === true) break;
  }
  return seen;
}

/** At most `count`, evenly from the first to the last. */
export function spread<T>(items: readonly T[], count: number): T[] {
  if (items.length <= count) return [...items];
  return Array.from({ length: Math.max(0, count) }, (_, at) => items[Math.round((at * (items.length - 1)) / Math.max(1, count - 1))] as T);
}

/** What one file is, by its own bytes. */
export interface FileSeen {
  readonly path: string;
  /** null where its first bytes are of no container that is known. */
  readonly codec: Codec | null;
  /** null where it cannot be read as one. */
  readonly tensors: ReadonlyMap<string, TensorInfo> | null;
}

/** Opens at most eight of these files, spread over all of them, for their container and the names and shapes of their tensors. */
export async function lookAtFiles(files: FileReader, folder: string, paths: readonly string[]): Promise<FileSeen[]> {
  const seen: FileSeen[] = [];
  for (const path of spread(paths, FILES_OPENED)) {
    try {
      const file = await files.open(`${folder}/${path}`);
      if (file === null) continue;
      try {
        const codec = await codecOf(file);
        const tensors = codec === null ? null : await tensorsIn(file, codec);
        seen.push({ path, codec, tensors: tensors?.ok === true ? tensors.value : null });
      } finally {
        await file.close();
      }
    } catch (error) {
      // What the machine will not show tells nothing of the layout; the assessment reports it.
      if (!isTidemarkError(error, 'storage-denied', 'storage-failed', 'storage-silent')) throw error;
    }
  }
  return seen;
}

async function codecOf(file: ReadableFile): Promise<Codec | null> {
  if (file.size < 10) return null;
  const head = Buffer.from(await file.read(0, 10));
  if (head.readUInt16BE(0) === 0x1f8b) return 'torch-gzip';
  if (head.readUInt32LE(0) === 0x04034b50) return 'torch-zip';
  return head[8] === 0x7b ? 'safetensors' : null;
}

async function tensorsIn(file: ReadableFile, codec: Codec): Promise<Parsed<ReadonlyMap<string, TensorInfo>>> {
  switch (codec) {
    case 'torch-zip': {
      const zip = await readTorchZip(file);
      return zip.ok ? { ok: true, value: zip.value.tensors } : zip;
    }
    case 'safetensors': {
      const opened = await readSafetensors(file);
      return opened.ok ? { ok: true, value: opened.value.tensors } : opened;
    }
    case 'torch-gzip':
      return parsed(async () => {
        const stream = await GzipStream.open(file);
        try {
          return (await TorchStream.open(stream)).tensors;
        } finally {
          stream.close();
        }
      });
  }
}
