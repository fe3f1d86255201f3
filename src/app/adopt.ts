import { resolve } from 'node:path';
import { isAdoptable } from '../core/adoptable.ts';
import { TidemarkError } from '../core/errors.ts';
import { countOf, type IndexRange, indicesOf } from '../core/ranges.ts';
import type { Report } from '../core/report.ts';
import type { Settings } from '../core/settings.ts';
import type { Host } from '../host/host.ts';
import { openLedger } from '../ledger/open.ts';
import { createRun } from '../ledger/write.ts';
import { detectLayout } from '../store/detect.ts';
import { createStoreReader } from '../store/reader.ts';
import type { Layout } from '../store/store.ts';
import { assessAt } from './assessment.ts';
import type { ConfigOverrides } from './config.ts';
import { parseSettings, settingsDocument } from './config-settings.ts';
import { adoptUnrecorded } from './repair.ts';
import { rowIndexStore } from './row-index.ts';
import { openInputs, type RunInputs } from './run-inputs.ts';
import { settingsForExtract } from './start-settings.ts';

/** What sound files say of themselves. */
export interface Inferred {
  readonly extension: 'ckpt' | 'pt';
  readonly groupSize: number;
  readonly width: number;
  readonly auxiliaryLayers: number;
  readonly dtype: string;
  readonly filesLookedAt: number;
}

export interface AdoptOptions {
  readonly config: string | null;
  readonly overrides: ConfigOverrides;
  /** False only says what was inferred and what would be done. */
  readonly confirmed: boolean;
  readonly cwd: string;
  readonly signal: AbortSignal;
  onInferred(inferred: Inferred, sound: number): void;
  onAdopted(): void;
}

export interface AdoptResult {
  readonly inferred: Inferred;
  readonly sound: number;
  /** null without confirmation: nothing was written. */
  readonly report: Report | null;
}

/** Files whose shapes are compared before a folder is called of one kind. */
const FILES_LOOKED_AT = 32;

/**
 * Makes a tree that another tool wrote a run of ours: shapes are inferred from sound files and held against the target, and every
 * sound file is proved, byte by byte, and recorded. Nothing is moved, rewritten or deleted; begun again, it goes on.
 * @throws TidemarkError `decision-needed` when files and target do not fit; `config` naming what only the operator knows
 */
export async function adopt(host: Host, folder: string, options: AdoptOptions): Promise<AdoptResult> {
  const root = resolve(options.cwd, folder);
  const known = await openLedger(host, root, { parseSettings });
  const layout = await detectLayout(host.files, root);
  const shape = writableShape(layout, root);
  const settings = await settingsForExtract(host, options.config, { ...options.overrides, ...shape, output: root }, options.cwd);
  const looked = await assessAt(host, root, {
    dataset: settings.dataset.path,
    model: settings.target.model,
    level: 'identity',
    cwd: options.cwd,
  });
  const sound = looked.verdicts.filter((group) => group.verdict === 'sound').flatMap((group) => group.ranges);
  const inferred = await inferShape(host, root, layout, sound);
  const inputs = await openInputs(host.files, settings, {
    signal: options.signal,
    rowIndex: rowIndexStore(host, { outside: root }),
    onScan: () => undefined,
  });
  try {
    holdAgainstTarget(root, inferred, inputs, settings);
    options.onInferred(inferred, countOf(sound));
    if (!options.confirmed) return { inferred, sound: countOf(sound), report: null };
    if (known === null) {
      const folderId = Buffer.from(host.randomBytes(16)).toString('hex');
      await createRun(host, root, inputs.identity, folderId, inputs.dataset.table, settingsDocument(settings));
    }
    const { report } = await adoptUnrecorded(host, root, { takeOver: false, setAside: false, onAdopted: options.onAdopted });
    return { inferred, sound: countOf(sound), report };
  } finally {
    await inputs.dataset.close();
  }
}

/** Only a tree that we could go on writing can become a run. */
function writableShape(layout: Layout, root: string): { readonly extension: string; readonly groupSize: string } {
  if (isAdoptable(layout)) return { extension: extensionOf(layout), groupSize: `${layout.groupSize}` };
  throw new TidemarkError(
    'decision-needed',
    `${root} has the layout ${layout.name} (${layout.pattern}), which tidemark reads and does not write yet`,
    {
      where: root,
      hint: `it can be proved: tidemark verify ${root} --level checksum`,
    },
  );
}

function extensionOf(layout: Layout): 'ckpt' | 'pt' {
  return layout.pattern.endsWith('.pt') ? 'pt' : 'ckpt';
}

async function inferShape(host: Host, root: string, layout: Layout, sound: readonly IndexRange[]): Promise<Inferred> {
  const store = createStoreReader(host.files, root, layout);
  const step = Math.max(1, Math.floor(countOf(sound) / FILES_LOOKED_AT));
  const shapes = new Map<string, number>();
  let place = 0;
  for (const row of indicesOf(sound)) {
    place += 1;
    if ((place - 1) % step !== 0) continue;
    const opened = await store.open(row);
    if (opened === null || !opened.ok) continue;
    const last = opened.sample.tensors.get('hidden_state');
    const auxiliary = opened.sample.tensors.get('aux_hidden_state');
    await opened.sample.close();
    const width = last?.shape.at(-1) ?? 0;
    const shape = JSON.stringify([width, (auxiliary?.shape.at(-1) ?? 0) / Math.max(1, width), last?.dtype ?? '?']);
    shapes.set(shape, (shapes.get(shape) ?? 0) + 1);
  }
  const [only, second] = [...shapes.keys()];
  if (only === undefined)
    throw new TidemarkError('decision-needed', `${root} holds no sound file of the dataset's rows, so there is nothing to adopt`, {
      where: root,
      hint: `tidemark assess ${root} --dataset FILE`,
    });
  if (second !== undefined)
    throw new TidemarkError(
      'decision-needed',
      `the files of ${root} are of several kinds (width, auxiliary layers, dtype): ${[...shapes.keys()].join(' and ')}`,
      { where: root, hint: 'adopt only a folder of one kind' },
    );
  const [width, auxiliaryLayers, dtype] = JSON.parse(only) as [number, number, string];
  const extension = layout.pattern.endsWith('.pt') ? 'pt' : 'ckpt';
  return {
    extension,
    groupSize: layout.groupSize,
    width,
    auxiliaryLayers,
    dtype,
    filesLookedAt: [...shapes.values()].reduce((a, b) => a + b, 0),
  };
}

function holdAgainstTarget(root: string, inferred: Inferred, inputs: RunInputs, settings: Settings): void {
  const wrong: string[] = [];
  if (inferred.width !== inputs.model.hiddenSize)
    wrong.push(`the files are ${inferred.width} wide, the target is ${inputs.model.hiddenSize}`);
  if (inferred.auxiliaryLayers !== settings.states.auxiliaryLayers.length)
    wrong.push(`the files hold ${inferred.auxiliaryLayers} auxiliary layers, ${settings.states.auxiliaryLayers.length} were named`);
  if (inferred.dtype !== settings.states.dtype) wrong.push(`the files are ${inferred.dtype}, a run stores ${settings.states.dtype}`);
  if (wrong.length === 0) return;
  throw new TidemarkError('decision-needed', `${root} does not fit what was named, and nothing was written: ${wrong.join('; ')}`, {
    where: root,
    hint: 'name the target with --model and the boundary numbers of its auxiliary layers with --layers',
  });
}
