/**
 * tidemark's one layer convention: a **boundary number** k is the residual stream after k decoder
 * layers. 0 is the embedding's output, N (the layer count) is the state before the final norm.
 * It equals vLLM's counting and, for k < N, Hugging Face's `hidden_states[k]`. SpecForge and ModelOpt
 * name the same tensors by the 0-based layer whose output they are: boundary k is their layer k - 1.
 */
export type LayerBoundary = number;

export const LAYER_CONVENTION = 'boundary/1' as const;

/** Whether a last hidden state is taken before or after the target's final norm. */
export type LastStateNorm = 'pre-norm' | 'post-norm';

/** EAGLE-3's default auxiliary boundaries: early, middle, late (`[2, N/2, N-3]`, SafeAILab/EAGLE). */
export function defaultAuxiliaryLayers(layerCount: number): readonly LayerBoundary[] {
  return [2, Math.floor(layerCount / 2), layerCount - 3];
}
