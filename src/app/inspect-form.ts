import type { RandomAccess } from '../core/random-access.ts';
import type { FileForm } from './inspect-document.ts';

const HEAD_BYTES = 512;
const TAIL_BYTES = 22;
/** The longest header that safetensors allows. */
const SAFETENSORS_HEADER_MAX = 100_000_000;
const TORCH_NAMES = /\.(pt|pth|ckpt|bin)$/i;

/** What other files begin with, and what to say of them. */
const OTHERS: readonly { readonly is: string; readonly magic: RegExp }[] = [
  { is: 'a Git LFS pointer: the file itself was never downloaded', magic: /^version https:\/\/git-lfs\.github\.com/ },
  { is: 'an HTML page, as a failed download leaves it', magic: /^\s*<(!doctype|html)/i },
  { is: 'a GGUF model', magic: /^GGUF/ },
  { is: 'a NumPy array', magic: /^\x93NUMPY/ },
  { is: 'Parquet', magic: /^PAR1/ },
  { is: 'HDF5', magic: /^\x89HDF\r\n/ },
  { is: 'Zstandard', magic: /^\x28\xb5\x2f\xfd/ },
  { is: 'xz', magic: /^\xfd7zXZ/ },
  { is: 'bzip2', magic: /^BZh/ },
  { is: "tidemark's row table", magic: /^TMROWS/ },
  { is: "checked lines: a journal, lease or answers' part of tidemark", magic: /^\d{6,9} [0-9a-f]{8} \{/ },
  { is: 'JSON text', magic: /^\s*[{[]"?/ },
];

export interface SniffedForm {
  readonly form: FileForm;
  readonly looksLike: string | null;
}

/**
 * The form of a file by its first bytes and its last; its name decides only where they tell nothing, as when the first
 * page of a torch file was lost.
 */
export async function sniffForm(source: RandomAccess, name: string): Promise<SniffedForm> {
  const head = Buffer.from(await source.read(0, Math.min(source.size, HEAD_BYTES)));
  const text = head.toString('latin1');
  const known = (form: FileForm): SniffedForm => ({ form, looksLike: null });
  if (text.startsWith('PK\x03\x04')) return known('torch-zip');
  // The magic number of torch's first format, as pickle protocol 2 writes it.
  if (text.startsWith('\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19')) return known('torch-legacy');
  if (text.startsWith('\x1f\x8b')) return known('gzip');
  if (head.length >= 9 && head[8] === 0x7b && head.readUInt32LE(4) === 0 && head.readUInt32LE(0) <= SAFETENSORS_HEADER_MAX) {
    return known('safetensors');
  }
  if (head[0] === 0x80 && (head[1] ?? 0) >= 2 && (head[1] ?? 0) <= 5) {
    return { form: 'unknown', looksLike: 'a plain pickle, which runs code when it is loaded' };
  }
  if (text.slice(257, 262) === 'ustar') return { form: 'unknown', looksLike: 'a tar archive' };
  const other = OTHERS.find(({ magic }) => magic.test(text));
  if (other !== undefined) return { form: 'unknown', looksLike: other.is };
  const tail = Buffer.from(await source.read(Math.max(0, source.size - TAIL_BYTES), Math.min(source.size, TAIL_BYTES)));
  if (TORCH_NAMES.test(name) || tail.toString('latin1').startsWith('PK\x05\x06')) return known('torch-zip');
  if (/\.safetensors$/i.test(name)) return known('safetensors');
  if (/\.gz$/i.test(name)) return known('gzip');
  return { form: 'unknown', looksLike: null };
}
