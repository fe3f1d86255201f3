import type { RandomAccess } from '../core/random-access.ts';
import type { IndexRange } from '../core/ranges.ts';
import type { Codec, StatesDtype } from '../core/run-layout.ts';
import type { Verdict } from '../core/verdict.ts';
import type { Damage, Parsed, TensorInfo, TensorSource, TextEntry, WrittenFile } from '../format/tensors.ts';
import type { PlainValue } from '../format/torch-tensors.ts';
import type { FileStat } from '../host/host.ts';
import type { Form } from './form.ts';

/** What is known of a row's tensors beforehand; null where nothing is. */
export interface ExpectedShape {
  readonly tokens: number | null;
  readonly width: number | null;
  readonly auxiliaryLayers: number | null;
}

/** One sample ready to be written: ids, mask, and its states in pieces, row-major. */
export interface SampleStates {
  readonly inputIds: Uint32Array;
  readonly lossMask: Uint8Array;
  readonly width: number;
  readonly auxiliaryLayers: number;
  readonly dtype: StatesDtype;
  /** [tokens, (end - first) * width]: auxiliary layers from 0, and behind them the last state, in the norm that the run's record states. */
  slots(first: number, end: number): AsyncIterable<Uint8Array>;
}

/**
 * What the number in a file's name counts: the dataset's rows; the files of one writer (a rank or a GPU, so that the
 * same number comes several times); or nothing, where the name is no number. For the last two only the ids inside tell the row.
 */
export type Numbering = 'row' | 'local' | 'none';

/** How indices map to paths and samples to tensors. One file in layouts/ each. */
export interface Layout {
  readonly name: string;
  readonly codec: Codec;
  /** For people: `rows_{from}-{to}/data_{index}.ckpt`. */
  readonly pattern: string;
  /** Rows a folder; 0 where folders have no size of their own: one flat folder, or folders by writer. */
  readonly groupSize: number;
  /** Folders that hold other ranges than `groupSize` gives, ascending. */
  readonly ranges: readonly IndexRange[];
  readonly numbering: Numbering;
  /**
   * Whether an index alone says where its file is. Where it does not (folders of free names, numbers that are no rows) `parse`
   * gives `unplaced` and `pathOf` must not be asked: `placeFiles` (place.ts) looks at the tree and gives a layout that is located.
   */
  readonly located: boolean;
  /** Relative to the run folder, with `/`. */
  pathOf(index: number): string;
  /** The folder that holds `index`, relative to the run folder, and its range. */
  folderOf(index: number): { readonly path: string; readonly range: IndexRange };
  /** Of a layout that is not located: whether a folder may hold samples, or folders with them. */
  folderFits?(path: string): boolean;
  /** What a name in that folder is: a row's file, one of our temporaries, or neither. */
  parse(folder: string, name: string): ParsedName;
  /** The tensors of its files. */
  readonly form: Form;
  /** Which tensor holds the token ids (`input_ids`) and which the states. */
  readonly idsTensor: string;
  readonly maskTensor: string | null;
  readonly stateTensors: readonly string[];
  /** Says how the tensors of a file do not fit the row, or null when they fit. Right padding (more rows than tokens) is not damage: ids decide. */
  misfit(tensors: ReadonlyMap<string, TensorInfo>, expected: ExpectedShape): string | null;
  /** The tensors of a new file, in the order in which they are written. */
  tensorsOf(sample: SampleStates): readonly TensorSource[];
  /** What stands beside the tensors in a new file of that row. */
  textsOf(index: number): readonly TextEntry[];
}

export type ParsedName =
  | { readonly kind: 'sample'; readonly index: number; readonly inPlace: boolean }
  /** A sample whose row its name does not tell: `number` counts within `writer`, or is null where the name is no number. */
  | { readonly kind: 'unplaced'; readonly writer: string; readonly number: number | null }
  /** A second file of a row whose own file stands elsewhere. */
  | { readonly kind: 'duplicate'; readonly index: number }
  | { readonly kind: 'temporary'; readonly index: number | null; readonly lease: number | null }
  | { readonly kind: 'foreign' };

/** An opened sample file whose structure holds. */
export interface StoredSample {
  /** The file as it was when it was opened: nothing else needs to look at its name again. */
  readonly stat: FileStat;
  /**
   * The bytes that the tensors' offsets count in: the file's own, or what it inflates to. Reading an inflated one backwards
   * starts it anew, so read tensors in the order of their offsets.
   */
  readonly source: RandomAccess;
  /** Names, dtypes and shapes are final; offsets of a gzip-wrapped file are only known once `checkBytes` has run. */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /** What stands beside the tensors; empty where the container has no place for it. */
  readonly values: ReadonlyMap<string, PlainValue>;
  /** False when the writer switched checksums off: nothing in the file can prove its bytes. */
  readonly provable: boolean;
  /** CRC-32 of each record in file order, as stored; none where the container has none at hand. */
  readonly records: readonly { readonly name: string; readonly bytes: number; readonly crc32: number }[];
  /**
   * The stored ids and mask (null where the layout has none), after their own records have passed their checksums.
   * Ids that are no 32-bit token ids come back as damage.
   */
  readIds(): Promise<Parsed<{ readonly inputIds: Uint32Array; readonly lossMask: Uint8Array | null }>>;
  /** Reads every byte: the file's own checksums, and the CRC-32 of the whole file. */
  checkBytes(): Promise<{ readonly ok: true; readonly crc32: number } | { readonly ok: false; readonly damage: Damage }>;
  close(): Promise<void>;
}

/** An opened file: its parsed form, or its damage. */
export type Opened =
  | { readonly ok: true; readonly sample: StoredSample; readonly stat: FileStat }
  | { readonly ok: false; readonly damage: Damage; readonly stat: FileStat };

/** The half that assessment receives: it cannot write. */
export interface StoreReader {
  readonly folder: string;
  readonly layout: Layout;
  /** Opens row `index`'s file; null when no file is there. Rejects when the machine refuses (`storage-*`). */
  open(index: number): Promise<Opened | null>;
  /** The same for any file of the layout's form, by its path relative to the folder. */
  openAt(path: string): Promise<Opened | null>;
}

export interface SampleToCommit {
  readonly index: number;
  readonly tensors: readonly TensorSource[];
  readonly lease: number;
  readonly attempt: number;
}

export type CommitOutcome =
  | { readonly kind: 'published'; readonly written: WrittenFile }
  /** The name was taken: nothing was replaced and our temporary is gone. The caller proves what is there. */
  | { readonly kind: 'occupied' };

/** The one write path for sample files (docs/on-disk.md, "The commit of one sample"). */
export interface Store extends StoreReader {
  /** Everything up to and including the directory sync; the caller writes the journal record. */
  publish(sample: SampleToCommit): Promise<CommitOutcome>;
  /** Makes the name of a file that is there already durable: whoever published it may have died before syncing its folder. */
  settle(index: number): Promise<void>;
  /** A free name in quarantine for a row's file, relative to the run folder. */
  quarantinePath(index: number, verdict: Verdict): Promise<string>;
  /** Moves a row's file there, with its verdict beside it. The caller has recorded it before. */
  setAside(index: number, to: string, verdict: Verdict): Promise<void>;
}
