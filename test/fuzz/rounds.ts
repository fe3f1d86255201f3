import { messageOf } from '../../src/core/errors.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { type FuzzInput, type FuzzTarget, keep } from './target.ts';

/** Growth of memory that one input may leave behind before garbage is collected: far above any stated bound of a parser. */
const GROWTH_BYTES_MAX = 320 * 1024 * 1024;

export interface FuzzFailure {
  readonly target: string;
  readonly number: number;
  readonly made: string;
  readonly message: string;
}

/** Input `number` of a target under a seed: always the same. */
export function inputOf(target: FuzzTarget, seed: number, number: number): FuzzInput {
  let mixed = seed >>> 0;
  for (const character of `${target.name} ${number}`) mixed = (Math.imul(mixed ^ character.charCodeAt(0), 0x01000193) + 0x9e3779b9) >>> 0;
  return target.make(seededRandom(mixed));
}

/** Makes one input and checks it. Null when every promise was kept. */
export async function tryOne(target: FuzzTarget, seed: number, number: number): Promise<FuzzFailure | null> {
  const made = inputOf(target, seed, number);
  try {
    const before = memoryBytes();
    await target.check(made);
    const growth = memoryBytes() - before;
    keep(growth <= (target.growthBytesMost ?? GROWTH_BYTES_MAX), `memory grew by ${growth} bytes`);
    return null;
  } catch (error) {
    const trace = error instanceof Error ? (error.stack ?? error.message) : messageOf(error);
    return { target: target.name, number, made: made.made, message: trace };
  }
}

function memoryBytes(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
