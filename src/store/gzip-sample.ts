import { TidemarkError } from '../core/errors.ts';
import type { RandomAccess } from '../core/random-access.ts';
import { parsed } from '../format/damage.ts';
import { GzipStream } from '../format/gzip-stream.ts';
import type { Parsed, TensorInfo } from '../format/tensors.ts';
import { TorchStream } from '../format/torch-stream.ts';
import type { FileStat, ReadableFile } from '../host/host.ts';
import { IDS_BYTES_MAX } from './integers.ts';
import type { Layout, StoredSample } from './store.ts';
import { decodeIds, idTensors, type StoredIds } from './stored-ids.ts';

/**
 * Opens a torch zip inside gzip: both ends of the file, and as much inflated as the pickle takes. Ids cost inflating up to
 * their records, which SpecForge writes in front of the states; only `checkBytes` inflates everything, a chunk at a time.
 */
export function openGzipSample(file: ReadableFile, layout: Layout): Promise<Parsed<StoredSample>> {
  return parsed(async () => {
    const stream = await GzipStream.open(file);
    try {
      const torch = await TorchStream.open(stream);
      return new GzipSample(file, stream, torch, layout);
    } catch (error) {
      stream.close();
      throw error;
    }
  });
}

class GzipSample implements StoredSample {
  readonly stat: FileStat;
  readonly source: RandomAccess;
  readonly provable = true;
  readonly records: StoredSample['records'] = [];
  readonly #file: ReadableFile;
  readonly #stream: GzipStream;
  readonly #torch: TorchStream;
  readonly #layout: Layout;
  readonly #inflated: InflatedSource;
  #tensors: ReadonlyMap<string, TensorInfo>;
  #ids: Promise<Parsed<StoredIds>> | null = null;

  constructor(file: ReadableFile, stream: GzipStream, torch: TorchStream, layout: Layout) {
    this.#file = file;
    this.#stream = stream;
    this.#torch = torch;
    this.#layout = layout;
    this.stat = file.stat;
    this.#tensors = torch.tensors;
    this.#inflated = new InflatedSource(file);
    this.source = this.#inflated;
  }

  get tensors(): ReadonlyMap<string, TensorInfo> {
    return this.#tensors;
  }

  get values(): StoredSample['values'] {
    return this.#torch.values;
  }

  /** Remembered: the stream has passed them after the first time. */
  readIds(): Promise<Parsed<StoredIds>> {
    this.#ids ??= this.#readIds();
    return this.#ids;
  }

  async #readIds(): Promise<Parsed<StoredIds>> {
    const named = idTensors(this.#layout, this.#tensors);
    if (!named.ok) return named;
    const { ids, mask } = named.value;
    const wanted = new Set([ids, mask].flatMap((tensor) => (tensor?.record == null ? [] : [tensor.record])));
    const records = await parsed(() => this.#torch.read(wanted, IDS_BYTES_MAX));
    if (!records.ok) return records;
    this.#tensors = this.#torch.tensors;
    const starts = this.#torch.recordOffsets();
    const read = (named: TensorInfo) => {
      const tensor = this.#tensors.get(named.name) ?? named;
      const at = tensor.fileOffset - (starts.get(tensor.record ?? '') ?? 0);
      return { tensor, bytes: records.value.get(tensor.record ?? '')?.subarray(at, at + tensor.bytes) ?? new Uint8Array() };
    };
    return decodeIds(read(ids), mask === null ? null : read(mask));
  }

  async checkBytes(): Promise<{ ok: true; crc32: number } | Extract<Parsed<never>, { ok: false }>> {
    await this.readIds();
    const whole = await parsed(() => this.#torch.finish());
    if (!whole.ok) return whole;
    this.#tensors = this.#torch.tensors;
    this.#inflated.size = this.#stream.offset;
    return { ok: true, crc32: this.#stream.fileCrc32 };
  }

  async close(): Promise<void> {
    this.#stream.close();
    this.#inflated.close();
    await this.#file.close();
  }
}

/** The inflated bytes from any offset; going back means inflating from the start again. */
class InflatedSource implements RandomAccess {
  size = 0;
  readonly #file: ReadableFile;
  #stream: GzipStream | null = null;

  constructor(file: ReadableFile) {
    this.#file = file;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    const bytes = await parsed(() => this.#read(offset, length));
    if (bytes.ok) return bytes.value;
    // Its whole has been proved before: it is another file by now.
    throw new TidemarkError('storage-failed', `could not read a file again: ${bytes.damage.detail}`, { retry: 'later' });
  }

  async #read(offset: number, length: number): Promise<Uint8Array> {
    if (offset < 0 || length < 0 || offset + length > this.size)
      throw new RangeError(`${length} bytes from ${offset} lie beyond ${this.size} inflated bytes`);
    if (this.#stream === null || this.#stream.offset > offset) {
      this.#stream?.close();
      this.#stream = await GzipStream.open(this.#file);
    }
    await this.#stream.pass(offset - this.#stream.offset, 'the bytes before a tensor');
    return this.#stream.take(length, 'a tensor');
  }

  close(): void {
    this.#stream?.close();
  }
}
