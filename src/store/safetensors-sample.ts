import type { RandomAccess } from '../core/random-access.ts';
import { crc32 } from '../format/crc32.ts';
import { readSafetensors } from '../format/safetensors.ts';
import type { Parsed, TensorInfo } from '../format/tensors.ts';
import type { FileStat, ReadableFile } from '../host/host.ts';
import { rememberedEnds } from './remembered-ends.ts';
import type { Layout, StoredSample } from './store.ts';
import { decodeIds, idTensors, type StoredIds } from './stored-ids.ts';

const PIECE_BYTES = 4 * 1024 * 1024;

/** The format has no checksum: a lost page or a flipped bit inside the data shows in the values at best. */
export async function openSafetensorsSample(file: ReadableFile, layout: Layout): Promise<Parsed<StoredSample>> {
  const near = rememberedEnds(file);
  const opened = await readSafetensors(near);
  return opened.ok ? { ok: true, value: new SafetensorsSample(file, near, opened.value.tensors, layout) } : opened;
}

class SafetensorsSample implements StoredSample {
  readonly stat: FileStat;
  readonly source: RandomAccess;
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  readonly values: StoredSample['values'] = new Map();
  readonly provable = false;
  readonly records: StoredSample['records'] = [];
  readonly #file: ReadableFile;
  readonly #near: RandomAccess;
  readonly #layout: Layout;

  constructor(file: ReadableFile, near: RandomAccess, tensors: ReadonlyMap<string, TensorInfo>, layout: Layout) {
    this.#file = file;
    this.#near = near;
    this.#layout = layout;
    this.stat = file.stat;
    this.source = file;
    this.tensors = tensors;
  }

  async readIds(): Promise<Parsed<StoredIds>> {
    const named = idTensors(this.#layout, this.tensors);
    if (!named.ok) return named;
    const { ids, mask } = named.value;
    const read = async (tensor: TensorInfo) => ({ tensor, bytes: await this.#near.read(tensor.fileOffset, tensor.bytes) });
    return decodeIds(await read(ids), mask === null ? null : await read(mask));
  }

  async checkBytes(): Promise<{ ok: true; crc32: number }> {
    const { size } = this.#file;
    let sum = 0;
    for (let at = 0; at < size; at += PIECE_BYTES) sum = crc32(await this.#file.read(at, Math.min(PIECE_BYTES, size - at)), sum);
    return { ok: true, crc32: sum };
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}
