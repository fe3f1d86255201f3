import { parentPort, workerData } from 'node:worker_threads';
import { tryOne } from './rounds.ts';
import { loadTargets } from './targets.ts';
import { type FuzzJob, STATE } from './watch.ts';

// One input after the other. What it is at stands in shared memory, because a parser that hangs can send no message.
const { seed, first, only, shared } = workerData as FuzzJob;
const state = new Int32Array(shared);
const targets = await loadTargets();
for (let number = first; Atomics.load(state, STATE.stop) === 0; number += 1) {
  for (const [place, target] of targets.entries()) {
    if (only !== null && target.name !== only) continue;
    Atomics.store(state, STATE.target, place);
    Atomics.store(state, STATE.number, number);
    Atomics.add(state, STATE.tick, 1);
    const failure = await tryOne(target, seed, number);
    if (failure !== null) parentPort?.postMessage(failure);
  }
  // Messages leave between two rounds.
  if (number % 64 === 0) await new Promise((resolve) => setImmediate(resolve));
}
