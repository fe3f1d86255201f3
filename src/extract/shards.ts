import { assert } from '../core/assert.ts';
import type { JournalWriter, RunWriter } from '../ledger/ledger.ts';

/**
 * The journals of the shards that are being worked on. A shard's lease is taken when its first row is
 * begun and its journal closed when its last row is settled, so a run of any length holds few files open.
 */
export class OpenShards {
  readonly #writer: Pick<RunWriter, 'shard'>;
  readonly #shardRows: number;
  readonly #open = new Map<number, { readonly journal: Promise<JournalWriter>; users: number }>();

  constructor(writer: Pick<RunWriter, 'shard'>, shardRows: number) {
    this.#writer = writer;
    this.#shardRows = shardRows;
  }

  /** Announces rows to come, so that their shard stays open between them. Call `settle` once for each. */
  async enter(row: number): Promise<JournalWriter> {
    const shard = Math.floor(row / this.#shardRows);
    let entry = this.#open.get(shard);
    if (entry === undefined) {
      entry = { journal: this.#writer.shard(shard), users: 0 };
      this.#open.set(shard, entry);
    }
    entry.users += 1;
    return entry.journal;
  }

  /** @param more whether further rows of the same shard will be entered */
  async settle(row: number, more: boolean): Promise<void> {
    const shard = Math.floor(row / this.#shardRows);
    const entry = this.#open.get(shard);
    assert(entry !== undefined && entry.users > 0, `shard ${shard} was entered`);
    entry.users -= 1;
    if (entry.users > 0 || more) return;
    this.#open.delete(shard);
    await (await entry.journal).close();
  }

  /** Closes what is open; after a storage failure a journal may refuse, which changes nothing that is on the disk. */
  async closeAll(): Promise<void> {
    const entries = [...this.#open.values()];
    this.#open.clear();
    for (const entry of entries) {
      try {
        await (await entry.journal).close();
      } catch {
        // The failure that broke the journal has stopped the run already and is its outcome.
      }
    }
  }
}
