import { crc32 } from 'node:zlib';
import { assert } from '../core/assert.ts';
import type { RandomAccess } from '../core/random-access.ts';
import type { Damage, Parsed, TensorInfo } from '../format/tensors.ts';
import { readTorchZip, type TorchZip } from '../format/torch-zip.ts';
import { checkRecords } from '../format/torch-zip-records.ts';
import type { FileReader, ReadableFile } from '../host/host.ts';
import type { Layout, StoredSample, StoreReader } from './store.ts';

/** Ids of a sample that we are ready to hold: sixteen million tokens, 128 MB. A longer record is no sample of a model that exists. */
const MOST_TOKENS = 16 * 1024 * 1024;

/** The read-only half of a store: what assessment gets. */
export function createStoreReader(files: FileReader, folder: string, layout: Layout): StoreReader {
  assert(layout.codec === 'torch-zip', 'the one codec of layouts so far');
  return {
    folder,
    layout,
    open: async (index) => {
      const file = await files.open(`${folder}/${layout.pathOf(index)}`);
      return file === null ? null : openStored(file, layout);
    },
  };
}

async function openStored(file: ReadableFile, layout: Layout): Promise<{ ok: true; sample: StoredSample } | { ok: false; damage: Damage }> {
  let keep = false;
  try {
    const zip = await readTorchZip(file);
    if (!zip.ok) return zip;
    keep = true;
    return { ok: true, sample: new TorchSample(file, zip.value, layout) };
  } finally {
    if (!keep) await file.close();
  }
}

class TorchSample implements StoredSample {
  readonly source: RandomAccess;
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  readonly provable: boolean;
  readonly records: StoredSample['records'];
  readonly #file: ReadableFile;
  readonly #zip: TorchZip;
  readonly #layout: Layout;

  constructor(file: ReadableFile, zip: TorchZip, layout: Layout) {
    this.#file = file;
    this.#zip = zip;
    this.#layout = layout;
    this.source = file;
    this.tensors = zip.tensors;
    this.provable = zip.crcComputed;
    this.records = zip.records;
  }

  async readIds(): Promise<Parsed<{ inputIds: Uint32Array; lossMask: Uint8Array | null }>> {
    const ids = await this.#integers(this.#layout.idsTensor, 0xffffffff);
    if (!ids.ok) return ids;
    const inputIds = Uint32Array.from(ids.value);
    if (this.#layout.maskTensor === null) return { ok: true, value: { inputIds, lossMask: null } };
    const mask = await this.#integers(this.#layout.maskTensor, 1);
    if (!mask.ok) return mask;
    return { ok: true, value: { inputIds, lossMask: Uint8Array.from(mask.value) } };
  }

  async checkBytes(): Promise<{ ok: true; crc32: number } | { ok: false; damage: Damage }> {
    const checked = await checkRecords(this.#file, this.#zip);
    return checked.ok ? { ok: true, crc32: checked.value.fileCrc32 } : checked;
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  /** All elements of an integer tensor, each from 0 to `most`, after its record has passed its own checksum. */
  async #integers(name: string, most: number): Promise<Parsed<number[]>> {
    const tensor = this.tensors.get(name);
    if (tensor === undefined) return structure(`it has no tensor ${name}`);
    const record = this.#zip.records.find((candidate) => candidate.name === tensor.record);
    if (record === undefined || !tensor.contiguous) return structure(`${name} is not stored in one piece`);
    if (record.bytes > MOST_TOKENS * 8) return structure(`${name} claims ${record.bytes} bytes`);
    const bytes = await this.#file.read(record.offset, record.bytes);
    if (this.provable && crc32(bytes) !== record.crc32) {
      return {
        ok: false,
        damage: {
          kind: 'corrupt',
          reason: 'checksum',
          detail: `${record.name}, which holds ${name}, has another checksum than the directory says`,
        },
      };
    }
    const at = tensor.fileOffset - record.offset;
    return decodeIntegers(bytes.subarray(at, at + tensor.bytes), tensor, most);
  }
}

function decodeIntegers(bytes: Uint8Array, tensor: TensorInfo, most: number): Parsed<number[]> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read = integerReader(tensor.dtype, view);
  if (read === null) return structure(`${tensor.name} is ${tensor.dtype}, not an integer type`);
  const values: number[] = [];
  for (let at = 0; at < bytes.length; at += read.bytes) {
    const value = read.at(at);
    if (!(value >= 0 && value <= most)) return structure(`${tensor.name} holds ${value} at place ${at / read.bytes}`);
    values.push(value);
  }
  return { ok: true, value: values };
}

function integerReader(dtype: TensorInfo['dtype'], view: DataView): { readonly bytes: number; at(offset: number): number } | null {
  switch (dtype) {
    case 'I64':
      return { bytes: 8, at: (offset) => Number(view.getBigInt64(offset, true)) };
    case 'I32':
      return { bytes: 4, at: (offset) => view.getInt32(offset, true) };
    case 'I16':
      return { bytes: 2, at: (offset) => view.getInt16(offset, true) };
    case 'U8':
    case 'BOOL':
      return { bytes: 1, at: (offset) => view.getUint8(offset) };
    default:
      return null;
  }
}

function structure(detail: string): { ok: false; damage: Damage } {
  return { ok: false, damage: { kind: 'torn', reason: 'structure', detail } };
}
