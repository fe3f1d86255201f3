import { TidemarkError } from '../core/errors.ts';
import type { Verdict } from '../core/verdict.ts';
import type { WrittenFile } from '../format/tensors.ts';
import type { Host, WritableFile } from '../host/host.ts';
import { CODEC_WRITERS } from './codecs.ts';
import { createStoreReader } from './reader.ts';
import type { CommitOutcome, Layout, SampleToCommit, Store, StoreReader } from './store.ts';
import { temporaryName } from './temporary.ts';

export interface StoreOptions {
  /** Permission bits of sample files; a trainer under another user must be able to read them. */
  readonly fileMode: number;
}

/** Beyond it somebody must look at the engine, not at the file. */
const MOST_QUARANTINED = 10_000;

/** The only code that gives a sample file its name: docs/on-disk.md, "The commit of one sample". */
export function createStore(host: Host, folder: string, layout: Layout, options: StoreOptions): Store {
  return new LocalStore(host, createStoreReader(host.files, folder, layout), options);
}

class LocalStore implements Store {
  readonly folder: string;
  readonly layout: Layout;
  readonly #host: Host;
  readonly #reader: StoreReader;
  readonly #options: StoreOptions;
  readonly #knownFolders = new Set<string>();
  #serial = 0;

  constructor(host: Host, reader: StoreReader, options: StoreOptions) {
    this.#host = host;
    this.#reader = reader;
    this.#options = options;
    this.folder = reader.folder;
    this.layout = reader.layout;
  }

  open(index: number): ReturnType<StoreReader['open']> {
    return this.#reader.open(index);
  }

  openAt(path: string): ReturnType<StoreReader['openAt']> {
    return this.#reader.openAt(path);
  }

  async publish(sample: SampleToCommit): Promise<CommitOutcome> {
    const { files } = this.#host;
    const final = `${this.folder}/${this.layout.pathOf(sample.index)}`;
    const directory = parentOf(final);
    await this.#ensureFolder(directory);
    this.#serial += 1;
    const temporary = temporaryName(final, sample.lease, this.#serial);
    const written = await this.#writeTemporary(temporary, final, sample);
    const linked = await files.link(temporary, final);
    if (linked === 'unsupported') {
      // Without hard links the name is looked at first. The shard's lease keeps other writers of ours away meanwhile.
      if ((await files.stat(final)) !== null) return this.#occupied(temporary);
      await files.rename(temporary, final);
    } else {
      if (!linked) return this.#occupied(temporary);
      await files.unlink(temporary);
    }
    await files.syncDirectory(directory);
    return { kind: 'published', written };
  }

  /** Create, write, mode, fsync: when this returns, every byte is on the disk and has passed its checks. On failure nothing is left. */
  async #writeTemporary(temporary: string, final: string, sample: SampleToCommit): Promise<WrittenFile> {
    const file = await this.#host.files.create(temporary, this.#options.fileMode);
    try {
      const written = await this.#encode(file, final, sample);
      await file.setMode(this.#options.fileMode);
      await file.sync();
      await file.close();
      return written;
    } catch (error) {
      await closeQuietly(file);
      await this.#host.files.unlink(temporary).catch(() => undefined);
      throw error;
    }
  }

  async #encode(file: WritableFile, final: string, sample: SampleToCommit): Promise<WrittenFile> {
    const name = final.slice(final.lastIndexOf('/') + 1);
    const pieces = CODEC_WRITERS[this.layout.codec].write(sample.tensors, { name, texts: this.layout.textsOf(sample.index) });
    for (;;) {
      const next = await pieces.next();
      if (next.done === true) return next.value;
      await file.write(next.value);
    }
  }

  async #occupied(temporary: string): Promise<CommitOutcome> {
    await this.#host.files.unlink(temporary);
    return { kind: 'occupied' };
  }

  /** A shard folder is synced into its parent before the first file in it counts, also when a start that was killed had made it. */
  async #ensureFolder(directory: string): Promise<void> {
    if (this.#knownFolders.has(directory)) return;
    await this.#host.files.makeDirectory(directory);
    await this.#host.files.syncDirectory(parentOf(directory));
    this.#knownFolders.add(directory);
  }

  async settle(index: number): Promise<void> {
    const directory = parentOf(`${this.folder}/${this.layout.pathOf(index)}`);
    await this.#ensureFolder(directory);
    await this.#host.files.syncDirectory(directory);
  }

  async quarantinePath(index: number, verdict: Verdict): Promise<string> {
    const relative = this.layout.pathOf(index);
    for (let serial = 1; serial <= MOST_QUARANTINED; serial += 1) {
      const to = `.tidemark/quarantine/${relative}.${serial}.${verdict.kind}`;
      if ((await this.#host.files.stat(`${this.folder}/${to}`)) === null) return to;
    }
    throw new TidemarkError('storage-failed', `${relative} has been set aside ${MOST_QUARANTINED} times`, {
      where: `${this.folder}/${relative}`,
      hint: `tidemark purge ${this.folder} --quarantine`,
    });
  }

  async setAside(index: number, to: string, verdict: Verdict): Promise<void> {
    const { files } = this.#host;
    const relative = this.layout.pathOf(index);
    const from = `${this.folder}/${relative}`;
    const target = `${this.folder}/${to}`;
    await files.makeDirectory(parentOf(target));
    await this.#writeReason(`${target}.json`, relative, verdict);
    await files.rename(from, target);
    await files.syncDirectory(parentOf(target));
    await files.syncDirectory(parentOf(from));
  }

  async #writeReason(path: string, relative: string, verdict: Verdict): Promise<void> {
    // A crash between this note and the move leaves a note without a file: the next try finds the note's name taken, which is no loss.
    if ((await this.#host.files.stat(path)) !== null) return;
    const file = await this.#host.files.create(path, 0o644);
    try {
      const note = { format: 'tidemark.set-aside/1', path: relative, ...verdict, at: new Date(this.#host.clock.now()).toISOString() };
      await file.write(Buffer.from(`${JSON.stringify(note, null, 2)}\n`));
      await file.sync();
    } finally {
      await file.close();
    }
  }
}

async function closeQuietly(file: WritableFile): Promise<void> {
  // The first failure is the one to report; closing after it can only repeat it.
  await file.close().catch(() => undefined);
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'));
}
