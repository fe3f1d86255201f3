/** A wider code would mean a dictionary of more than 16 million entries. */
const WIDTH_MOST = 24;

/**
 * Runs of equal numbers and packed numbers, Parquet's way to write levels and dictionary codes: fills `output` from the bytes
 * [from, to). Throws when they end first. Unlike the reader in hyparquet, a run never writes beyond `output`, whatever length it states.
 */
export function readRuns(bytes: Uint8Array, from: number, to: number, width: number, output: Uint8Array | Uint32Array): void {
  if (width > WIDTH_MOST) throw new Error(`codes of ${width} bits`);
  let at = from;
  let seen = 0;

  function byte(): number {
    if (at >= to) throw new Error(`a page holds ${seen} of ${output.length} numbers`);
    const value = bytes[at] ?? 0;
    at += 1;
    return value;
  }

  while (seen < output.length) {
    let head = 0;
    for (let shift = 0; ; shift += 7) {
      const part = byte();
      head += (part & 0x7f) * 2 ** shift;
      if (part < 0x80) break;
      if (shift > 28) throw new Error('a run has an impossible length');
    }
    if (head % 2 === 0) {
      let value = 0;
      for (let shift = 0; shift < width; shift += 8) value |= byte() << shift;
      const end = Math.min(seen + head / 2, output.length);
      output.fill(value, seen, end);
      seen = end;
    } else {
      const runEnd = at + ((head - 1) / 2) * width;
      const end = Math.min(seen + ((head - 1) / 2) * 8, output.length);
      const mask = 2 ** width - 1;
      let held = 0;
      let bits = 0;
      for (; seen < end; seen += 1) {
        for (; bits < width; bits += 8) held |= byte() << bits;
        output[seen] = held & mask;
        held >>>= width;
        bits -= width;
      }
      at = runEnd;
    }
  }
}

/** Bits that a level up to `most` takes. */
export function levelWidth(most: number): number {
  return most === 0 ? 0 : 32 - Math.clz32(most);
}
