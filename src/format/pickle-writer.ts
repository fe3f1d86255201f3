import { Buffer } from 'node:buffer';
import { assert } from '../core/assert.ts';
import { rowMajorStrides } from './strides.ts';
import { elementCount, type TensorSource, type TextEntry } from './tensors.ts';
import { STORAGE_CLASSES } from './torch-dtypes.ts';

/** A tensor to be written, before its bytes are asked for. */
export type TensorShape = Pick<TensorSource, 'name' | 'dtype' | 'shape'>;

/** Appends pickle opcodes; every string, global, tuple, dict and reduce result is put in the memo, as torch's pickler does. */
class PickleStream {
  readonly #out: number[] = [0x80, 2];
  readonly #memo = new Map<string, number>();
  #puts = 0;

  op(...opcodes: readonly (number | string)[]): void {
    for (const opcode of opcodes) this.#out.push(typeof opcode === 'string' ? opcode.charCodeAt(0) : opcode);
  }

  #word(value: number): void {
    this.#out.push(value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, value >>> 24);
  }

  #indexed(short: string, long: string, index: number): void {
    this.op(index < 256 ? short : long);
    if (index < 256) this.#out.push(index);
    else this.#word(index);
  }

  put(key?: string): void {
    if (key !== undefined) this.#memo.set(key, this.#puts);
    this.#indexed('q', 'r', this.#puts);
    this.#puts += 1;
  }

  #got(key: string): boolean {
    const index = this.#memo.get(key);
    if (index !== undefined) this.#indexed('h', 'j', index);
    return index !== undefined;
  }

  text(text: string): void {
    if (this.#got(`text ${text}`)) return;
    const bytes = Buffer.from(text, 'utf8');
    this.op('X');
    this.#word(bytes.length);
    for (const byte of bytes) this.#out.push(byte);
    this.put(`text ${text}`);
  }

  global(module: string, name: string): void {
    const line = `c${module}\n${name}\n`;
    if (this.#got(`global ${line}`)) return;
    this.op(...line);
    this.put(`global ${line}`);
  }

  /** A count: not negative. */
  integer(value: number): void {
    assert(Number.isSafeInteger(value) && value >= 0, 'a count is a whole number');
    if (value < 0x100) this.op('K', value);
    else if (value < 0x10000) this.op('M', value & 0xff, value >>> 8);
    else if (value < 0x80000000) {
      this.op('J');
      this.#word(value);
    } else {
      const bytes: number[] = [];
      for (let rest = value; rest > 0; rest = Math.floor(rest / 256)) bytes.push(rest % 256);
      // Signed: a leading one bit would make it negative.
      if ((bytes.at(-1) ?? 0) >= 0x80) bytes.push(0);
      this.op(0x8a, bytes.length, ...bytes);
    }
  }

  tuple(items: readonly number[]): void {
    if (items.length > 3) this.op('(');
    for (const item of items) this.integer(item);
    this.op([')', 0x85, 0x86, 0x87][items.length] ?? 't');
    if (items.length > 0) this.put();
  }

  bytes(): Uint8Array {
    return Buffer.from(this.#out);
  }
}

/**
 * The `data.pkl` that torch.save writes (pickle protocol 2) for a dict of tensors in the given order, tensor
 * k in storage `k` of its own on the CPU, row-major. Neighbours named `key/0`, `key/1` … are one list under `key`; texts stand behind the
 * tensors. Tensors of dtypes without a storage class (8-bit floats, unsigned beyond 8 bits) are a broken belief: no engine of ours makes them.
 */
export function pickleOfTensors(tensors: readonly TensorShape[], texts: readonly TextEntry[] = []): Uint8Array {
  const stream = new PickleStream();
  const entries = entriesOf(tensors);
  const count = entries.length + texts.length;
  stream.op('}');
  stream.put();
  if (count > 1) stream.op('(');
  for (const { key, list, from, to } of entries) {
    stream.text(key);
    if (list) {
      stream.op(']');
      stream.put();
      if (to - from > 1) stream.op('(');
    }
    for (let at = from; at < to; at += 1) putTensor(stream, tensors[at] as TensorShape, at);
    if (list) stream.op(to - from > 1 ? 'e' : 'a');
  }
  for (const { name, text } of texts) {
    stream.text(name);
    stream.text(text);
  }
  if (count === 1) stream.op('s');
  if (count > 1) stream.op('u');
  stream.op('.');
  return stream.bytes();
}

interface Entry {
  readonly key: string;
  readonly list: boolean;
  /** Tensors `[from, to)`. */
  readonly from: number;
  readonly to: number;
}

function entriesOf(tensors: readonly TensorShape[]): Entry[] {
  const entries: Entry[] = [];
  for (let from = 0; from < tensors.length; ) {
    const name = tensors[from]?.name ?? '';
    const key = /^([^/]+)\/0$/s.exec(name)?.[1];
    let to = from + 1;
    while (key !== undefined && tensors[to]?.name === `${key}/${to - from}`) to += 1;
    entries.push({ key: key ?? name, list: key !== undefined, from, to });
    from = to;
  }
  return entries;
}

function putTensor(stream: PickleStream, tensor: TensorShape, index: number): void {
  const storage = STORAGE_CLASSES.get(tensor.dtype);
  assert(storage !== undefined, `torch has a storage class for ${tensor.dtype}`);
  stream.global('torch._utils', '_rebuild_tensor_v2');
  stream.op('(', '(');
  stream.text('storage');
  stream.global('torch', storage);
  stream.text(`${index}`);
  stream.text('cpu');
  stream.integer(elementCount(tensor.shape));
  stream.op('t');
  stream.put();
  stream.op('Q');
  stream.integer(0);
  stream.tuple(tensor.shape);
  stream.tuple(rowMajorStrides(tensor.shape));
  stream.op(0x89);
  stream.global('collections', 'OrderedDict');
  stream.op(')', 'R');
  stream.put();
  stream.op('t');
  stream.put();
  stream.op('R');
  stream.put();
}
