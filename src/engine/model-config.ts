import { TidemarkError } from '../core/errors.ts';
import type { NormKind } from '../format/norm.ts';
import { EPSILON_FIELDS, normOfArchitecture, supportedArchitectures } from './norm-kinds.ts';

export interface ModelConfig {
  /** As in `LlamaForCausalLM`. */
  readonly architecture: string;
  readonly layerCount: number;
  readonly hiddenSize: number;
  /** Null where a nested configuration leaves it out. */
  readonly vocabularySize: number | null;
  readonly maxPositions: number | null;
  readonly norm: { readonly kind: NormKind; readonly epsilon: number };
}

type Fields = Readonly<Record<string, unknown>>;

/** Of config.json, the few fields that tidemark needs; models with images keep them one level down, under `text_config`. */
export function parseModelConfig(bytes: Uint8Array, where: string): ModelConfig {
  const outer = fieldsOf(bytes, where);
  const nested = ['text_config', 'language_config', 'llm_config'].map((name) => outer[name]).find(isFields);
  const lookup = (name: string): unknown => nested?.[name] ?? outer[name];
  const architecture = architectureOf(outer, nested, where);
  const kind = normOfArchitecture(architecture);
  if (kind === null) {
    throw new TidemarkError('model', `the final norm of ${architecture} is not known to tidemark, and a guess would store wrong states`, {
      where,
      hint: `one line in src/engine/norm-kinds.ts adds it; known are ${supportedArchitectures().join(', ')}`,
    });
  }
  const whole = (...names: readonly string[]): number | null => {
    const value = names.map(lookup).find((one) => one !== undefined && one !== null);
    return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : null;
  };
  const required = (what: string, ...names: readonly string[]): number => {
    const value = whole(...names);
    if (value !== null) return value;
    throw new TidemarkError('model', `config.json does not tell the ${what} (${names.join(' or ')})`, { where, hint: 'download it again' });
  };
  const named = EPSILON_FIELDS.map(lookup).find((value) => typeof value === 'number');
  const epsilon = typeof named === 'number' ? named : kind.epsilon;
  if (epsilon === null || !(epsilon > 0 && epsilon < 1)) {
    throw new TidemarkError('model', `config.json does not tell the epsilon of the final norm (${EPSILON_FIELDS.join(' or ')})`, {
      where,
      hint: 'take the value from the model\'s code and add it to config.json, as "rms_norm_eps": 1e-6',
    });
  }
  return {
    architecture,
    layerCount: required('layer count', 'num_hidden_layers', 'n_layer', 'num_layers'),
    hiddenSize: required('hidden size', 'hidden_size', 'n_embd', 'd_model'),
    vocabularySize: whole('vocab_size'),
    maxPositions: whole('max_position_embeddings', 'n_positions'),
    norm: { kind: kind.kind, epsilon },
  };
}

/** The outer one decides: `KimiK25ForConditionalGeneration` wraps a text model that names itself too. The inner one is asked when the outer is not known. */
function architectureOf(outer: Fields, nested: Fields | undefined, where: string): string {
  const names = [outer, nested].map((fields) => {
    const list = fields?.architectures;
    const first: unknown = Array.isArray(list) ? list[0] : undefined;
    return typeof first === 'string' ? first : undefined;
  });
  const known = names.find((name) => name !== undefined && normOfArchitecture(name) !== null);
  const named = known ?? names.find((name) => name !== undefined);
  if (named === undefined) {
    throw new TidemarkError('model', 'config.json names no architecture', {
      where,
      hint: 'give the folder of the full model, with its own config.json',
    });
  }
  return named.slice(0, 200);
}

function fieldsOf(bytes: Uint8Array, where: string): Fields {
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    throw new TidemarkError('model', 'config.json is not JSON', { where, cause, hint: 'download it again' });
  }
  if (!isFields(parsed)) throw new TidemarkError('model', 'config.json is not a JSON object', { where, hint: 'download it again' });
  return parsed;
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
