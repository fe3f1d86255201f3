import { once } from 'node:events';
import type { FastifyReply } from 'fastify';

/** Server-sent events on a reply that fastify has let go of. */
export interface ServerEvents {
  /** Waits while the client reads more slowly than we write; rejects when it is gone. */
  send(value: unknown): Promise<void>;
  /** Sends `[DONE]`, as OpenAI's clients expect, and closes. */
  end(): void;
}

export function createServerEvents(reply: FastifyReply, signal: AbortSignal): ServerEvents {
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' });
  return {
    async send(value) {
      signal.throwIfAborted();
      if (!raw.write(`data: ${JSON.stringify(value)}\n\n`)) await once(raw, 'drain', { signal });
    },
    end() {
      if (!raw.destroyed) raw.end('data: [DONE]\n\n');
    },
  };
}
