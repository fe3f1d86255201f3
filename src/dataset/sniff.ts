import type { FileForm } from './records.ts';

/** Files that people give by mistake: first bytes, name, and the command that makes JSONL of them (`FILE` stands for the path). */
const KNOWN: readonly { readonly magic: string; readonly what: string; readonly hint: string }[] = [
  { magic: '1f8b', what: 'compressed with gzip', hint: 'gzip -dc FILE > unpacked' },
  { magic: '28b52ffd', what: 'compressed with zstd', hint: 'zstd -dc FILE > unpacked' },
  { magic: 'fd377a585a00', what: 'compressed with xz', hint: 'xz -dc FILE > dataset.jsonl' },
  { magic: '425a68', what: 'compressed with bzip2', hint: 'bzip2 -dc FILE > dataset.jsonl' },
  { magic: '50415231', what: 'a Parquet file', hint: 'unpack it: Parquet compresses its columns itself' },
  { magic: '50415245', what: 'an encrypted Parquet file', hint: 'write it again without encryption' },
  { magic: '4152524f5731', what: 'an Arrow file', hint: 'save the dataset with to_json() (one row a line)' },
  { magic: '504b0304', what: 'a zip archive or a torch file', hint: 'give the JSONL file that the samples were made from' },
  { magic: '53514c69746520666f726d6174203300', what: 'an SQLite database', hint: 'export its rows as JSON, one a line' },
  { magic: 'fffe', what: 'text in UTF-16', hint: 'iconv -f UTF-16 -t UTF-8 FILE > dataset.jsonl' },
  { magic: 'feff', what: 'text in UTF-16', hint: 'iconv -f UTF-16 -t UTF-8 FILE > dataset.jsonl' },
];

/** What a file of rows is packed in, by its first bytes. Whether the text in it is JSONL is `notJsonl`'s to say. */
export function formOf(head: Uint8Array): FileForm {
  const hex = Buffer.from(head.subarray(0, 4)).toString('hex');
  if (hex.startsWith('1f8b')) return 'jsonl.gz';
  // A zstd file may begin with a skippable frame, as pzstd writes it.
  if (hex === '28b52ffd' || /^5.2a4d18$/.test(hex)) return 'jsonl.zst';
  return hex === '50415231' ? 'parquet' : 'jsonl';
}

/**
 * What a file is when its first bytes say that it cannot be JSONL; null when it may be. Cheap, and kinder than a
 * million "not JSON" problems after minutes of scanning.
 */
export function notJsonl(head: Uint8Array, path: string): { readonly what: string; readonly hint: string } | null {
  const hex = Buffer.from(head.subarray(0, 16)).toString('hex');
  const known = KNOWN.find(({ magic }) => hex.startsWith(magic));
  if (known !== undefined) return { what: known.what, hint: known.hint.replaceAll('FILE', path) };
  if (Buffer.from(head.subarray(257, 262)).toString('latin1') === 'ustar') return { what: 'a tar archive', hint: `tar -xf ${path}` };
  // A bad row among good ones is the scan's to report; here the whole file is something else.
  const text = Buffer.from(head).toString('latin1').trimStart();
  const [first = ''] = text.split('\n', 1);
  if (isJson(first)) return null;
  if (head.includes(0)) return { what: 'not text (it holds NUL bytes)', hint: `file ${path}` };
  return text.startsWith('[') ? { what: 'one JSON list', hint: `jq -c '.[]' ${path} > dataset.jsonl` } : null;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
