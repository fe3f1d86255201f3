import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { killCampaign } from './kill-loop.ts';
import { COMMIT_STEPS } from './steps.ts';

// The documented campaign: `KILLS=50 make crash-campaign`, or with `--seed` to repeat one.
const { values } = parseArgs({ options: { kills: { type: 'string', default: '50' }, seed: { type: 'string' } } });
const seed = values.seed === undefined ? Date.now() & 0x7fffffff : Number(values.seed);
const workspace = mkdtempSync(join(tmpdir(), 'tidemark-campaign-'));
console.log(`${values.kills} kills, seed ${seed}, in ${workspace}`);
const result = await killCampaign({ kills: Number(values.kills), seed, workspace, log: (line) => console.log(line) });
console.log(`${result.kills} kills in ${result.runs} runs, ${result.engineKills} of them with the engine`);
for (const step of [...Object.keys(COMMIT_STEPS), 'elsewhere'] as (keyof typeof COMMIT_STEPS | 'elsewhere')[]) {
  console.log(`  ${step.padEnd(16)} ${result.hits.get(step) ?? 0}`);
}
const never = Object.keys(COMMIT_STEPS).filter((step) => !result.hits.has(step as keyof typeof COMMIT_STEPS));
for (const step of never) console.log(`never hit: ${step}`);
for (const what of result.broken) console.log(`BROKEN: ${what}`);
const good = result.broken.length === 0 && never.length === 0;
console.log(good ? 'every promise held' : `repeat it with: KILLS=${values.kills} SEED=${seed} make crash-campaign`);
if (good) rmSync(workspace, { recursive: true });
process.exitCode = good ? 0 : 1;
