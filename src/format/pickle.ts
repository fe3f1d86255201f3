import { Buffer, isUtf8 } from 'node:buffer';
import { DamageFound, quote, refused, torn } from './damage.ts';
import { rebuild, storageOf } from './pickle-rebuild.ts';
import { ALLOWED_GLOBALS, type PickleDict, type PickleList, type PickleValue } from './pickle-values.ts';
import type { Parsed } from './tensors.ts';

/** A `data.pkl` names tensors; more than this names something else. */
export const PICKLE_BYTES_MAX = 64 * 1024 * 1024;
/** Values made, memo entries and open marks: far beyond a sample's (about 60 values a tensor), so only an attack meets them. */
const VALUES_MAX = 1_000_000;
const MEMO_MAX = 1_000_000;
const MARKS_MAX = 1_000;
/** Bytes of one integer; torch writes counts, which take eight. */
const LONG_BYTES_MAX = 32;
const PROTOCOL_MAX = 5;
const STOP = 0x2e;

/**
 * Reads a pickle as data: dicts, lists, tuples, numbers, text, bytes and torch tensors. Nothing is
 * imported and nothing called; a global outside the allow-list or an opcode that torch.save does not
 * write is refused by name.
 *
 * @returns damage `refused`/`hostile` for what would run code or exceeds the limits, `refused`/`version` for a
 * newer protocol, `torn`/`structure` for bytes that are no pickle
 */
export function parsePickle(bytes: Uint8Array): Parsed<PickleValue> {
  try {
    return { ok: true, value: readPickle(bytes) };
  } catch (error) {
    if (error instanceof DamageFound) return { ok: false, damage: error.damage };
    throw error;
  }
}

/** As `parsePickle`, for parsers that collect damage themselves. */
export function readPickle(bytes: Uint8Array): PickleValue {
  if (bytes.length > PICKLE_BYTES_MAX) refused('hostile', `data.pkl has ${bytes.length} bytes, more than ${PICKLE_BYTES_MAX}`);
  return new PickleMachine(bytes).run();
}

/** The pickle machine without its power: a stack, marks and a memo. One loop, no recursion, so nesting costs no stack of ours. */
class PickleMachine {
  readonly #bytes: Buffer;
  #at = 0;
  #values = 0;
  readonly #stack: PickleValue[] = [];
  readonly #marks: number[] = [];
  readonly #memo = new Map<number, PickleValue>();

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  run(): PickleValue {
    for (;;) {
      const opcode = this.#u8();
      if (opcode === STOP) break;
      const value = this.#value(opcode);
      if (value === undefined) this.#act(opcode);
      else this.#push(value);
    }
    if (this.#stack.length !== 1 || this.#marks.length > 0) torn('structure', 'data.pkl ends with values left over');
    if (this.#at !== this.#bytes.length) torn('structure', `data.pkl ends ${this.#bytes.length - this.#at} bytes before its record does`);
    return this.#pop();
  }

  /** The position of the next `length` bytes, which are there. */
  #take(length: number): number {
    const at = this.#at;
    if (length > this.#bytes.length - at) torn('structure', `data.pkl breaks off at byte ${at}`);
    this.#at = at + length;
    return at;
  }

  #push(value: PickleValue): void {
    this.#values += 1;
    if (this.#values > VALUES_MAX) refused('hostile', `data.pkl holds more than ${VALUES_MAX} values`);
    this.#stack.push(value);
  }

  #pop(): PickleValue {
    if (this.#stack.length <= (this.#marks.at(-1) ?? 0)) torn('structure', `data.pkl takes a value that is not there, at byte ${this.#at}`);
    return this.#stack.pop() as PickleValue;
  }

  #top(): PickleValue {
    const value = this.#pop();
    this.#stack.push(value);
    return value;
  }

  /** Everything above the last mark, which is taken away. */
  #popMark(): PickleValue[] {
    const mark = this.#marks.pop();
    if (mark === undefined) torn('structure', `data.pkl lacks a mark at byte ${this.#at}`);
    return this.#stack.splice(mark);
  }

  #tuple(length: number): PickleValue {
    const items: PickleValue[] = [];
    for (let k = 0; k < length; k += 1) items.unshift(this.#pop());
    return { kind: 'tuple', items };
  }

  #list(): PickleList {
    const value = this.#top();
    if (typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'list') return value;
    return torn('structure', `data.pkl appends to something that is no list, at byte ${this.#at}`);
  }

  #dict(): PickleDict {
    const value = this.#top();
    if (typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'dict') return value;
    return torn('structure', `data.pkl sets an item of something that is no dict, at byte ${this.#at}`);
  }

  #keep(index: number): void {
    if (this.#memo.size >= MEMO_MAX) refused('hostile', `data.pkl keeps more than ${MEMO_MAX} values for later`);
    this.#memo.set(index, this.#top());
  }

  #kept(index: number): PickleValue {
    const value = this.#memo.get(index);
    if (value === undefined) torn('structure', `data.pkl refers to value ${index}, which it never kept`);
    return value;
  }

  #text(length: number): string {
    const at = this.#take(length);
    const text = this.#bytes.toString('utf8', at, at + length);
    // A replacement character may be the text's own; only then is it worth asking again.
    if (text.includes('\uFFFD') && !isUtf8(this.#bytes.subarray(at, at + length)))
      torn('structure', `data.pkl holds text that is not UTF-8, at byte ${at}`);
    return text;
  }

  /** A copy: the caller may reuse the bytes that we parse. */
  #raw(length: number): Uint8Array {
    const at = this.#take(length);
    return new Uint8Array(this.#bytes.subarray(at, at + length));
  }

  #u8(): number {
    return this.#bytes[this.#take(1)] as number;
  }

  #u32(): number {
    return this.#bytes.readUInt32LE(this.#take(4));
  }

  #u64(): number {
    const at = this.#take(8);
    return this.#bytes.readUInt32LE(at) + this.#bytes.readUInt32LE(at + 4) * 0x100000000;
  }

  #long(length: number): number | bigint {
    if (length > LONG_BYTES_MAX) refused('hostile', `data.pkl holds an integer of ${length} bytes`);
    const at = this.#take(length);
    let value = 0n;
    for (let k = length - 1; k >= 0; k -= 1) value = (value << 8n) | BigInt(this.#bytes[at + k] as number);
    value = BigInt.asIntN(length * 8, value);
    return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  }

  #line(): string {
    const end = this.#bytes.indexOf(0x0a, this.#at);
    if (end < 0) torn('structure', `data.pkl breaks off at byte ${this.#at}`);
    const at = this.#take(end + 1 - this.#at);
    return this.#bytes.toString('latin1', at, end);
  }

  #global(module: PickleValue, name: PickleValue): PickleValue {
    if (typeof module !== 'string' || typeof name !== 'string')
      torn('structure', `data.pkl names a global without text, at byte ${this.#at}`);
    const global = ALLOWED_GLOBALS.get(`${module}.${name}`);
    if (global === undefined) refused('hostile', `data.pkl asks for ${quote(`${module}.${name}`)}, which no tensor needs; nothing was run`);
    return global;
  }

  #reduce(): PickleValue {
    const args = this.#pop();
    const callable = this.#pop();
    if (typeof callable !== 'object' || callable === null || !('kind' in callable) || callable.kind !== 'global') {
      torn('structure', `data.pkl calls something that is no global, at byte ${this.#at}`);
    }
    return rebuild(callable, args);
  }

  #append(items: readonly PickleValue[]): void {
    const list = this.#list();
    for (const item of items) list.items.push(item);
  }

  #setItems(values: readonly PickleValue[]): void {
    if (values.length % 2 !== 0) torn('structure', `data.pkl sets a key without a value, at byte ${this.#at}`);
    const dict = this.#dict();
    for (let k = 0; k < values.length; k += 2) dict.entries.push([values[k] as PickleValue, values[k + 1] as PickleValue]);
  }

  /** What an opcode pushes, if pushing is all it does. */
  #value(opcode: number): PickleValue | undefined {
    switch (opcode) {
      case 0x4e: // NONE
        return null;
      case 0x88: // NEWTRUE
        return true;
      case 0x89: // NEWFALSE
        return false;
      case 0x4a: // BININT
        return this.#bytes.readInt32LE(this.#take(4));
      case 0x4b: // BININT1
        return this.#u8();
      case 0x4d: // BININT2
        return this.#bytes.readUInt16LE(this.#take(2));
      case 0x8a: // LONG1
        return this.#long(this.#u8());
      case 0x8b: // LONG4
        return this.#long(this.#u32());
      case 0x47: // BINFLOAT
        return this.#bytes.readDoubleBE(this.#take(8));
      case 0x58: // BINUNICODE
        return this.#text(this.#u32());
      case 0x8c: // SHORT_BINUNICODE
        return this.#text(this.#u8());
      case 0x8d: // BINUNICODE8
        return this.#text(this.#u64());
      case 0x42: // BINBYTES
        return this.#raw(this.#u32());
      case 0x43: // SHORT_BINBYTES
        return this.#raw(this.#u8());
      case 0x8e: // BINBYTES8
        return this.#raw(this.#u64());
      case 0x7d: // EMPTY_DICT
        return { kind: 'dict', entries: [] };
      case 0x5d: // EMPTY_LIST
        return { kind: 'list', items: [] };
      case 0x29: // EMPTY_TUPLE
        return { kind: 'tuple', items: [] };
      case 0x85: // TUPLE1
      case 0x86: // TUPLE2
      case 0x87: // TUPLE3
        return this.#tuple(opcode - 0x84);
      case 0x74: // TUPLE
        return { kind: 'tuple', items: this.#popMark() };
      case 0x68: // BINGET
        return this.#kept(this.#u8());
      case 0x6a: // LONG_BINGET
        return this.#kept(this.#u32());
      case 0x63: // GLOBAL
        return this.#global(this.#line(), this.#line());
      case 0x93: {
        // STACK_GLOBAL
        const name = this.#pop();
        return this.#global(this.#pop(), name);
      }
      case 0x52: // REDUCE
        return this.#reduce();
      case 0x51: // BINPERSID
        return storageOf(this.#pop());
      default:
        return undefined;
    }
  }

  #act(opcode: number): void {
    switch (opcode) {
      case 0x80: {
        // PROTO
        const protocol = this.#u8();
        if (protocol > PROTOCOL_MAX) refused('version', `data.pkl is of pickle protocol ${protocol}; ${PROTOCOL_MAX} is the newest known`);
        break;
      }
      case 0x95: // FRAME: only says how far to read ahead
        if (this.#u64() > this.#bytes.length - this.#at) torn('structure', 'data.pkl has a frame that is longer than its record');
        break;
      case 0x28: // MARK
        if (this.#marks.length >= MARKS_MAX) refused('hostile', `data.pkl nests more than ${MARKS_MAX} deep`);
        this.#marks.push(this.#stack.length);
        break;
      case 0x61: // APPEND
        this.#append([this.#pop()]);
        break;
      case 0x65: // APPENDS
        this.#append(this.#popMark());
        break;
      case 0x73: {
        // SETITEM
        const value = this.#pop();
        this.#setItems([this.#pop(), value]);
        break;
      }
      case 0x75: // SETITEMS
        this.#setItems(this.#popMark());
        break;
      case 0x71: // BINPUT
        this.#keep(this.#u8());
        break;
      case 0x72: // LONG_BINPUT
        this.#keep(this.#u32());
        break;
      case 0x94: // MEMOIZE
        this.#keep(this.#memo.size);
        break;
      default: {
        const name = OTHER_OPCODES.get(opcode) ?? 'unknown';
        refused('hostile', `data.pkl uses opcode 0x${opcode.toString(16)} (${name}) at byte ${this.#at - 1}; nothing was run`);
      }
    }
  }
}

/** Names of what is refused, so that a message says more than a number. */
const OTHER_OPCODES: ReadonlyMap<number, string> = new Map([
  [0x62, 'BUILD'],
  [0x69, 'INST'],
  [0x6f, 'OBJ'],
  [0x81, 'NEWOBJ'],
  [0x82, 'EXT1'],
  [0x83, 'EXT2'],
  [0x84, 'EXT4'],
  [0x92, 'NEWOBJ_EX'],
  [0x8f, 'EMPTY_SET'],
  [0x90, 'ADDITEMS'],
  [0x91, 'FROZENSET'],
  [0x96, 'BYTEARRAY8'],
  [0x97, 'NEXT_BUFFER'],
  [0x30, 'POP'],
  [0x31, 'POP_MARK'],
  [0x32, 'DUP'],
  [0x50, 'PERSID'],
  [0x54, 'BINSTRING'],
  [0x55, 'SHORT_BINSTRING'],
]);
