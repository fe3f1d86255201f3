import { parseArgs } from 'node:util';
import { benchAssess } from './assess.ts';
import { benchCommit } from './commit.ts';
import type { Figure } from './measure.ts';

const BENCHES: Readonly<Record<string, () => Promise<readonly Figure[]>>> = { assess: benchAssess, commit: benchCommit };

// npm run bench -- NAME [--json]
const { values, positionals } = parseArgs({ allowPositionals: true, options: { json: { type: 'boolean', default: false } } });
const names = positionals.length > 0 ? positionals : Object.keys(BENCHES);
for (const name of names) {
  const bench = BENCHES[name];
  if (bench === undefined) {
    console.error(`there is no bench ${name}; there are ${Object.keys(BENCHES).join(', ')}`);
    process.exitCode = 2;
    continue;
  }
  for (const figure of await bench()) {
    if (values.json) console.log(JSON.stringify(figure));
    else
      console.log(`${figure.figure.padEnd(34)} ${figure.value} ${figure.unit}, ${figure.ratio} x ${figure.against} (${figure.runs} runs)`);
  }
}
