import { assert } from '../core/assert.ts';
import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import type { LayerBoundary } from '../core/layers.ts';
import type { Host } from '../host/host.ts';
import type { Capture, CaptureRequest, Engine } from './engine.ts';
import { hasChanged, type StagedStates, takeStaged } from './staged-file.ts';
import type { StatesForm } from './staged-form.ts';
import { removeStaged, resolveStaged } from './staged-path.ts';
import { describeVllm, serverRoot } from './vllm-describe.ts';
import { checkEcho, completionBody, readCompletion, refusal, requestIdOf, transportError } from './vllm-protocol.ts';

export interface VllmOptions {
  /** Root of the server, as in `http://127.0.0.1:8000`; a `/v1` at the end is dropped. */
  readonly url: string;
  /** The server's `shared_storage_path`, as seen from here. Only files below it are read or deleted. */
  readonly staging: string;
  /**
   * From sending a request to having its complete file. Long is safe: before vllm pull 56841, a client that gives up on
   * a request that still waits in the queue ends the whole server.
   */
  readonly timeoutMs: number;
  /** Boundary numbers, ascending: the ids that the server was launched with, without the last one. */
  readonly auxiliaryLayers: readonly LayerBoundary[];
  /** The layer count; vLLM gives this state before the final norm. */
  readonly lastLayer: LayerBoundary;
  /** The target's hidden size; other widths are refused. Default: all are taken. */
  readonly width?: number;
  /** Eight hex digits of the run, put into each request's name so that its leftovers can be told from other runs'. Default: none. */
  readonly owner?: string;
  /** An incomplete file that did not change for so long is given up before the deadline. Default 30,000. */
  readonly settleMs?: number;
}

const healthMsMost = 5_000;

/**
 * vLLM's hidden-state connector (0.18 and later): states arrive as safetensors files in a folder that both sides see.
 *
 * The signal of `capture` is the hard stop: it drops the connection, and what the server then still writes stays
 * in the staging folder, where `listOrphanCaptures` finds it by its name. Whoever wants to drain stops
 * asking instead, and lets the requests in flight come to their end.
 */
export function createVllmEngine(host: Host, options: VllmOptions): Engine {
  const { staging, timeoutMs, settleMs = 30_000 } = options;
  const layers = [...options.auxiliaryLayers, options.lastLayer];
  assert(
    layers.every((layer, at) => at === 0 || layer > (layers[at - 1] ?? 0)),
    'layers ascend, and the last one is last',
  );
  const root = serverRoot(options.url);
  const form: StatesForm = { layers: layers.length, width: options.width ?? null };
  let closed = false;
  // Of the last `describe`: a restarted server may serve another model, and then says 404 until asked again.
  let model: string | undefined;

  async function describe(signal?: AbortSignal) {
    const description = await describeVllm(host.http, root, timeoutMs, signal);
    model = description.model;
    return description;
  }

  async function capture(request: CaptureRequest, signal?: AbortSignal): Promise<Capture> {
    const { inputIds } = request;
    assert(!closed, 'the engine is open');
    assert(inputIds.length > 0, 'a sample has tokens');
    const deadlineMs = host.clock.monotonicMs() + timeoutMs;
    const served = model ?? (await describe(signal)).model;
    const requestId = requestIdOf(request, options.owner ?? '', host.randomBytes(4));
    const url = `${root}/v1/completions`;
    const where = `${url} (row ${request.row})`;
    const response = await host.http
      .request({
        method: 'POST',
        url,
        // Builds differ in which of the two names the request (and so its file); both say the same.
        headers: { 'x-request-id': requestId },
        body: completionBody(served, requestId, inputIds),
        timeoutMs: Math.max(1, deadlineMs - host.clock.monotonicMs()),
        // The ids come back as text, at most 10 digits and a separator each.
        mostBytes: (1 << 20) + 32 * inputIds.length,
        ...(signal === undefined ? {} : { signal }),
      })
      .catch((error: unknown) => {
        throw transportError(error, where);
      });
    if (response.status === 404) model = undefined;
    if (response.status !== 200) throw refusal(response, where);
    const reply = readCompletion(response, where);
    const path = await resolveStaged(host.files, staging, reply.path, requestId);
    const wait = { path, requestId, inputIds, form, deadlineMs, settleMs };
    try {
      checkEcho(reply.promptIds, inputIds, where);
    } catch (error) {
      // The file is written after the answer: deleted now, it would appear again and stay.
      const waitMs = Math.min(deadlineMs, host.clock.monotonicMs() + settleMs);
      await takeStaged(host, { ...wait, deadlineMs: waitMs }, signal).then(
        (states) => stagedCapture(host, path, states, layers).release(),
        () => undefined,
      );
      throw error;
    }
    const states = await takeStaged(host, wait, signal);
    return stagedCapture(host, path, states, layers);
  }

  async function healthy(signal?: AbortSignal): Promise<boolean> {
    try {
      const response = await host.http.request({
        method: 'GET',
        url: `${root}/health`,
        timeoutMs: Math.min(timeoutMs, healthMsMost),
        mostBytes: 1 << 20,
        ...(signal === undefined ? {} : { signal }),
      });
      return response.status === 200;
    } catch (error) {
      if (isTidemarkError(error, 'interrupted')) throw error;
      return false;
    }
  }

  return {
    capabilities: { stagedFiles: true, echoesTokenIds: true, health: true },
    describe,
    healthy,
    capture,
    // Connections belong to the host, and each capture to its caller: nothing else is held.
    async close() {
      closed = true;
    },
  };
}

function stagedCapture(host: Host, path: string, states: StagedStates, layers: readonly LayerBoundary[]): Capture {
  const { file, tensor } = states;
  const tokens = tensor.shape[0] ?? 0;
  const rowBytes = tensor.bytes / tokens;
  let released: Promise<void> | undefined;
  return {
    tokens,
    width: tensor.shape[2] ?? 0,
    dtype: tensor.dtype,
    layers,
    // vLLM takes id N at the output of the last layer, before the final norm.
    lastStateNorm: 'pre-norm',
    async readRows(from, to) {
      assert(0 <= from && from <= to && to <= tokens, `rows ${from} to ${to} of ${tokens}`);
      return file.read(tensor.fileOffset + from * rowBytes, (to - from) * rowBytes).catch(async (error: unknown) => {
        if (!(await hasChanged(host, path, file.stat))) throw error;
        throw new TidemarkError('capture-bad', 'the staged file changed or vanished while it was read', {
          where: path,
          hint: 'look whether something else cleans the staging folder (systemd-tmpfiles, another driver)',
          retry: 'later',
          cause: error,
        });
      });
    },
    release() {
      released ??= file.close().then(() => removeStaged(host.files, path));
      return released;
    },
  };
}
