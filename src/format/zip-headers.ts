/**
 * The headers of a torch zip, byte for byte as PyTorch's writer lays them out: stored records, sizes and
 * CRC behind the data, `FB` padding in front of it. (pytorch `caffe2/serialize/inline_container.cc` on
 * miniz; docs/on-disk.md has the layout.)
 */
import { Buffer } from 'node:buffer';

export const LOCAL_SIGNATURE = 0x04034b50;
export const DESCRIPTOR_SIGNATURE = 0x08074b50;
export const CENTRAL_SIGNATURE = 0x02014b50;
export const END64_SIGNATURE = 0x06064b50;
export const LOCATOR_SIGNATURE = 0x07064b50;
export const END_SIGNATURE = 0x06054b50;

export const LOCAL_BYTES = 30;
export const CENTRAL_BYTES = 46;
export const END64_BYTES = 56;
export const LOCATOR_BYTES = 20;
export const END_BYTES = 22;

export const U32_MAX = 0xffffffff;
export const U16_MAX = 0xffff;
/** Flag bit 3: CRC and sizes stand behind the data. */
export const FLAG_DESCRIPTOR = 0x0008;
/** Flag bit 11: the name is UTF-8. */
const FLAG_UTF8 = 0x0800;
/** Extra field ids: zip64, and torch's padding (the letters F and B). */
export const EXTRA_ZIP64 = 0x0001;
export const EXTRA_PADDING = 0x4246;
/** The letter Z, which torch pads with. */
export const PADDING_BYTE = 0x5a;

/** A record as the directory describes it. */
export interface ZipEntry {
  /** With the archive's prefix, as bytes. */
  readonly fullName: Uint8Array;
  readonly headerOffset: number;
  readonly bytes: number;
  readonly crc32: number;
}

/** A 64-bit unsigned number, as exact as a double holds it; callers compare it with the file's size before use. */
export function readU64(from: Buffer, at: number): number {
  return from.readUInt32LE(at) + from.readUInt32LE(at + 4) * 0x100000000;
}

function writeU64(to: Buffer, value: number, at: number): void {
  to.writeUInt32LE(value % 0x100000000, at);
  to.writeUInt32LE(Math.floor(value / 0x100000000), at + 4);
}

/** Records of 4 GiB - 1 and more carry both sizes as 64 bits; those that start there or later carry their own offset. */
function zip64Bytes(bytes: number, headerOffset: number): number {
  const fields = (bytes >= U32_MAX ? 16 : 0) + (headerOffset >= U32_MAX ? 8 : 0);
  return fields === 0 ? 0 : 4 + fields;
}

function writeZip64(to: Buffer, at: number, entry: Pick<ZipEntry, 'bytes' | 'headerOffset'>, secondSize: number): void {
  const length = zip64Bytes(entry.bytes, entry.headerOffset);
  if (length === 0) return;
  to.writeUInt16LE(EXTRA_ZIP64, at);
  to.writeUInt16LE(length - 4, at + 2);
  let next = at + 4;
  if (entry.bytes >= U32_MAX) {
    writeU64(to, entry.bytes, next);
    writeU64(to, secondSize, next + 8);
    next += 16;
  }
  if (entry.headerOffset >= U32_MAX) writeU64(to, entry.headerOffset, next);
}

/** An empty record has no descriptor, and so no flag for one. */
function flagsOf(bytes: number): number {
  return bytes > 0 ? FLAG_UTF8 | FLAG_DESCRIPTOR : FLAG_UTF8;
}

/** Length of `localHeader`: fixed part, name, zip64 field and the padding up to the next multiple of `alignment`. */
export function localHeaderBytes(nameBytes: number, bytes: number, headerOffset: number, alignment: number): number {
  const bare = LOCAL_BYTES + nameBytes + zip64Bytes(bytes, headerOffset) + 4;
  return Math.ceil((headerOffset + bare) / alignment) * alignment - headerOffset;
}

/** Everything in front of a record's data. It says neither CRC nor size: those come after the data. */
export function localHeader(entry: Omit<ZipEntry, 'crc32'>, alignment: number): Buffer {
  const { fullName, bytes, headerOffset } = entry;
  const length = localHeaderBytes(fullName.length, bytes, headerOffset, alignment);
  const header = Buffer.alloc(length, PADDING_BYTE);
  header.fill(0, 0, LOCAL_BYTES);
  header.writeUInt32LE(LOCAL_SIGNATURE, 0);
  header.writeUInt16LE(flagsOf(bytes), 6);
  header.writeUInt16LE(fullName.length, 26);
  header.writeUInt16LE(length - LOCAL_BYTES - fullName.length, 28);
  header.set(fullName, LOCAL_BYTES);
  // In the local header the second size is 0.
  writeZip64(header, LOCAL_BYTES + fullName.length, entry, 0);
  const padding = LOCAL_BYTES + fullName.length + zip64Bytes(bytes, headerOffset);
  header.writeUInt16LE(EXTRA_PADDING, padding);
  header.writeUInt16LE(length - padding - 4, padding + 2);
  return header;
}

export function descriptorBytes(bytes: number, headerOffset: number): number {
  if (bytes === 0) return 0;
  return zip64Bytes(bytes, headerOffset) > 0 ? 24 : 16;
}

/** CRC and sizes behind a record's data; nothing for an empty record. */
export function dataDescriptor(entry: Omit<ZipEntry, 'fullName'>): Buffer {
  const descriptor = Buffer.alloc(descriptorBytes(entry.bytes, entry.headerOffset));
  if (descriptor.length === 0) return descriptor;
  descriptor.writeUInt32LE(DESCRIPTOR_SIGNATURE, 0);
  descriptor.writeUInt32LE(entry.crc32, 4);
  if (descriptor.length === 24) {
    writeU64(descriptor, entry.bytes, 8);
    writeU64(descriptor, entry.bytes, 16);
  } else {
    descriptor.writeUInt32LE(entry.bytes, 8);
    descriptor.writeUInt32LE(entry.bytes, 12);
  }
  return descriptor;
}

export function centralHeaderBytes(nameBytes: number, bytes: number, headerOffset: number): number {
  return CENTRAL_BYTES + nameBytes + zip64Bytes(bytes, headerOffset);
}

/** A record's line in the directory. */
export function centralHeader(entry: ZipEntry): Buffer {
  const { fullName, bytes, headerOffset } = entry;
  const header = Buffer.alloc(centralHeaderBytes(fullName.length, bytes, headerOffset));
  header.writeUInt32LE(CENTRAL_SIGNATURE, 0);
  header.writeUInt16LE(flagsOf(bytes), 8);
  header.writeUInt32LE(bytes > 0 ? entry.crc32 : 0, 16);
  header.writeUInt32LE(Math.min(bytes, U32_MAX), 20);
  header.writeUInt32LE(Math.min(bytes, U32_MAX), 24);
  header.writeUInt16LE(fullName.length, 28);
  header.writeUInt16LE(zip64Bytes(bytes, headerOffset), 30);
  header.writeUInt32LE(Math.min(headerOffset, U32_MAX), 42);
  header.set(fullName, CENTRAL_BYTES);
  writeZip64(header, CENTRAL_BYTES + fullName.length, entry, bytes);
  return header;
}

/** A torch zip's last 98 bytes: zip64 end record, its locator, and the end record without a comment. */
export function endRecords(entries: number, directoryOffset: number, directoryBytes: number): Buffer {
  const end = Buffer.alloc(END64_BYTES + LOCATOR_BYTES + END_BYTES);
  end.writeUInt32LE(END64_SIGNATURE, 0);
  writeU64(end, END64_BYTES - 12, 4);
  end.writeUInt16LE(0x031e, 12);
  end.writeUInt16LE(45, 14);
  writeU64(end, entries, 24);
  writeU64(end, entries, 32);
  writeU64(end, directoryBytes, 40);
  writeU64(end, directoryOffset, 48);
  end.writeUInt32LE(LOCATOR_SIGNATURE, 56);
  writeU64(end, directoryOffset + directoryBytes, 64);
  end.writeUInt32LE(1, 72);
  end.writeUInt32LE(END_SIGNATURE, 76);
  end.writeUInt16LE(Math.min(entries, U16_MAX), 84);
  end.writeUInt16LE(Math.min(entries, U16_MAX), 86);
  end.writeUInt32LE(Math.min(directoryBytes, U32_MAX), 88);
  end.writeUInt32LE(Math.min(directoryOffset, U32_MAX), 92);
  return end;
}
