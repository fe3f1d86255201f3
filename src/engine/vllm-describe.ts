import { TidemarkError } from '../core/errors.ts';
import type { Http } from '../host/host.ts';
import type { EngineDescription } from './engine.ts';
import { isRecord, jsonOf, member, namesOf, refusal } from './vllm-protocol.ts';

const describeMsMost = 30_000;
const answerBytesMost = 4 << 20;

/** The address that all routes hang on: people paste it with `/v1` or a slash at the end. */
export function serverRoot(url: string): string {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new TidemarkError('usage', `${JSON.stringify(url)} is not the address of a server`, {
      hint: 'write it as http://127.0.0.1:8000',
    });
  }
  return url.replace(/\/+$/, '').replace(/\/v1$/, '');
}

/** Asks the server what it is. Fields that change with each start (`created`, permissions) are left out: the same state must read the same. */
export async function describeVllm(http: Http, root: string, timeoutMs: number, signal?: AbortSignal): Promise<EngineDescription> {
  const get = (path: string) =>
    http.request({
      method: 'GET',
      url: `${root}${path}`,
      timeoutMs: Math.min(timeoutMs, describeMsMost),
      mostBytes: answerBytesMost,
      ...(signal === undefined ? {} : { signal }),
    });
  const where = `${root}/v1/models`;
  const listing = await get('/v1/models');
  if (listing.status !== 200) throw refusal(listing, where);
  const body = jsonOf(listing, where);
  const data = member(body, 'data');
  const models = Array.isArray(data) ? data.filter(isRecord) : [];
  // Adapters are listed beside the model that they belong to, and name it as their parent.
  const served = models.find((one) => typeof one.id === 'string' && typeof one.parent !== 'string');
  const id = member(served, 'id');
  if (served === undefined || typeof id !== 'string') {
    throw new TidemarkError('engine-protocol', `the server lists no model; its answer has ${namesOf(body)}`, {
      where,
      hint: `curl -s ${where}`,
    });
  }
  const longest = served.max_model_len;
  const version = await get('/version');
  // Some builds and proxies have no such route; the run then has one fact less.
  const versions = version.status === 200 ? jsonOf(version, `${root}/version`) : {};
  return {
    engine: 'vllm',
    model: id,
    // One generated token counts towards the length.
    maxTokens: typeof longest === 'number' && longest > 1 ? longest - 1 : null,
    state: { ...scalars(versions), ...scalars({ root: served.root, max_model_len: longest, owned_by: served.owned_by }) },
  };
}

function scalars(value: unknown): Record<string, string> {
  const some: Record<string, string> = {};
  if (!isRecord(value)) return some;
  for (const [name, one] of Object.entries(value).slice(0, 32)) {
    if (typeof one === 'string' || typeof one === 'number' || typeof one === 'boolean') some[name.slice(0, 60)] = String(one).slice(0, 400);
  }
  return some;
}
