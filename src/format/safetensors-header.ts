import { Buffer, isUtf8 } from 'node:buffer';
import { quote, refused, torn } from './damage.ts';
import { DTYPE_BYTES, type Dtype, elementCount } from './tensors.ts';

interface HeaderTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  /** Offsets from the end of the header. */
  readonly from: number;
  readonly to: number;
}

export interface SafetensorsHeader {
  /** In the order of the file's data. */
  readonly tensors: readonly HeaderTensor[];
  readonly metadata: ReadonlyMap<string, string>;
}

const TENSORS_MAX = 100_000;
const METADATA_MAX = 100_000;
const AXES_MAX = 64;
const METADATA_KEY = '__metadata__';
/** Dtypes that the library knows and tidemark does not: they have no whole number of bytes, or no use here. */
const OTHER_DTYPES: readonly string[] = ['F4', 'F6_E2M3', 'F6_E3M2', 'F8_E8M0', 'F8_E4M3FNUZ', 'F8_E5M2FNUZ'];

/**
 * Reads the JSON header: `{name: {dtype, shape, data_offsets}, "__metadata__": {text: text}}`. It is of that one
 * form, so it is read by a reader of that form: no nesting to bound, no object whose keys could be prototypes,
 * and a key that comes twice is seen.
 *
 * @throws DamageFound
 */
export function readSafetensorsHeader(bytes: Uint8Array): SafetensorsHeader {
  const json = new HeaderReader(bytes);
  const tensors: HeaderTensor[] = [];
  const metadata = new Map<string, string>();
  const names = new Set<string>();
  if (bytes[0] !== 0x7b) torn('structure', 'the header does not begin with {');
  json.object((name) => {
    if (names.has(name)) torn('structure', `the header has the key ${quote(name)} twice`);
    names.add(name);
    if (names.size > TENSORS_MAX) refused('hostile', `more than ${TENSORS_MAX} tensors`);
    if (name !== METADATA_KEY) {
      tensors.push(readTensor(json, name));
      return;
    }
    json.object((key) => {
      if (metadata.has(key)) torn('structure', `the metadata has the key ${quote(key)} twice`);
      if (metadata.size >= METADATA_MAX) refused('hostile', `more than ${METADATA_MAX} lines of metadata`);
      metadata.set(key, json.text());
    });
  });
  json.end();
  return { tensors: inDataOrder(tensors), metadata };
}

function readTensor(json: HeaderReader, name: string): HeaderTensor {
  const where = `tensor ${quote(name)}`;
  let dtype: string | undefined;
  let shape: number[] | undefined;
  let offsets: number[] | undefined;
  json.object((key) => {
    if (key === 'dtype' && dtype === undefined) dtype = json.text();
    else if (key === 'shape' && shape === undefined) shape = json.counts(AXES_MAX);
    else if (key === 'data_offsets' && offsets === undefined) offsets = json.counts(2);
    else torn('structure', `${where} has an unknown or second ${quote(key)}`);
  });
  if (dtype === undefined || shape === undefined || offsets === undefined) torn('structure', `${where} lacks dtype, shape or data_offsets`);
  if (OTHER_DTYPES.includes(dtype)) refused('version', `${where} is of dtype ${dtype}, which tidemark does not read`);
  if (!isDtype(dtype)) torn('structure', `${where} has the unknown dtype ${quote(dtype)}`);
  const [from, to] = offsets;
  if (from === undefined || to === undefined || to < from) torn('structure', `${where} has no offsets`);
  if (elementCount(shape) * DTYPE_BYTES[dtype] !== to - from)
    torn('structure', `${where} has ${to - from} bytes, which its shape and dtype do not make`);
  return { name, dtype, shape, from, to };
}

function isDtype(text: string): text is Dtype {
  return Object.hasOwn(DTYPE_BYTES, text);
}

/** The data follows the header without gap or overlap; empty tensors may stand anywhere between. */
function inDataOrder(tensors: readonly HeaderTensor[]): HeaderTensor[] {
  const ordered = [...tensors].sort((a, b) => a.from - b.from || a.to - b.to);
  let expected = 0;
  for (const tensor of ordered) {
    if (tensor.from !== expected)
      torn('structure', `tensor ${quote(tensor.name)} begins at ${tensor.from} of the data and not at ${expected}`);
    expected = tensor.to;
  }
  return ordered;
}

/** A JSON reader that knows objects of known keys, text and lists of counts. */
class HeaderReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (!isUtf8(bytes)) torn('structure', 'the header is not UTF-8');
  }

  #fail(expected: string): never {
    return torn('structure', `the header is not JSON as safetensors has it: ${expected} expected at byte ${this.#at}`);
  }

  /** The next byte that is no space, not yet taken. */
  #next(): number {
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d) this.#at += 1;
      else return byte ?? -1;
    }
  }

  #take(character: string): void {
    if (!this.#takes(character)) this.#fail(character);
  }

  #takes(character: string): boolean {
    if (this.#next() !== character.charCodeAt(0)) return false;
    this.#at += 1;
    return true;
  }

  /** Calls `member` for each key; it must read the value. */
  object(member: (key: string) => void): void {
    this.#take('{');
    if (this.#takes('}')) return;
    do {
      const key = this.text();
      this.#take(':');
      member(key);
    } while (this.#takes(','));
    this.#take('}');
  }

  text(): string {
    this.#take('"');
    const start = this.#at - 1;
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined) this.#fail('"');
      this.#at += byte === 0x5c ? 2 : 1;
      if (byte === 0x22) break;
    }
    try {
      // One string literal: JSON.parse knows the escapes, and can give nothing but a string.
      return JSON.parse(this.#bytes.toString('utf8', start, this.#at)) as string;
    } catch {
      return this.#fail('text without control characters or unknown escapes');
    }
  }

  counts(most: number): number[] {
    const counts: number[] = [];
    this.#take('[');
    if (this.#takes(']')) return counts;
    do {
      if (counts.length >= most) this.#fail(`a list of at most ${most}`);
      counts.push(this.#count());
    } while (this.#takes(','));
    this.#take(']');
    return counts;
  }

  #count(): number {
    const first = this.#next();
    const start = this.#at;
    let value = 0;
    for (let byte = first; byte >= 0x30 && byte <= 0x39; byte = this.#bytes[this.#at] ?? -1) {
      value = value * 10 + byte - 0x30;
      if (value > Number.MAX_SAFE_INTEGER) this.#fail('a count below 2^53');
      this.#at += 1;
    }
    if (this.#at === start || (first === 0x30 && this.#at > start + 1)) this.#fail('a count');
    return value;
  }

  /** Only spaces may follow. */
  end(): void {
    if (this.#next() !== -1) this.#fail('the end of the header');
  }
}
