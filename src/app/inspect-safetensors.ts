import type { RandomAccess } from '../core/random-access.ts';
import { levelAtLeast } from '../core/verdict.ts';
import { readSafetensors } from '../format/safetensors.ts';
import { type Findings, hex32, type InspectLevel, NOTHING_FOUND } from './inspect-document.ts';
import { inspectIds, inspectTensors, sumSpans } from './inspect-parts.ts';
import { judgeValues } from './inspect-values.ts';

/** A safetensors file. It has no checksum, so that its bytes are never proved, at no level. */
export async function inspectSafetensors(source: RandomAccess, level: InspectLevel): Promise<Findings> {
  const read = await readSafetensors(source);
  if (!read.ok) return { ...NOTHING_FOUND, verdict: read.damage };
  const { tensors, metadata } = read.value;
  const notProved = [
    'the bytes of any tensor: the format has no checksum; a whole file of the right length may hold other bytes, or zeros',
  ];
  const ids = levelAtLeast(level, 'identity') ? await inspectIds(source, tensors) : null;
  if (typeof ids === 'string') notProved.push(`which row it holds: ${ids}`);
  const inspected = await inspectTensors(source, tensors, level === 'content');
  const bad = level === 'content' ? judgeValues(inspected) : null;
  const proved = [`structure: ${tensors.size} tensors fill the file from its header to its last byte`];
  if (level === 'content' && bad === null) proved.push('values: no NaN, infinity, zero row or zero page in a tensor of states');
  return {
    ...NOTHING_FOUND,
    writer: { guess: 'safetensors (the format names no version)', source: 'the header' },
    verdict: bad ?? { kind: 'sound', reason: 'unprovable', detail: null },
    proved,
    notProved,
    tensors: inspected,
    metadata: [...metadata].map(([name, value]) => ({ name, value })),
    identity: typeof ids === 'string' ? null : ids,
    crc32: levelAtLeast(level, 'checksum') ? hex32((await sumSpans(source, [])).whole) : null,
  };
}
