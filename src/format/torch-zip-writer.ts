import { Buffer } from 'node:buffer';
import { assert } from '../core/assert.ts';
import { combineCrc32, crc32 } from './crc32.ts';
import { pickleOfTensors, type TensorShape } from './pickle-writer.ts';
import { SERIALIZATION_ID_BYTES, serializationId } from './serialization-id.ts';
import { DTYPE_BYTES, elementCount, type TensorSource, type TextEntry, type WrittenFile } from './tensors.ts';
import * as zip from './zip-headers.ts';

/** Which torch's records a file has: 1.6 to 2.0, 2.1 to 2.6, or 2.7 and later. */
export type TorchLayout = '1.13' | '2.1' | '2.7';

export interface TorchZipOptions {
  /** The file's name without its last extension: torch names the archive's folder after it. */
  readonly stem: string;
  /** Default `2.7`. Every torch since 1.6 reads all three. */
  readonly layout?: TorchLayout;
  /** Values behind the tensors in the saved dict. Default: none. */
  readonly texts?: readonly TextEntry[];
}

/** torch's default `.storage_alignment`. */
const ALIGNMENT = 64;

type Body = Uint8Array | TensorSource | 'serialization-id';

interface PlannedRecord {
  readonly name: string;
  readonly fullName: Uint8Array;
  readonly bytes: number;
  readonly headerOffset: number;
  readonly body: Body;
}

interface Plan {
  readonly records: readonly PlannedRecord[];
  readonly directoryOffset: number;
  readonly directoryBytes: number;
  readonly fileBytes: number;
}

function tensorBytes(tensor: TensorShape): number {
  return elementCount(tensor.shape) * DTYPE_BYTES[tensor.dtype];
}

/** torch 2 calls the folder `archive` where the path is not ASCII; earlier ones took any name. */
function prefixOf(stem: string, layout: TorchLayout): string {
  assert(stem !== '' && !stem.includes('/'), 'a stem is one file name without its extension');
  const ascii = [...stem].every((character) => character.charCodeAt(0) < 0x80);
  return ascii || layout === '1.13' ? stem : 'archive';
}

function bodiesOf<T extends TensorShape>(
  tensors: readonly T[],
  layout: TorchLayout,
  texts: readonly TextEntry[],
): { name: string; body: Uint8Array | T | 'serialization-id' }[] {
  const text = (name: string, content: string) => ({ name, body: Buffer.from(content, 'latin1') });
  const storages = tensors.map((body, index) => ({ name: `data/${index}`, body }));
  // Before 2.7 the storages stand in the order of their names: data/10 before data/2.
  if (layout !== '2.7') storages.sort((a, b) => (a.name < b.name ? -1 : 1));
  return [
    { name: 'data.pkl', body: pickleOfTensors(tensors, texts) },
    ...(layout === '2.7' ? [text('.format_version', '1'), text('.storage_alignment', `${ALIGNMENT}`)] : []),
    ...(layout === '1.13' ? [] : [text('byteorder', 'little')]),
    ...storages,
    text('version', '3\n'),
    ...(layout === '1.13' ? [] : [{ name: '.data/serialization_id', body: 'serialization-id' as const }]),
  ];
}

/** Where everything will stand. All of it follows from names and shapes, so a file's size is known before its bytes. */
function planOf<T extends TensorShape>(tensors: readonly T[], options: TorchZipOptions) {
  const names = [...tensors, ...(options.texts ?? [])].map((entry) => entry.name);
  assert(new Set(names).size === names.length, 'tensor names differ, and those of texts');
  const layout = options.layout ?? '2.7';
  const prefix = prefixOf(options.stem, layout);
  let offset = 0;
  let directoryBytes = 0;
  const records = bodiesOf(tensors, layout, options.texts ?? []).map(({ name, body }) => {
    const fullName = Buffer.from(`${prefix}/${name}`, 'utf8');
    const bytes = body === 'serialization-id' ? SERIALIZATION_ID_BYTES : body instanceof Uint8Array ? body.length : tensorBytes(body);
    const headerOffset = offset;
    offset += zip.localHeaderBytes(fullName.length, bytes, headerOffset, ALIGNMENT) + bytes + zip.descriptorBytes(bytes, headerOffset);
    directoryBytes += zip.centralHeaderBytes(fullName.length, bytes, headerOffset);
    return { name, fullName, bytes, headerOffset, body };
  });
  const fileBytes = offset + directoryBytes + zip.END64_BYTES + zip.LOCATOR_BYTES + zip.END_BYTES;
  assert(Number.isSafeInteger(fileBytes), 'a file of less than 2^53 bytes');
  return { records, directoryOffset: offset, directoryBytes, fileBytes };
}

/** Bytes of the file that `writeTorchZip` makes of tensors of these shapes: exact, without any tensor's bytes. */
export function fileSizeOf(tensors: readonly TensorShape[], options: TorchZipOptions): number {
  return planOf(tensors, options).fileBytes;
}

/** The small bytes between two tensors, gathered so that each becomes no write of its own. */
class FilePieces {
  bytes = 0;
  crc32 = 0;
  #pending: Uint8Array[] = [];

  add(bytes: Uint8Array): void {
    this.#pending.push(bytes);
  }

  take(): Uint8Array {
    const piece = Buffer.concat(this.#pending);
    this.#pending = [];
    this.bytes += piece.length;
    this.crc32 = crc32(piece, this.crc32);
    return piece;
  }
}

/**
 * Streams the bytes that `torch.save({name: tensor, …}, path)` writes on Linux, so that torch.load and any
 * reader of its files take it as torch's own. Tensor bytes pass through as they come and are never copied;
 * memory stays at one piece. Returns sizes and CRCs when the last piece is out.
 *
 * A source that yields another count of bytes than its shape says is a broken belief: it throws, and
 * what was yielded until then is no file.
 */
export async function* writeTorchZip(
  tensors: readonly TensorSource[],
  options: TorchZipOptions,
): AsyncGenerator<Uint8Array, WrittenFile, undefined> {
  const plan: Plan = planOf(tensors, options);
  const file = new FilePieces();
  const written: { name: string; bytes: number; crc32: number }[] = [];
  const directory: Uint8Array[] = [];
  for (const record of plan.records) {
    const { name, bytes, body } = record;
    file.add(zip.localHeader(record, ALIGNMENT));
    let sum = 0;
    if (body === 'serialization-id' || body instanceof Uint8Array) {
      const content = body === 'serialization-id' ? Buffer.from(serializationId(written), 'latin1') : body;
      sum = crc32(content);
      file.add(content);
    } else {
      yield file.take();
      let seen = 0;
      for await (const piece of body.pieces()) {
        seen += piece.length;
        assert(seen <= bytes, `tensor ${body.name} has ${bytes} bytes and its source yielded more`);
        if (piece.length === 0) continue;
        sum = crc32(piece, sum);
        yield piece;
      }
      assert(seen === bytes, `tensor ${body.name} has ${bytes} bytes and its source yielded ${seen}`);
      file.bytes += bytes;
      file.crc32 = combineCrc32(file.crc32, sum, bytes);
    }
    file.add(zip.dataDescriptor({ bytes, headerOffset: record.headerOffset, crc32: sum }));
    directory.push(zip.centralHeader({ ...record, crc32: sum }));
    written.push({ name, bytes, crc32: sum });
  }
  for (const header of directory) file.add(header);
  file.add(zip.endRecords(plan.records.length, plan.directoryOffset, plan.directoryBytes));
  yield file.take();
  assert(file.bytes === plan.fileBytes, 'the file has the planned size');
  return { bytes: file.bytes, crc32: file.crc32, records: written };
}
