import type { Codec } from '../core/run-layout.ts';
import { gzipSizeMost, writeGzip } from '../format/gzip-writer.ts';
import type { TensorShape } from '../format/pickle-writer.ts';
import { safetensorsSizeOf, writeSafetensors } from '../format/safetensors-writer.ts';
import type { TensorSource, TextEntry, WrittenFile } from '../format/tensors.ts';
import { fileSizeOf, writeTorchZip } from '../format/torch-zip-writer.ts';

export interface FileToWrite {
  /** Without folders. */
  readonly name: string;
  /** Values beside the tensors; only a torch file has a place for them. */
  readonly texts: readonly TextEntry[];
}

/** How tensors become a file. */
interface CodecWriter {
  write(tensors: readonly TensorSource[], file: FileToWrite): AsyncGenerator<Uint8Array, WrittenFile, undefined>;
  /** Bytes of that file; of a compressed one, more than which it cannot have. */
  size(tensors: readonly TensorShape[], file: FileToWrite): number;
}

/** torch names the archive after the file it writes to, and `archive` where it writes into a stream, as gzip is one. */
const IN_A_STREAM = 'archive';

export const CODEC_WRITERS: Readonly<Record<Codec, CodecWriter>> = {
  'torch-zip': {
    write: (tensors, { name, texts }) => writeTorchZip(tensors, { stem: stemOf(name), texts }),
    size: (tensors, { name, texts }) => fileSizeOf(tensors, { stem: stemOf(name), texts }),
  },
  'torch-gzip': {
    write: (tensors, { texts }) => writeGzip(writeTorchZip(tensors, { stem: IN_A_STREAM, texts })),
    size: (tensors, { texts }) => gzipSizeMost(fileSizeOf(tensors, { stem: IN_A_STREAM, texts })),
  },
  safetensors: {
    write: (tensors) => writeSafetensors(tensors),
    size: (tensors) => safetensorsSizeOf(tensors),
  },
};

function stemOf(name: string): string {
  return name.slice(0, name.lastIndexOf('.'));
}
