import { type ErrorCode, isTidemarkError, TidemarkError } from '../core/errors.ts';
import type { HttpResponse } from '../host/host.ts';
import type { CaptureRequest } from './engine.ts';

/** What each launch line for extraction must have; the remedy of every answer that shows it was not there. */
export const LAUNCH_HINT =
  'start the server with --speculative-config \'{"method":"extract_hidden_states", …}\' and --kv-transfer-config \'{"kv_connector":"ExampleHiddenStatesConnector","kv_role":"kv_producer", …}\'';

/**
 * `tm-<row>-<attempt>-<owner><8 hex>`: the server puts it into the name of the staged file, which is how a run's own
 * leftovers are known later.
 * @param owner eight hex digits of the run, or nothing
 */
export function requestIdOf(request: CaptureRequest, owner: string, random: Uint8Array): string {
  return `tm-${request.row}-${request.attempt}-${owner}${Buffer.from(random).toString('hex')}`;
}

/** The request id of ours that a staged file's name carries, or null. */
export function requestIdIn(fileName: string): string | null {
  return /(?:^|-)(tm-\d{1,15}-\d{1,9}-(?:[0-9a-f]{8}){1,2})(?=[-.])/.exec(fileName)?.[1] ?? null;
}

export function completionBody(model: string, requestId: string, inputIds: Uint32Array): unknown {
  return {
    model,
    // One flat list: of several prompts the server returns only the first one's path.
    prompt: Array.from(inputIds),
    // More than one generated token damages the states (vllm issue 56417).
    max_tokens: 1,
    temperature: 0,
    return_token_ids: true,
    request_id: requestId,
  };
}

/** As the server wrote it; nothing about it is trusted yet. */
export interface CompletionReply {
  readonly promptIds: unknown;
  readonly path: string;
}

/** Takes a 200 answer apart. Whether the ids are the right ones is for the caller, who can also clean up. */
export function readCompletion(response: HttpResponse, where: string): CompletionReply {
  const body = jsonOf(response, where);
  const parameters = member(body, 'kv_transfer_params');
  const path = member(parameters, 'hidden_states_path');
  if (typeof path !== 'string') {
    const found = isRecord(parameters) ? `kv_transfer_params has ${namesOf(parameters)}` : `the answer has ${namesOf(body)}`;
    throw new TidemarkError('engine-protocol', `the server returned no kv_transfer_params.hidden_states_path; ${found}`, {
      where,
      hint: LAUNCH_HINT,
    });
  }
  const choices = member(body, 'choices');
  return { promptIds: member(Array.isArray(choices) ? choices[0] : undefined, 'prompt_token_ids'), path };
}

/** Rejects an echo that is not what was sent. */
export function checkEcho(echoed: unknown, sent: Uint32Array, where: string): void {
  if (!Array.isArray(echoed)) {
    throw new TidemarkError(
      'engine-protocol',
      'the server did not echo choices[0].prompt_token_ids, so nothing ties its states to the row',
      {
        where,
        hint: 'use vLLM 0.22.0 or later, which obeys return_token_ids',
      },
    );
  }
  const ids: readonly unknown[] = echoed;
  const differs = sent.findIndex((id, at) => ids[at] !== id);
  if (differs < 0 && ids.length === sent.length) return;
  const how =
    differs < 0 || differs >= ids.length
      ? `${ids.length} came back of ${sent.length} sent`
      : `at position ${differs} ${shown(String(ids[differs]))} came back for ${sent[differs]}`;
  throw new TidemarkError('capture-bad', `the echoed ids differ from those sent: ${how}`, {
    where,
    hint: 'look for a proxy, a truncation setting or another model behind this address',
    retry: 'later',
  });
}

/** A failure of the transport, with the row and the next step that the transport cannot know. */
export function transportError(error: unknown, where: string): unknown {
  if (!isTidemarkError(error, 'engine-timeout', 'engine-protocol', 'engine-unreachable')) return error;
  const hint =
    error.code === 'engine-timeout'
      ? 'look at the end of the server log: /health can say 200 while nothing is served; for long queues raise engine.timeoutMs or lower engine.inFlight'
      : 'check that the address is a vLLM server and not a proxy or a web page';
  return new TidemarkError(error.code, error.message, { where, hint: error.hint ?? hint, retry: error.retry, cause: error });
}

/** The error for any status but 200. */
export function refusal(response: HttpResponse, where: string): TidemarkError {
  const { status } = response;
  const said = serverMessage(response.body);
  const message = `the server answered ${status}${said === '' ? '' : `: ${said}`}`;
  const { code, hint, retry } = meaningOf(status, said);
  return new TidemarkError(code, message, { where, hint, retry });
}

function meaningOf(status: number, said: string): { code: ErrorCode; hint: string; retry: 'later' | 'never' } {
  switch (status) {
    case 400:
    case 413:
    case 422: {
      const tooLong = /maximum (context|model) length|max_model_len/i.test(said);
      const hint = tooLong
        ? 'start the server with a larger --max-model-len (longest row plus 1), or drop longer rows with states.maxTokens'
        : 'this row is refused as it is; look at its ids in the dataset';
      return { code: 'engine-refused', hint, retry: 'never' };
    }
    case 401:
    case 403:
      return {
        code: 'engine-protocol',
        hint: 'start the server without --api-key, on an address only this machine reaches',
        retry: 'never',
      };
    case 404:
      return {
        code: 'engine-protocol',
        hint: 'check the address: it must be the root of a vLLM server that serves this model',
        retry: 'never',
      };
    case 408:
    case 409:
    case 425:
    case 429:
    case 503:
      return { code: 'engine-busy', hint: 'lower engine.inFlight if this goes on', retry: 'later' };
    default:
      return status >= 500
        ? {
            code: 'engine-unreachable',
            hint: 'read the end of the server log: after an internal error vLLM often ends by itself',
            retry: 'later',
          }
        : { code: 'engine-protocol', hint: 'check that the address is a vLLM server and not a proxy or a web page', retry: 'never' };
  }
}

export function jsonOf(response: HttpResponse, where: string): unknown {
  const text = new TextDecoder().decode(response.body);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new TidemarkError('engine-protocol', `the server's answer is not JSON: it begins with ${shown(text.slice(0, 60))}`, {
      where,
      hint: 'check that the address is a vLLM server and not a proxy or a web page',
      cause,
    });
  }
}

/** `{"error":{"message"}}` since 0.10, `{"message"}` before, `{"detail"}` from the framework below. */
function serverMessage(body: Uint8Array): string {
  const text = new TextDecoder().decode(body.subarray(0, 64 * 1024));
  try {
    const parsed: unknown = JSON.parse(text);
    const found = [member(member(parsed, 'error'), 'message'), member(parsed, 'message'), member(parsed, 'detail')];
    const message = found.find((one) => one !== undefined) ?? parsed;
    return plain(typeof message === 'string' ? message : JSON.stringify(message));
  } catch {
    return plain(text);
  }
}

/** One line without control characters, cut: the server chose its length. */
function plain(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim();
  return line.length > 400 ? `${line.slice(0, 400)}…` : line;
}

/** Outside text as it may stand in a message. */
export function shown(text: string): string {
  return JSON.stringify(text.length > 400 ? `${text.slice(0, 400)}…` : text);
}

/** The names of an object's members, for an error that says what was found instead. */
export function namesOf(value: unknown): string {
  if (!isRecord(value)) return 'no members';
  const names = Object.keys(value);
  const some = names.slice(0, 12).map((name) => name.slice(0, 60));
  return names.length === 0 ? 'no members' : plain(`${some.join(', ')}${names.length > 12 ? ` and ${names.length - 12} more` : ''}`);
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function member(value: unknown, name: string): unknown {
  return isRecord(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}
