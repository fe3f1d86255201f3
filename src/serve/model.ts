import type { InferenceSession, Tensor } from 'onnxruntime-node';
import { assert } from '../core/assert.ts';
import { messageOf, TidemarkError } from '../core/errors.ts';
import type { Host } from '../host/host.ts';
import { appendColumns, bucketOf, cacheFromPresent, gatherPast, type KeyValueCache } from './key-value-cache.ts';
import { type ModelFacts, parseModelFacts, readModelFile, readModelJson } from './model-facts.ts';

/** The residual streams of one prompt. A view: it keeps its whole batch in memory until it is dropped. */
export interface LayerStates {
  readonly tokenCount: number;
  /** Boundary `id` (0 the embedding, N before the final norm): tokenCount x hidden size, row-major, not to be written to. */
  layer(id: number): Float32Array;
}

/** What one row of one step gave. */
export interface StepResult {
  /** Of the row's last token. */
  readonly logits: Float32Array;
  readonly states: LayerStates | null;
  readonly cache: KeyValueCache | null;
}

export interface PrefillWants {
  readonly states: boolean;
  readonly cache: boolean;
}

export interface DecodeRow {
  readonly tokenId: number;
  /** Grows by one token. */
  readonly cache: KeyValueCache;
}

export interface EngineModel {
  readonly facts: ModelFacts;
  /** Runs whole prompts of one common length. A row's result does not depend on the other rows. */
  prefill(rows: readonly (readonly number[])[], wants: PrefillWants): Promise<readonly StepResult[]>;
  /** Appends one token to each of several sequences of one bucket. A row's result does not depend on the other rows. */
  decode(rows: readonly DecodeRow[]): Promise<readonly StepResult[]>;
  release(): Promise<void>;
}

export interface LoadModelOptions {
  readonly directory: string;
  /** Threads inside one operator. The bits do not depend on it. */
  readonly threadCount: number;
}

type Runtime = typeof import('onnxruntime-node');

const ERRORS_ONLY = 3;

export async function loadModel(host: Host, options: LoadModelOptions): Promise<EngineModel> {
  const configPath = `${options.directory}/config.json`;
  const graphPath = `${options.directory}/model.onnx`;
  const facts = parseModelFacts(await readModelJson(host.files, configPath), configPath);
  const graph = await readModelFile(host.files, graphPath);
  const runtime = await loadRuntime();
  let session: InferenceSession;
  try {
    session = await runtime.InferenceSession.create(graph, {
      intraOpNumThreads: options.threadCount,
      interOpNumThreads: 1,
      logSeverityLevel: ERRORS_ONLY,
      // A spinning thread takes the core that the server's own loop and its client need: batches took five times as long.
      extra: { session: { intra_op: { allow_spinning: '0' } } },
    });
  } catch (error) {
    throw new TidemarkError('model', `the graph cannot be loaded: ${messageOf(error)}`, { where: graphPath, cause: error });
  }
  for (const name of ['logits', 'hidden_states', 'present']) {
    if (!session.outputNames.includes(name)) {
      throw new TidemarkError('model', `the graph has no output called ${name}`, { where: graphPath });
    }
  }
  return createModel(runtime, session, facts);
}

function createModel(runtime: Runtime, session: InferenceSession, facts: ModelFacts): EngineModel {
  const { layerCount, keyValueHeadCount, headSize, hiddenSize, vocabularySize } = facts;
  /** One buffer for every step's `past`: touching fresh memory would cost as much as the step's arithmetic. */
  let pastBuffer = new Float32Array(0);

  const integers = (values: BigInt64Array, shape: readonly number[]): Tensor => new runtime.Tensor('int64', values, shape);
  const pastOf = (values: Float32Array, rowCount: number, columns: number): Tensor =>
    new runtime.Tensor('float32', values, [layerCount, 2, rowCount, keyValueHeadCount, columns, headSize]);

  return {
    facts,
    async prefill(rows, wants) {
      const length = rows[0]?.length ?? 0;
      assert(length > 0 && rows.every((row) => row.length === length), 'prompts that run together have one length');
      const outputs = ['logits', ...(wants.states ? ['hidden_states'] : []), ...(wants.cache ? ['present'] : [])];
      const tokenIds = new BigInt64Array(rows.length * length);
      rows.forEach((row, rowIndex) => {
        row.forEach((id, index) => {
          tokenIds[rowIndex * length + index] = BigInt(id);
        });
      });
      const answer = await session.run(
        {
          input_ids: integers(tokenIds, [rows.length, length]),
          attention_mask: integers(new BigInt64Array(rows.length * length).fill(1n), [rows.length, length]),
          past: pastOf(new Float32Array(0), rows.length, 0),
        },
        outputs,
      );
      const logits = floats(answer.logits, rows.length * length * vocabularySize);
      const states = wants.states ? floats(answer.hidden_states, (layerCount + 1) * rows.length * length * hiddenSize) : null;
      const present = wants.cache ? floats(answer.present, layerCount * 2 * rows.length * keyValueHeadCount * length * headSize) : null;
      return rows.map((_, rowIndex) => {
        const end = (rowIndex + 1) * length * vocabularySize;
        return {
          logits: logits.subarray(end - vocabularySize, end),
          states: states === null ? null : statesView(states, { hiddenSize, rowIndex, rowCount: rows.length, tokenCount: length }),
          cache: present === null ? null : cacheFromPresent(facts, { data: present, rowCount: rows.length, columns: length, rowIndex }),
        };
      });
    },
    async decode(rows) {
      const caches = rows.map((row) => row.cache);
      const columns = bucketOf(caches[0]?.length ?? 0);
      assert(rows.length > 0 && caches.every((cache) => bucketOf(cache.length) === columns), 'sequences that run together share a bucket');
      const pastColumns = columns - 1;
      const pastLength = layerCount * 2 * rows.length * keyValueHeadCount * pastColumns * headSize;
      if (pastBuffer.length < pastLength) pastBuffer = new Float32Array(pastLength);
      const past = pastBuffer.subarray(0, pastLength);
      gatherPast(facts, caches, pastColumns, past);
      const mask = new BigInt64Array(rows.length * columns);
      caches.forEach((cache, rowIndex) => {
        mask.fill(1n, rowIndex * columns + pastColumns - cache.length, (rowIndex + 1) * columns);
      });
      const answer = await session.run(
        {
          input_ids: integers(
            BigInt64Array.from(rows, (row) => BigInt(row.tokenId)),
            [rows.length, 1],
          ),
          attention_mask: integers(mask, [rows.length, columns]),
          past: pastOf(past, rows.length, pastColumns),
        },
        ['logits', 'present'],
      );
      const logits = floats(answer.logits, rows.length * vocabularySize);
      appendColumns(facts, caches, columns, floats(answer.present, layerCount * 2 * rows.length * keyValueHeadCount * columns * headSize));
      return rows.map((row, rowIndex) => ({
        logits: logits.subarray(rowIndex * vocabularySize, (rowIndex + 1) * vocabularySize),
        states: null,
        cache: row.cache,
      }));
    },
    release: () => session.release(),
  };
}

/** A row of `hidden_states` [boundaries, rows, tokens, hidden size]: contiguous within one boundary, so no copy is needed. */
function statesView(
  data: Float32Array,
  at: { readonly hiddenSize: number; readonly rowIndex: number; readonly rowCount: number; readonly tokenCount: number },
): LayerStates {
  const layerLength = at.tokenCount * at.hiddenSize;
  return {
    tokenCount: at.tokenCount,
    layer(id) {
      const start = (id * at.rowCount + at.rowIndex) * layerLength;
      assert(start + layerLength <= data.length, 'the layer id is one of the model');
      return data.subarray(start, start + layerLength);
    },
  };
}

function floats(tensor: Tensor | undefined, length: number): Float32Array {
  const data = tensor?.data;
  assert(data instanceof Float32Array && data.length === length, 'an output has the type and size of its shape');
  return data;
}

/** The runtime is an optional dependency of 288 MB: loaded only when a model is. */
async function loadRuntime(): Promise<Runtime> {
  try {
    return await import('onnxruntime-node');
  } catch (error) {
    throw new TidemarkError('model', `onnxruntime-node cannot be loaded: ${messageOf(error)}`, {
      hint: 'npm install onnxruntime-node',
      cause: error,
    });
  }
}
