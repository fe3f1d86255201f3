import { parseArgs } from 'node:util';
import { benchAssess } from './assess.ts';
import { benchCommit } from './commit.ts';
import type { BenchOptions } from './ground.ts';
import type { Figure } from './measure.ts';

const BENCHES: Readonly<Record<string, (options: BenchOptions) => AsyncIterable<Figure> | Promise<readonly Figure[]>>> = {
  assess: benchAssess,
  commit: benchCommit,
};

// npm run bench -- NAME [--json] [--only FIGURE] [--scale full]
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    only: { type: 'string' },
    scale: { type: 'string', default: 'small' },
  },
});
const scale = values.scale === 'full' ? 'full' : 'small';
const names = positionals.length > 0 ? positionals : Object.keys(BENCHES);
for (const name of names) {
  const bench = BENCHES[name];
  if (bench === undefined) {
    console.error(`there is no bench ${name}; there are ${Object.keys(BENCHES).join(', ')}`);
    process.exitCode = 2;
    continue;
  }
  for await (const figure of await bench({ only: values.only ?? null, scale })) {
    console.log(values.json ? JSON.stringify(figure) : row(figure));
  }
}

/** A line of the table: what was measured, against what, what was asked for. */
function row({ figure, cache, value, unit, ratio, against, runs, wanted, met }: Figure): string {
  const what = `${figure}${cache === undefined ? '' : ` ${cache}`}`.padEnd(42);
  const compared = ratio === null ? against : `${ratio} x ${against}`;
  const reached = wanted === undefined ? '' : `${met === true ? 'met' : 'NOT met'}: ${wanted}`;
  return `${what} ${`${value} ${unit}`.padStart(14)}  ${compared.padEnd(44)} ${reached}${runs > 1 ? ` (${runs} runs)` : ''}`.trimEnd();
}
