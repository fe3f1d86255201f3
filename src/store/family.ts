import type { TensorSource } from '../format/tensors.ts';
import type { Form } from './form.ts';
import type { Numbering, SampleStates } from './store.ts';

/** What one tool leaves: names, containers and tensors. One file in layouts/ each; registry.ts lists them. */
export interface Family {
  readonly name: string;
  /** Paths without their extension; the first is what the tool itself writes, the others where its folder was given from further down. */
  readonly patterns: readonly string[];
  readonly extensions: readonly string[];
  readonly numbering: Numbering;
  /** Rows a folder where the tree itself does not tell. */
  readonly groupSize: number;
  readonly form: Form;
  /** Absent where tidemark does not write this layout. */
  readonly tensorsOf?: (sample: SampleStates) => readonly TensorSource[];
}
