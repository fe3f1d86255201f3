/**
 * The one way parsers see a file: a size and bounded reads. Parsers never learn a path and never
 * allocate from a header's word without checking it against `size` and their own stated limit.
 */
export interface RandomAccess {
  readonly size: number;
  /** Exactly `length` bytes from `offset`; rejects with a RangeError beyond the end and with the host's error when the machine refuses. */
  read(offset: number, length: number): Promise<Uint8Array>;
}
