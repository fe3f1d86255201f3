/** A stretch of something that can only be read forwards: text of a compressed file, rows of a table. */
export interface Segment<T> {
  /** Positions, in bytes of text or in rows: [start, end). */
  readonly start: number;
  readonly end: number;
  /** Roughly the bytes that `data` holds. */
  readonly cost: number;
  readonly data: T;
}

export interface SegmentSource<T> {
  /** The nearest position at or before `position` where reading may begin. */
  anchor(position: number): number;
  /** Segments without gaps from an anchor to the end. Stops reading when it is returned from. */
  segments(from: number): AsyncGenerator<Segment<T>>;
}

/**
 * Random access to what can only be read forwards. Rows are asked for nearly in order, by lanes that run a little apart:
 * the last segments stay in memory for the stragglers, so that a whole pass reads everything once. A request before them
 * begins again at the anchor before it, which costs reading up to there; nothing else is kept.
 */
export class ReadWindow<T> {
  readonly #source: SegmentSource<T>;
  readonly #costMost: number;
  #held: Segment<T>[] = [];
  #cost = 0;
  #end = 0;
  #reading: AsyncGenerator<Segment<T>> | null = null;
  #last: Promise<unknown> = Promise.resolve();

  constructor(source: SegmentSource<T>, costMost: number) {
    this.#source = source;
    this.#costMost = costMost;
  }

  /** The segments that hold [start, end), in order; fewer when the source ends before. One request at a time is carried out. */
  read(start: number, end: number): Promise<readonly Segment<T>[]> {
    const result = this.#last.then(() => this.#read(start, end));
    this.#last = result.catch(() => undefined);
    return result;
  }

  async close(): Promise<void> {
    await this.#last;
    await this.#stop();
  }

  async #read(start: number, end: number): Promise<readonly Segment<T>[]> {
    const first = this.#held[0]?.start ?? this.#end;
    if (this.#reading === null || start < first || this.#source.anchor(start) > this.#end) {
      await this.#stop();
      this.#end = this.#source.anchor(start);
      this.#reading = this.#source.segments(this.#end);
    }
    while (this.#end < end) {
      this.#forget(start);
      let next: IteratorResult<Segment<T>>;
      try {
        next = await this.#reading.next();
      } catch (error) {
        // It ended with the error; the next request begins anew and meets the error itself.
        await this.#stop();
        throw error;
      }
      if (next.done === true) break;
      this.#held.push(next.value);
      this.#cost += next.value.cost;
      this.#end = next.value.end;
    }
    return this.#held.filter((segment) => segment.end > start && segment.start < end);
  }

  /** Room for one more: the oldest go, but none that the request needs. */
  #forget(start: number): void {
    let drop = 0;
    while (this.#cost > this.#costMost) {
      const oldest = this.#held[drop];
      if (oldest === undefined || oldest.end > start) break;
      this.#cost -= oldest.cost;
      drop += 1;
    }
    if (drop > 0) this.#held.splice(0, drop);
  }

  async #stop(): Promise<void> {
    const reading = this.#reading;
    this.#reading = null;
    this.#held = [];
    this.#cost = 0;
    this.#end = 0;
    await reading?.return(undefined);
  }
}
