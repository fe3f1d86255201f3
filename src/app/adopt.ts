import { resolve } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { countOf } from '../core/ranges.ts';
import type { Report } from '../core/report.ts';
import { STATES_DTYPES } from '../core/run-layout.ts';
import type { Settings } from '../core/settings.ts';
import { shellLine } from '../core/shell-line.ts';
import { readTargetModel } from '../engine/model-files.ts';
import type { Host } from '../host/host.ts';
import type { LedgerReader } from '../ledger/ledger.ts';
import { openLedger } from '../ledger/open.ts';
import { createRun, matchRun } from '../ledger/write.ts';
import { detectLayout } from '../store/detect.ts';
import { parseLayoutOption } from '../store/layout-option.ts';
import { assessAt } from './assessment.ts';
import type { CacheOptions } from './cache-store.ts';
import { type ConfigOverrides, loadConfig, resolveLayers } from './config.ts';
import { parseSettings, settingsDocument } from './config-settings.ts';
import { adoptUnrecorded } from './repair.ts';
import { rowIndexStore } from './row-index.ts';
import { identityOf, openInputs, type RunInputs } from './run-inputs.ts';
import { type TreeForm, treeFormOf } from './tree-form.ts';
import { layoutForTree, type PlacedTree, placeTree } from './tree-layout.ts';
import { type LastStateSeen, lastStateOfTree } from './tree-norm.ts';

/** What was found out of a tree, for a person to confirm. */
export interface Inferred {
  readonly layout: Settings['layout'];
  readonly pattern: string;
  readonly codec: string;
  readonly form: TreeForm;
  readonly lastState: LastStateSeen;
  /** How new files will be named. */
  readonly names: string;
  readonly layers: { readonly auxiliary: readonly number[]; readonly named: boolean };
}

export interface AdoptOptions {
  readonly config: string | null;
  readonly overrides: ConfigOverrides;
  /** `--layout`; null tells it by looking. */
  readonly layout: string | null;
  /** `--last-state`, for where the numbers do not tell. */
  readonly lastState: 'pre-norm' | 'post-norm' | null;
  /** False only says what was inferred and what would be done. */
  readonly confirmed: boolean;
  readonly cache: CacheOptions['cache'];
  readonly cwd: string;
  readonly signal: AbortSignal;
  onInferred(inferred: Inferred, sound: number): void;
  onAdopted(): void;
}

export interface AdoptResult {
  /** null where the folder was a run already. */
  readonly inferred: Inferred | null;
  /** null without confirmation: nothing was written. */
  readonly report: Report | null;
}

/**
 * Makes a tree that another tool wrote a run of ours: its form is inferred from sound files and held against the target, and every
 * sound file is proved, byte by byte, and recorded. Nothing is moved, rewritten or deleted; begun again, it goes on.
 * @throws TidemarkError `decision-needed` when files and target do not fit, or what only the operator knows was not named; `config`
 */
export async function adopt(host: Host, folder: string, options: AdoptOptions): Promise<AdoptResult> {
  const root = resolve(options.cwd, folder);
  const known = await openLedger(host, root, { parseSettings });
  if (known !== null) return goOn(host, root, known, options);
  const settings = await namedSettings(host, root, options);
  const rowIndex = rowIndexStore(host, { outside: root, cache: options.cache });
  const inputs = await openInputs(host.files, settings, { signal: options.signal, rowIndex, onScan: () => undefined });
  try {
    const tree = await look(host, root, settings, inputs, options);
    const form = await treeFormOf(host.files, root, tree.layout, tree.sound, inputs.model.hiddenSize);
    holdAgainstTarget(root, form, inputs, settings);
    const lastState = await lastStateOfTree(host, root, tree.layout, form, {
      ...options,
      model: settings.target.model,
      given: options.lastState,
    });
    const made = await layoutForTree(root, tree, form, inputs.dataset);
    const { pattern, codec } = tree.detected;
    const layers = { auxiliary: settings.states.auxiliaryLayers, named: settings.layersNamed };
    const inferred: Inferred = { layout: made.layout, pattern, codec, form, lastState, names: made.names, layers };
    options.onInferred(inferred, countOf(tree.sound));
    if (!options.confirmed) return { inferred, report: null };
    refuseUnnamedLayers(root, inferred);
    const { layersNamed: _, ...plain } = settings;
    const states = { ...plain.states, dtype: form.dtype, lastState: lastState.stored };
    const resolved: Settings = { ...plain, states, layout: made.layout };
    const folderId = Buffer.from(host.randomBytes(16)).toString('hex');
    await createRun(host, root, identityOf(resolved, inputs), folderId, inputs.dataset.table, settingsDocument(resolved), made.paths);
    const { report } = await adoptUnrecorded(host, root, { takeOver: false, setAside: false, onAdopted: options.onAdopted });
    return { inferred, report };
  } finally {
    await inputs.dataset.close();
  }
}

type NamedSettings = Settings & { readonly layersNamed: boolean };

/** What the operator named; layout, dtype and norm are the tree's own and come later. */
async function namedSettings(host: Host, root: string, options: AdoptOptions): Promise<NamedSettings> {
  const unresolved = await loadConfig(host.files, options.config, { ...options.overrides, output: root }, options.cwd);
  const model = await readTargetModel(host.files, unresolved.target.model);
  const layersNamed = unresolved.states.auxiliaryLayers !== null || options.overrides.layers !== undefined;
  return { ...resolveLayers(unresolved, model.layerCount), layersNamed };
}

/** The tree assessed against the dataset, each file at its row. */
async function look(host: Host, root: string, settings: Settings, inputs: RunInputs, options: AdoptOptions): Promise<PlacedTree> {
  const choice = options.layout === null ? null : parseLayoutOption(options.layout);
  const detected = await detectLayout(host.files, root, choice);
  const report = await assessAt(host, root, {
    dataset: settings.dataset.path,
    model: settings.target.model,
    layout: options.layout,
    level: 'identity',
    cwd: options.cwd,
    signal: options.signal,
    cache: options.cache,
  });
  return placeTree(host.files, root, detected, report, inputs.dataset.table, options.signal);
}

/** A folder that is a run already: what no journal has is proved and recorded; settings that were lost are written anew. */
async function goOn(host: Host, root: string, known: LedgerReader, options: AdoptOptions): Promise<AdoptResult> {
  if (!options.confirmed) return { inferred: null, report: null };
  const settings = known.settings === null ? await settingsAnew(host, root, known, options) : null;
  const { report } = await adoptUnrecorded(host, root, { takeOver: false, setAside: false, settings, onAdopted: options.onAdopted });
  return { inferred: null, report };
}

async function settingsAnew(host: Host, root: string, known: LedgerReader, options: AdoptOptions): Promise<Settings> {
  const { layersNamed: _, ...named } = await namedSettings(host, root, options);
  const { layout, dtype, lastState } = known.run.identity;
  const states = STATES_DTYPES.find((known) => known === dtype);
  if (states === undefined)
    throw new TidemarkError('format-refused', `the run stores ${dtype}, which this version does not know`, { where: root });
  const settings: Settings = { ...named, layout, states: { ...named.states, dtype: states, lastState: lastState.stored } };
  const inputs = await openInputs(host.files, settings, { signal: options.signal, onScan: () => undefined });
  try {
    matchRun(root, known.run, identityOf(settings, inputs), inputs.dataset.table, known.table);
    return settings;
  } finally {
    await inputs.dataset.close();
  }
}

function holdAgainstTarget(root: string, form: TreeForm, inputs: RunInputs, settings: NamedSettings): void {
  const wrong: string[] = [];
  const { auxiliaryLayers } = settings.states;
  if (form.width !== inputs.model.hiddenSize) wrong.push(`the files are ${form.width} wide, the target is ${inputs.model.hiddenSize}`);
  if (form.auxiliaryLayers !== null && form.auxiliaryLayers !== auxiliaryLayers.length) {
    const named = settings.layersNamed ? `${auxiliaryLayers.length} were named` : 'which ones was not named';
    wrong.push(`the files hold ${form.auxiliaryLayers} auxiliary layers, ${named}`);
  }
  if (wrong.length === 0) return;
  throw new TidemarkError('decision-needed', `${root} does not fit what was named, and nothing was written: ${wrong.join('; ')}`, {
    where: root,
    hint: 'name the target with --model and the boundary numbers of its auxiliary layers with --layers',
  });
}

/** Which layers the numbers are of is written nowhere in a file: a guess would fill the tree with other tensors. */
function refuseUnnamedLayers(root: string, { layers }: Inferred): void {
  if (layers.named) return;
  throw new TidemarkError(
    'decision-needed',
    'which layers the files hold cannot be inferred, and was not named: --layers; nothing was written',
    {
      where: root,
      hint: `EAGLE-3's usual ones for this target, as boundary numbers: ${shellLine(['--layers', layers.auxiliary.join(',')])}`,
    },
  );
}
