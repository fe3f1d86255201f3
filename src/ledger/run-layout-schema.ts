import { z } from 'zod';
import { AXES, CODECS, INTEGER_DTYPES, STATES_DTYPES, TENSOR_ROLES } from '../core/run-layout.ts';

const TENSORS_MOST = 64;
/** A tree with more folders of odd sizes has its names in a table. */
export const RANGES_MOST = 5000;
const text = z.string().min(1).max(255);
const index = z.int().nonnegative();

const dtypes = z.enum([...INTEGER_DTYPES, ...STATES_DTYPES.filter((dtype) => dtype !== 'F32')]);

const treeSchema = z.strictObject({
  pattern: text,
  codec: z.enum(CODECS),
  ranges: z.array(z.tuple([index, index])).max(RANGES_MOST),
  tensors: z
    .array(z.strictObject({ name: text, role: z.enum(TENSOR_ROLES), axes: z.array(z.enum(AXES)).min(1).max(4), dtype: dtypes }))
    .min(1)
    .max(TENSORS_MOST),
  names: z.array(text).max(TENSORS_MOST),
  paths: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .nullable(),
});

/** How a run names and makes its files, as `run.json` and `settings.json` have it. Strict: an unknown field may change every name. */
export const runLayoutSchema = z
  .strictObject({ name: text, extension: text, groupSize: index, tree: treeSchema.exactOptional() })
  .refine(
    ({ name, extension, groupSize, tree }) =>
      tree !== undefined || (name === 'specforge' && (extension === 'ckpt' || extension === 'pt') && groupSize > 0),
    { error: 'expected a layout that tidemark begins runs in, or the tree that was adopted' },
  );
