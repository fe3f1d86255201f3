import type { NormKind } from '../format/norm.ts';

/** What a kind of model does before its head, where the architecture's name alone tells it. */
export interface NormOfArchitecture {
  readonly kind: NormKind;
  /** Where the configuration names no epsilon: the default of the model's code. Null: it must be named. */
  readonly epsilon: number | null;
}

const rms: NormOfArchitecture = { kind: 'rms', epsilon: null };
// Published Gemma 3 configurations leave out what equals the default.
const gemma: NormOfArchitecture = { kind: 'rms-plus-one', epsilon: 1e-6 };
const rmsPlusOne: NormOfArchitecture = { kind: 'rms-plus-one', epsilon: null };
const layer: NormOfArchitecture = { kind: 'layer', epsilon: null };

/**
 * Only architectures whose code was read or is known for certain; a wrong guess would store wrong states without an
 * error. Left out on purpose: OLMo 1 (a norm without weights), Nemotron (a layer norm with 1 + w), Gemma 3n (plain
 * weights, other state), OPT (epsilon not in the configuration), models that scale the state after the norm.
 *
 * To add one: read its final norm in the model's code, then one line here.
 */
const architectures: Readonly<Record<string, NormOfArchitecture>> = {
  LlamaForCausalLM: rms,
  Llama4ForCausalLM: rms,
  Llama4ForConditionalGeneration: rms,
  MistralForCausalLM: rms,
  Mistral3ForConditionalGeneration: rms,
  MixtralForCausalLM: rms,
  Qwen2ForCausalLM: rms,
  Qwen2MoeForCausalLM: rms,
  Qwen2VLForConditionalGeneration: rms,
  Qwen2_5_VLForConditionalGeneration: rms,
  Qwen3ForCausalLM: rms,
  Qwen3MoeForCausalLM: rms,
  Qwen3VLForConditionalGeneration: rms,
  Qwen3VLMoeForConditionalGeneration: rms,
  DeepseekV2ForCausalLM: rms,
  DeepseekV3ForCausalLM: rms,
  DeepseekV32ForCausalLM: rms,
  KimiK25ForConditionalGeneration: rms,
  KimiVLForConditionalGeneration: rms,
  GlmForCausalLM: rms,
  Glm4ForCausalLM: rms,
  Glm4MoeForCausalLM: rms,
  GlmMoeDsaForCausalLM: rms,
  MiniMaxM2ForCausalLM: rms,
  GptOssForCausalLM: rms,
  Phi3ForCausalLM: rms,
  Olmo2ForCausalLM: rms,
  InternLM2ForCausalLM: rms,
  InternLM3ForCausalLM: rms,
  GemmaForCausalLM: gemma,
  Gemma2ForCausalLM: gemma,
  Gemma3ForCausalLM: gemma,
  Gemma3ForConditionalGeneration: gemma,
  Qwen3NextForCausalLM: rmsPlusOne,
  GPTNeoXForCausalLM: layer,
  FalconForCausalLM: layer,
  StableLmForCausalLM: layer,
  Starcoder2ForCausalLM: layer,
  GPTBigCodeForCausalLM: layer,
  GPT2LMHeadModel: layer,
  PhiForCausalLM: layer,
};

export function normOfArchitecture(architecture: string): NormOfArchitecture | null {
  return Object.hasOwn(architectures, architecture) ? (architectures[architecture] ?? null) : null;
}

export function supportedArchitectures(): readonly string[] {
  return Object.keys(architectures);
}

/** Names of the epsilon in configurations. */
export const EPSILON_FIELDS = ['rms_norm_eps', 'layer_norm_eps', 'layer_norm_epsilon', 'norm_eps', 'norm_epsilon'] as const;

/** Names of the final norm's weight in checkpoints; a bias has the same name with `.bias`. */
export const NORM_TENSORS = [
  'model.norm.weight',
  'language_model.model.norm.weight',
  'model.language_model.norm.weight',
  'language_model.norm.weight',
  'model.final_layernorm.weight',
  'transformer.ln_f.weight',
  'ln_f.weight',
  'gpt_neox.final_layer_norm.weight',
] as const;
