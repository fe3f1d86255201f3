import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import { LAYER_CONVENTION } from '../core/layers.ts';
import { shardRowsOf } from '../core/run-layout.ts';
import type { RunIdentity, Settings } from '../core/settings.ts';
import type { ConversationEncoder, Dataset } from '../dataset/dataset.ts';
import { openDataset, type ScanProgress } from '../dataset/open-dataset.ts';
import type { RowIndexStore } from '../dataset/row-index.ts';
import { readTargetModel, type TargetModel } from '../engine/model-files.ts';
import type { FileReader } from '../host/host.ts';

/** What a start reads before it may write anything. */
export interface RunInputs {
  readonly model: TargetModel;
  readonly dataset: Dataset;
  readonly encoder: ConversationEncoder | null;
}

export interface OpenInputsOptions {
  readonly signal: AbortSignal;
  /** Where the scan's findings are kept (`rowIndexStore`); default null: the dataset is scanned at each start. */
  readonly rowIndex?: RowIndexStore | null;
  onScan(progress: ScanProgress): void;
}

/** @throws TidemarkError `model`, `dataset`, `config` */
export async function openInputs(files: FileReader, settings: Settings, options: OpenInputsOptions): Promise<RunInputs> {
  const model = await readTargetModel(files, settings.target.model);
  refuseImpossibleLayers(settings, model);
  const { encoder, encoderProblem } = await encoderIfAny(files, settings.target.model);
  const dataset = await openDataset(files, settings.dataset.path, {
    encoder,
    ...(encoderProblem === null ? {} : { encoderProblem }),
    maxTokens: settings.states.maxTokens,
    rowIndex: options.rowIndex ?? null,
    signal: options.signal,
    onProgress: options.onScan,
  });
  return { model, dataset, encoder };
}

/** What makes this start the run that it is. */
export function identityOf(settings: Settings, { model, dataset, encoder }: RunInputs): RunIdentity {
  return {
    dataset: { rows: dataset.rows, root: dataset.table.root },
    target: { name: basename(model.folder), revision: settings.target.revision, digest: model.digest },
    tokenizer: encoder === null ? null : { tokenizer: encoder.tokenizerDigest, template: encoder.templateDigest },
    truncation: { maxTokens: settings.states.maxTokens, policy: 'drop' },
    layers: { convention: LAYER_CONVENTION, auxiliary: settings.states.auxiliaryLayers, last: model.layerCount },
    lastState: { stored: settings.states.lastState, norm: normText(model) },
    dtype: settings.states.dtype,
    layout: settings.layout,
    shardRows: shardRowsOf(settings.layout),
  };
}

/**
 * The encoder of a model folder, or why there is none. Rows that carry `input_ids` need no tokenizer, and many model folders have
 * none that we read; only a conversation makes it a problem.
 */
export async function encoderIfAny(
  files: FileReader,
  modelFolder: string,
): Promise<{ encoder: ConversationEncoder | null; encoderProblem: string | null }> {
  if ((await files.realPath(`${modelFolder}/tokenizer.json`)) === null) return { encoder: null, encoderProblem: null };
  try {
    const { openConversationEncoder } = await import('../dataset/tokenizer.ts');
    return { encoder: await openConversationEncoder(files, modelFolder), encoderProblem: null };
  } catch (error) {
    if (!isTidemarkError(error, 'model')) throw error;
    return { encoder: null, encoderProblem: error.message };
  }
}

function refuseImpossibleLayers(settings: Settings, model: TargetModel): void {
  const { auxiliaryLayers } = settings.states;
  const ascending = auxiliaryLayers.every((layer, place) => place === 0 || layer > (auxiliaryLayers[place - 1] ?? 0));
  const inside = auxiliaryLayers.every((layer) => layer >= 1 && layer < model.layerCount);
  if (auxiliaryLayers.length > 0 && ascending && inside) return;
  throw new TidemarkError(
    'config',
    `states.auxiliaryLayers is [${auxiliaryLayers.join(', ')}]; ${model.architecture} has boundaries 1 to ${model.layerCount - 1} before its last`,
    {
      where: model.folder,
      hint: 'give ascending boundary numbers (k is the state after k layers), for example --layers 2,4,5',
    },
  );
}

/** The norm that the driver applies, by kind, epsilon and weight: part of the run's identity, because the stored numbers depend on it. */
function normText(model: TargetModel): string {
  const { kind, epsilon, weight } = model.norm;
  const digest = createHash('sha256')
    .update(new Uint8Array(weight.buffer, weight.byteOffset, weight.byteLength))
    .digest('hex')
    .slice(0, 16);
  return `${kind} epsilon ${epsilon} weight ${digest} float32`;
}
