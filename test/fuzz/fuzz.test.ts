import { expect, it } from 'vitest';
import { program } from '../support/processes.ts';

// CI's share: every parser for some seconds, from another seed each time. At length: npx tsx scripts/fuzz.ts --minutes 60
const SECONDS = 18;

it('keeps its promises whatever the bytes', async () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  console.log(`fuzz seed ${seed}: npx tsx scripts/fuzz.ts --seed ${seed}`);
  const said = await program('npx', ['tsx', 'scripts/fuzz.ts', '--minutes', `${SECONDS / 60}`, '--seed', `${seed}`]);
  const inputs = Number(/^(\d+) inputs/m.exec(said)?.[1]);
  expect(inputs).toBeGreaterThan(100);
  expect(said).toContain(' 0 failures');
});
