import type { Codec } from '../core/run-layout.ts';
import type { Form } from './form.ts';
import { unlocatedLayout } from './layout.ts';
import type { Layout } from './store.ts';

/** A layout that knows what its files hold and nothing of how they are named: enough to open them by path. */
export function layoutOfForm(kind: { readonly name: string; readonly form: Form }, codec: Codec): Layout {
  return unlocatedLayout(kind, { pattern: '{dir}/{index}.pt', codec, groupSize: 0, numbering: 'none' });
}
