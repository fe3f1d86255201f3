import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { killCampaign } from './kill-loop.ts';
import { COMMIT_STEPS } from './steps.ts';

/** A share of the campaign (`make crash-campaign` runs 50): enough to hit every step of a commit. */
const KILLS = 24;

it('keeps every promise through real SIGKILLs', async () => {
  const seed = Number(process.env.TIDEMARK_TEST_SEED ?? Date.now() & 0x7fffffff);
  const workspace = mkdtempSync(join(tmpdir(), 'tidemark-kills-'));
  console.log(`${KILLS} kills; repeat with TIDEMARK_TEST_SEED=${seed}`);
  const result = await killCampaign({ kills: KILLS, seed, workspace, log: (line) => console.log(line) });
  console.log([...result.hits].map(([step, count]) => `${step} ${count}`).join(', '));
  expect(result.broken).toEqual([]);
  expect(result.kills).toBe(KILLS);
  expect(Object.keys(COMMIT_STEPS).filter((step) => !result.hits.has(step as keyof typeof COMMIT_STEPS))).toEqual([]);
  rmSync(workspace, { recursive: true });
});
