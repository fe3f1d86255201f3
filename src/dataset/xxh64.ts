/** A 64-bit number in two halves: bigint arithmetic is ten times slower here. */
interface Wide {
  high: number;
  low: number;
}

const P1: Wide = { high: 0x9e3779b1, low: 0x85ebca87 };
const P2: Wide = { high: 0xc2b2ae3d, low: 0x27d4eb4f };
const P3: Wide = { high: 0x165667b1, low: 0x9e3779f9 };
const P4: Wide = { high: 0x85ebca77, low: 0xc2b2ae63 };
const P5: Wide = { high: 0x27d4eb2f, low: 0x165667c5 };

/** The low half of XXH64 with seed 0: what zstd stores behind a frame. */
export function xxh64Low(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const hash: Wide = { ...P5 };
  if (bytes.length >= 32) {
    const lanes = [plus({ ...P1 }, P2), { ...P2 }, { high: 0, low: 0 }, negative(P1)];
    for (const [lane, one] of lanes.entries()) {
      Object.assign(one, stripes(view, lane * 8, bytes.length & ~31, one));
    }
    at = bytes.length & ~31;
    hash.high = 0;
    hash.low = 0;
    for (const [lane, turn] of [1, 7, 12, 18].entries()) {
      const one = lanes[lane];
      if (one !== undefined) plus(hash, rotated({ ...one }, turn));
    }
    for (const one of lanes) {
      mix(hash, one.high, one.low);
      plus(times(hash, P1), P4);
    }
  }
  plus(hash, { high: Math.floor(bytes.length / 2 ** 32), low: bytes.length >>> 0 });
  for (; at + 8 <= bytes.length; at += 8) {
    mix(hash, view.getUint32(at + 4, true), view.getUint32(at, true));
    plus(times(rotated(hash, 27), P1), P4);
  }
  if (at + 4 <= bytes.length) {
    const word = times({ high: 0, low: view.getUint32(at, true) }, P1);
    plus(times(rotated(xor(hash, word), 23), P2), P3);
    at += 4;
  }
  for (; at < bytes.length; at += 1) {
    times(rotated(xor(hash, times({ high: 0, low: view.getUint8(at) }, P5)), 11), P1);
  }
  times(xorShifted(hash, 33), P2);
  times(xorShifted(hash, 29), P3);
  return (hash.low ^ hash.high) >>> 0;
}

/** One lane over all stripes: every 32nd 8 bytes. Plain integers in local variables, which is what makes it fast. */
function stripes(view: DataView, from: number, to: number, { high, low }: Wide): Wide {
  let h = high | 0;
  let l = low | 0;
  for (let at = from; at < to; at += 32) {
    // lane += input * P2
    const inputLow = view.getInt32(at, true);
    const inputHigh = view.getInt32(at + 4, true);
    let a0 = inputLow & 0xffff;
    let a1 = inputLow >>> 16;
    let t = (Math.imul(a1, 0xeb4f) >>> 0) + (Math.imul(a0, 0xeb4f) >>> 16);
    let u = (Math.imul(a0, 0x27d4) >>> 0) + (t & 0xffff);
    let carried = Math.imul(a1, 0x27d4) + ((t / 65536) | 0) + ((u / 65536) | 0);
    const productHigh = (carried + Math.imul(inputHigh, 0x27d4eb4f) + Math.imul(inputLow, 0xc2b2ae3d)) | 0;
    const productLow = Math.imul(inputLow, 0x27d4eb4f);
    const sum = (l >>> 0) + (productLow >>> 0);
    h = (h + productHigh + (sum > 0xffffffff ? 1 : 0)) | 0;
    l = sum | 0;
    // rotate by 31
    const turnedHigh = (h << 31) | (l >>> 1);
    const turnedLow = (l << 31) | (h >>> 1);
    // lane *= P1
    a0 = turnedLow & 0xffff;
    a1 = turnedLow >>> 16;
    t = (Math.imul(a1, 0xca87) >>> 0) + (Math.imul(a0, 0xca87) >>> 16);
    u = (Math.imul(a0, 0x85eb) >>> 0) + (t & 0xffff);
    carried = Math.imul(a1, 0x85eb) + ((t / 65536) | 0) + ((u / 65536) | 0);
    h = (carried + Math.imul(turnedHigh, 0x85ebca87) + Math.imul(turnedLow, 0x9e3779b1)) | 0;
    l = Math.imul(turnedLow, 0x85ebca87);
  }
  return { high: h, low: l };
}

/** `hash ^= round(0, input)` */
function mix(hash: Wide, high: number, low: number): void {
  const one: Wide = { high: 0, low: 0 };
  round(one, high, low);
  xor(hash, one);
}

const scratch: Wide = { high: 0, low: 0 };

function round(lane: Wide, high: number, low: number): void {
  scratch.high = high;
  scratch.low = low;
  times(rotated(plus(lane, times(scratch, P2)), 31), P1);
}

// Each of these changes its first argument and returns it.

function plus(one: Wide, other: Wide): Wide {
  const low = (one.low >>> 0) + (other.low >>> 0);
  one.high = (one.high + other.high + (low > 0xffffffff ? 1 : 0)) | 0;
  one.low = low | 0;
  return one;
}

function negative(one: Wide): Wide {
  return plus({ high: ~one.high, low: ~one.low }, { high: 0, low: 1 });
}

function xor(one: Wide, other: Wide): Wide {
  one.high ^= other.high;
  one.low ^= other.low;
  return one;
}

function xorShifted(one: Wide, turn: number): Wide {
  return turn >= 32
    ? xor(one, { high: 0, low: one.high >>> (turn - 32) })
    : xor(one, { high: one.high >>> turn, low: (one.low >>> turn) | (one.high << (32 - turn)) });
}

function rotated(one: Wide, turn: number): Wide {
  const { high, low } = one;
  one.high = (high << turn) | (low >>> (32 - turn));
  one.low = (low << turn) | (high >>> (32 - turn));
  return one;
}

function times(one: Wide, other: Wide): Wide {
  const { high, low } = one;
  const a0 = low & 0xffff;
  const a1 = low >>> 16;
  const b0 = other.low & 0xffff;
  const b1 = other.low >>> 16;
  const middle = a1 * b0 + ((a0 * b0) >>> 16);
  const cross = a0 * b1 + (middle & 0xffff);
  const carried = a1 * b1 + Math.floor(middle / 65536) + Math.floor(cross / 65536);
  one.high = (carried + Math.imul(high, other.low) + Math.imul(low, other.high)) | 0;
  one.low = Math.imul(low, other.low);
  return one;
}
