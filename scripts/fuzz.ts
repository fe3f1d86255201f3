import { closeSync, ftruncateSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type FuzzFailure, inputOf, tryOne } from '../test/fuzz/rounds.ts';
import type { FuzzTarget } from '../test/fuzz/target.ts';
import { loadTargets } from '../test/fuzz/targets.ts';
import { fuzz } from '../test/fuzz/watch.ts';

// Fuzzes every parser for a time: npx tsx scripts/fuzz.ts --minutes 60 --seed 7 [--only NAME]
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string' },
    only: { type: 'string' },
    /** One input of one target again. */
    at: { type: 'string' },
  },
});
const folder = resolve(import.meta.dirname, '../.tmp/fuzz');
const seed = values.seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(values.seed);
const only = values.only ?? null;
const targets = await loadTargets();
if (only !== null && !targets.some((target) => target.name === only)) {
  console.error(`no target ${only}; there are ${targets.map((target) => target.name).join(', ')}`);
  process.exit(2);
}

/** Writes the input where somebody can look at it; a hole stays a hole. */
function keepInput(target: FuzzTarget, number: number): string {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${target.name}-${seed}-${number}.bin`);
  const { bytes, hole } = inputOf(target, seed, number);
  const fd = openSync(path, 'w');
  const at = hole?.at ?? bytes.length;
  writeSync(fd, bytes, 0, at, 0);
  writeSync(fd, bytes, at, bytes.length - at, at + (hole?.length ?? 0));
  ftruncateSync(fd, bytes.length + (hole?.length ?? 0));
  closeSync(fd);
  return path;
}

function tell(failure: FuzzFailure): void {
  const target = targets.find(({ name }) => name === failure.target);
  console.log(`FAILED ${failure.target} (${failure.made}): ${failure.message}`);
  if (target !== undefined) console.log(`  input: ${keepInput(target, failure.number)}`);
  console.log(`  again: npx tsx scripts/fuzz.ts --seed ${seed} --only ${failure.target} --at ${failure.number}`);
}

console.log(`seed ${seed}`);
if (values.at !== undefined) {
  const target = targets.find(({ name }) => name === only);
  if (target === undefined) throw new Error('--at needs --only NAME');
  const failure = await tryOne(target, seed, Number(values.at));
  if (failure === null) console.log('it passes');
  else tell(failure);
  process.exitCode = failure === null ? 0 : 1;
} else {
  const seconds = Number(values.minutes) * 60;
  const summary = await fuzz(targets, { seed, seconds, only, inputSecondsMost: 20, failuresMost: 20, onFailure: tell });
  console.log(
    `${summary.inputs} inputs in ${Math.round(seconds)} s, ${summary.failures} failures${summary.repeats > 0 ? `, repeated ${summary.repeats} times` : ''}`,
  );
  process.exitCode = summary.failures === 0 ? 0 : 1;
}
