import type { FileProbe } from '../assess/gather-probe.ts';
import type { Codec } from '../core/run-layout.ts';
import type { Level } from '../core/verdict.ts';
import type { FileCall } from '../host/file-calls.ts';
import type { Form } from '../store/form.ts';

/** Files of one layout to be read to one level; the answers come in the order of the paths. */
export interface ProbeQuestion {
  readonly call: 'probe';
  readonly folder: string;
  /** What the layout's files hold, not how they are named. */
  readonly layout: string;
  readonly form: Form;
  readonly codec: Codec;
  readonly level: Level;
  /** Relative to the folder. */
  readonly paths: readonly string[];
  /** Say each answer before the next file is opened, so that the one that hangs is known. Default: some at a time. */
  readonly each: boolean;
}

/** What a reader process may be asked. */
export type ReaderQuestion = ProbeQuestion | FileCall;

/** A word about files that were read, or that it is still reading one. */
export type ProbeWord =
  | {
      /** Probes in the order of the paths, 96 bytes each (probe-bytes.ts); of those in `others` the bytes mean nothing. */
      readonly count: number;
      readonly plain: Uint8Array;
      readonly words: readonly string[];
      readonly others: ReadonlyMap<number, FileProbe>;
    }
  /** At the end: the processor time that the question took. */
  | { readonly processorMs: number }
  | 'reading';
