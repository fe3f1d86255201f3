import { join } from 'node:path';
import { assess, type Ground, type Planned } from './ground.ts';
import { type Figure, plain } from './measure.ts';
import { recordRun } from './own-run.ts';
import { manySamples } from './trees.ts';

const ROWS = { small: 100_000, full: 1_000_000 };
const PEAK_BYTES_MOST = 1.5e9;
/** A tenth of the rows should take a tenth of the time; a start costs both the same, which is in the large tree's favour. */
const LINEAR_MOST = 12;

/** Many samples: time that grows with their number and no faster, bounded memory, and a second look that knows what the first saw. */
export async function sampleFigures({ place, scale, wants }: Ground): Promise<readonly Planned[]> {
  const rows = ROWS[scale];
  const name = `assess.identity.${rows / 1000}k-samples`;
  if (!wants(name)) return [];
  return [{ figure: name, cache: 'warm', measure: () => measureAll(place, name, rows) }];
}

async function measureAll(place: string, name: string, rows: number): Promise<readonly Figure[]> {
  const tenth = await manySamples(place, rows / 10);
  const few = await assess(tenth, { level: 'identity', cache: join(place, 'cache-few') });
  const tree = await manySamples(place, rows);
  const many = await assess(tree, { level: 'identity', cache: join(place, 'cache-many') });
  const again = await assess(tree, { level: 'identity', cache: join(place, 'cache-many'), again: true });
  await recordRun(tree);
  const own = await assess(tree, { level: 'identity', cache: join(place, 'cache-own'), dataset: null });
  const ownAgain = await assess(tree, { level: 'identity', cache: join(place, 'cache-own'), dataset: null, again: true });
  const linear = {
    text: `at most ${LINEAR_MOST} x of a tenth of the samples`,
    holds: (value: number) => value <= LINEAR_MOST * few.seconds,
  };
  const fifth = (whole: number) => ({ text: 'a fifth of the first', holds: (value: number) => value <= whole / 5 });
  const ratio = (figure: Figure, of: number): Figure => ({ ...figure, ratio: Number((figure.value / of).toFixed(3)) });
  return [
    ratio(plain(name, many.seconds, 's', { against: `${rows / 10} samples, ${few.seconds.toFixed(2)} s`, wanted: linear }), few.seconds),
    plain(`${name}.peak`, Math.max(many.peakBytes, own.peakBytes) / 1e9, 'GB', {
      against: 'resident, all processes together',
      wanted: { text: 'under 1.5 GB', holds: (value) => value * 1e9 < PEAK_BYTES_MOST },
    }),
    ratio(
      plain(`${name}.again`, again.seconds, 's', { against: 'a foreign tree for the first time', wanted: fifth(many.seconds) }),
      many.seconds,
    ),
    ratio(
      plain(`${name}.own.again`, ownAgain.seconds, 's', {
        against: 'a finished run of ours for the first time',
        wanted: fifth(own.seconds),
      }),
      own.seconds,
    ),
  ];
}
