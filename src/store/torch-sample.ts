import { crc32 } from 'node:zlib';
import type { RandomAccess } from '../core/random-access.ts';
import type { Parsed, TensorInfo } from '../format/tensors.ts';
import { readTorchZip, type TorchZip } from '../format/torch-zip.ts';
import { checkRecords } from '../format/torch-zip-records.ts';
import type { FileStat, ReadableFile } from '../host/host.ts';
import { IDS_BYTES_MAX, structure } from './integers.ts';
import { rememberedEnds } from './remembered-ends.ts';
import type { Layout, StoredSample } from './store.ts';
import { decodeIds, idTensors, type StoredIds } from './stored-ids.ts';

export async function openTorchSample(file: ReadableFile, layout: Layout): Promise<Parsed<StoredSample>> {
  const near = rememberedEnds(file);
  const zip = await readTorchZip(near);
  return zip.ok ? { ok: true, value: new TorchSample(file, near, zip.value, layout) } : zip;
}

class TorchSample implements StoredSample {
  readonly stat: FileStat;
  readonly source: RandomAccess;
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  readonly values: StoredSample['values'];
  readonly provable: boolean;
  readonly records: StoredSample['records'];
  readonly #file: ReadableFile;
  readonly #near: RandomAccess;
  readonly #zip: TorchZip;
  readonly #layout: Layout;

  constructor(file: ReadableFile, near: RandomAccess, zip: TorchZip, layout: Layout) {
    this.#file = file;
    this.#near = near;
    this.#zip = zip;
    this.#layout = layout;
    this.stat = file.stat;
    this.source = file;
    this.tensors = zip.tensors;
    this.values = zip.values;
    this.provable = zip.crcComputed;
    this.records = zip.records;
  }

  async readIds(): Promise<Parsed<StoredIds>> {
    const named = idTensors(this.#layout, this.tensors);
    if (!named.ok) return named;
    const ids = await this.#proved(named.value.ids);
    if (!ids.ok) return ids;
    const mask = named.value.mask === null ? null : await this.#proved(named.value.mask);
    if (mask !== null && !mask.ok) return mask;
    return decodeIds(ids.value, mask?.value ?? null);
  }

  async checkBytes(): Promise<{ ok: true; crc32: number } | Extract<Parsed<never>, { ok: false }>> {
    const checked = await checkRecords(this.#file, this.#zip);
    return checked.ok ? { ok: true, crc32: checked.value.fileCrc32 } : checked;
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  /** A tensor's bytes, after the record that holds them has passed its own checksum. */
  async #proved(tensor: TensorInfo): Promise<Parsed<{ tensor: TensorInfo; bytes: Uint8Array }>> {
    const record = this.#zip.records.find((candidate) => candidate.name === tensor.record);
    if (record === undefined) return structure(`${tensor.name} is in no record`);
    if (record.bytes > IDS_BYTES_MAX) return structure(`${tensor.name} claims ${record.bytes} bytes`);
    const bytes = await this.#near.read(record.offset, record.bytes);
    if (this.provable && crc32(bytes) !== record.crc32) {
      const detail = `${record.name}, which holds ${tensor.name}, has another checksum than the directory says`;
      return { ok: false, damage: { kind: 'corrupt', reason: 'checksum', detail } };
    }
    const at = tensor.fileOffset - record.offset;
    return { ok: true, value: { tensor, bytes: bytes.subarray(at, at + tensor.bytes) } };
  }
}
