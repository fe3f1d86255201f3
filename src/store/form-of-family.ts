import { assert } from '../core/assert.ts';
import { unlocatedLayout } from './layout.ts';
import { FAMILIES } from './layouts/registry.ts';
import type { Codec, Layout } from './store.ts';

/** A layout that knows what a family's files hold and nothing of how they are named: enough to open them by path. */
export function formOfFamily(name: string, codec: Codec): Layout {
  const family = FAMILIES.find((candidate) => candidate.name === name);
  assert(family !== undefined, `${name} is a family of the registry`);
  return unlocatedLayout(family, { pattern: `{dir}/{index}.${family.extensions[0] ?? ''}`, codec, groupSize: 0, numbering: 'none' });
}
