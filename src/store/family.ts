import type { LastStateNorm } from '../core/layers.ts';
import type { Form } from './form.ts';
import type { Numbering } from './store.ts';

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
  /** In which norm the tool leaves the last state; null where its versions differ. Only where nothing else tells it. */
  readonly lastState: LastStateNorm | null;
}
