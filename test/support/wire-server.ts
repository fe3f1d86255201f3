import { mkdir, rename, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';

/**
 * A server that speaks the wire protocol of vLLM's hidden-state connector and runs no model. It exists to say and write odd
 * things, one scenario at a time, and writes its files itself, so that our writers are not tested against our readers.
 */
export interface WireServer {
  readonly url: string;
  readonly staging: string;
  /** Bodies of all completion requests so far. */
  readonly requests: readonly Readonly<Record<string, unknown>>[];
  /** What the next requests meet. */
  scenario: Scenario;
  /** Replaces the answer of a GET route, by path. */
  readonly routes: Map<string, { readonly status: number; readonly body: string }>;
  stop(): Promise<void>;
}

/** Handles one completion request whole, through the means that it is given. */
export type Scenario = (call: WireCall) => Promise<void>;

export interface FileShape {
  readonly ids?: readonly number[];
  readonly rows?: number;
  readonly layers?: number;
  readonly width?: number;
  readonly dtype?: 'BF16' | 'F16' | 'F32' | 'I8';
  /** All rows from this one on are zero. */
  readonly zeroFrom?: number;
  readonly statesName?: string;
  /** Takes the place of the whole JSON header; may be invalid on purpose. */
  readonly header?: (honest: string) => string;
}

interface WireCall {
  readonly ids: readonly number[];
  readonly requestId: string;
  /** Where vLLM would write. */
  readonly path: string;
  file(shape?: FileShape): Uint8Array;
  /** As safetensors 0.8 does: a sibling, then a rename. */
  publish(bytes: Uint8Array, path?: string): Promise<void>;
  lock(path?: string): Promise<void>;
  /** A 200 answer, whose parts can be replaced. */
  answer(parts?: { readonly echo?: unknown; readonly parameters?: unknown }): void;
  send(status: number, body: string): void;
  /** Closes the connection without an answer. */
  drop(): void;
  later(ms: number): Promise<void>;
  /** Never answers; resolves when the client has gone. */
  hang(): Promise<void>;
}

export interface WireOptions {
  readonly staging: string;
  /** Auxiliary and last. */
  readonly layers: number;
  readonly width: number;
  /** Default 512. */
  readonly maxModelLen?: number;
}

/** What vLLM does: lock, answer, then the file. */
export const honest: Scenario = async (call) => {
  await call.lock();
  call.answer();
  await call.publish(call.file());
};

export async function startWireServer(options: WireOptions): Promise<WireServer> {
  const requests: Record<string, unknown>[] = [];
  const routes = new Map<string, { status: number; body: string }>();
  const maxModelLen = options.maxModelLen ?? 512;
  const state: { scenario: Scenario } = { scenario: honest };
  const card = {
    id: 'wire',
    object: 'model',
    created: 1,
    owned_by: 'vllm',
    root: '/models/wire',
    parent: null,
    max_model_len: maxModelLen,
  };
  routes.set('/health', { status: 200, body: '' });
  routes.set('/version', { status: 200, body: '{"version":"0.22.1"}' });
  routes.set('/v1/models', { status: 200, body: JSON.stringify({ object: 'list', data: [card] }) });
  await mkdir(options.staging, { recursive: true });
  const running = new Set<Promise<void>>();
  const server = createServer((request, response) => {
    const work = route(request, response).catch((error: unknown) => {
      response.destroy(error instanceof Error ? error : undefined);
    });
    running.add(work);
    void work.finally(() => running.delete(work));
  });

  async function route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method === 'GET') {
      const found = routes.get(request.url ?? '') ?? { status: 404, body: '{"detail":"Not Found"}' };
      response.writeHead(found.status, { 'content-type': 'application/json' }).end(found.body);
      return;
    }
    const pieces: Uint8Array[] = [];
    for await (const piece of request) pieces.push(piece as Uint8Array);
    const body = JSON.parse(Buffer.concat(pieces).toString()) as Record<string, unknown>;
    requests.push(body);
    const ids = body.prompt as number[];
    if (ids.length + 1 > maxModelLen) {
      const message = `This model's maximum context length is ${maxModelLen} tokens. However, your request has ${ids.length} input tokens.`;
      response.writeHead(400).end(JSON.stringify({ error: { message, type: 'BadRequestError', param: null, code: 400 } }));
      return;
    }
    await state.scenario(callOf(options, ids, String(body.request_id), response));
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    staging: options.staging,
    requests,
    routes,
    get scenario() {
      return state.scenario;
    },
    set scenario(next) {
      state.scenario = next;
    },
    stop: () => stop(server, running),
  };
}

async function stop(server: Server, running: ReadonlySet<Promise<void>>): Promise<void> {
  server.closeAllConnections();
  // A second call finds it closed already, which is as good.
  await new Promise((resolve) => server.close(resolve));
  await Promise.all(running);
}

function callOf(options: WireOptions, ids: readonly number[], requestId: string, response: ServerResponse): WireCall {
  const path = join(
    options.staging,
    `cmpl-${requestId}-0-${Math.trunc(Math.random() * 2 ** 32)
      .toString(16)
      .padStart(8, '0')}.safetensors`,
  );
  const send = (status: number, body: string): void => {
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body);
  };
  return {
    ids,
    requestId,
    path,
    file: (shape = {}) => fileOf({ ids, rows: ids.length, layers: options.layers, width: options.width, ...shape }),
    async publish(bytes, to = path) {
      await mkdir(dirname(to), { recursive: true });
      const sibling = join(dirname(to), `.tmp${requestId.slice(-6)}`);
      await writeFile(sibling, bytes);
      await rename(sibling, to);
    },
    lock: (of = path) => writeFile(`${of}.lock`, ''),
    answer(parts = {}) {
      const echo = 'echo' in parts ? parts.echo : ids;
      const parameters = 'parameters' in parts ? parts.parameters : { hidden_states_path: path };
      const choice = { index: 0, text: 'x', finish_reason: 'length', prompt_token_ids: echo, token_ids: [7] };
      const usage = { prompt_tokens: ids.length, completion_tokens: 1, total_tokens: ids.length + 1 };
      send(
        200,
        JSON.stringify({ id: `cmpl-${requestId}`, object: 'text_completion', choices: [choice], usage, kv_transfer_params: parameters }),
      );
    },
    send,
    drop: () => response.destroy(),
    hang: () => new Promise((resolve) => response.once('close', resolve)),
    later: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  };
}

const elementBytes = { BF16: 2, F16: 2, F32: 4, I8: 1 };

function fileOf(
  shape: FileShape & { readonly ids: readonly number[]; readonly rows: number; readonly layers: number; readonly width: number },
): Uint8Array {
  const { ids, rows, layers, width, dtype = 'BF16' } = shape;
  const idBytes = ids.length * 8;
  const stateBytes = rows * layers * width * elementBytes[dtype];
  const plain = JSON.stringify({
    token_ids: { dtype: 'I64', shape: [ids.length], data_offsets: [0, idBytes] },
    [shape.statesName ?? 'hidden_states']: { dtype, shape: [rows, layers, width], data_offsets: [idBytes, idBytes + stateBytes] },
  });
  const header = new TextEncoder().encode((shape.header ?? ((text: string) => text))(plain));
  const padded = Math.ceil(header.length / 8) * 8;
  const bytes = new Uint8Array(8 + padded + idBytes + stateBytes);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(padded), true);
  bytes.set(header, 8);
  bytes.fill(0x20, 8 + header.length, 8 + padded);
  for (const [at, id] of ids.entries()) view.setBigInt64(8 + padded + at * 8, BigInt(id), true);
  const start = 8 + padded + idBytes;
  const slotBytes = width * elementBytes[dtype];
  const rowBytes = layers * slotBytes;
  for (let row = 0; row < Math.min(rows, shape.zeroFrom ?? rows); row++) {
    // Bytes below 0x40 are ordinary numbers in every float format; the sum tells ids, rows, layers and places apart.
    for (let at = 0; at < rowBytes; at++) {
      const mixed = (ids[row] ?? 0) + row + Math.floor(at / slotBytes) * 7 + (at >> 1);
      bytes[start + row * rowBytes + at] = mixed & 0x3f || 0x3c;
    }
  }
  return bytes;
}
