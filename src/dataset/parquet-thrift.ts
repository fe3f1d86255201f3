const DEPTH_MOST = 32;

/**
 * Walks over one structure of Thrift's compact protocol and throws a RangeError when it is not whole: a list that says it has more
 * entries than there are bytes, a text beyond the end, structures nested without end. hyparquet believes such
 * headers and allocates for them, so nothing damaged or hostile may reach it unchecked.
 *
 * @returns how many bytes it has; null when `bytes` ends inside it
 */
export function thriftBytes(bytes: Uint8Array): number | null {
  let at = 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

  function varint(): number {
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = view.getUint8(at);
      at += 1;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw new Refused('a number in its header is longer than 64 bits');
  }

  function skip(count: number): void {
    at += count;
    if (at > bytes.length) throw new RangeError('beyond the end');
  }

  function element(type: number, depth: number): void {
    if (depth > DEPTH_MOST) throw new Refused('its header is nested too deeply');
    switch (type) {
      case 1:
      case 2:
        return;
      case 3:
        skip(1);
        return;
      case 4:
      case 5:
      case 6:
        varint();
        return;
      case 7:
        skip(8);
        return;
      case 8:
        skip(varint());
        return;
      case 9: {
        const head = view.getUint8(at);
        at += 1;
        const count = head >>> 4 === 15 ? varint() : head >>> 4;
        const inner = head & 15;
        if (count > bytes.length - at) throw new RangeError('beyond the end');
        for (let entry = 0; entry < count; entry += 1) element(inner === 1 || inner === 2 ? 3 : inner, depth + 1);
        return;
      }
      case 12:
        structure(depth + 1);
        return;
      default:
        throw new Refused(`its header holds a field of unknown type ${type}`);
    }
  }

  function structure(depth: number): void {
    for (;;) {
      const head = view.getUint8(at);
      at += 1;
      if ((head & 15) === 0) return;
      if (head >>> 4 === 0) varint();
      element(head & 15, depth);
    }
  }

  try {
    structure(0);
    return at;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

class Refused extends Error {}
