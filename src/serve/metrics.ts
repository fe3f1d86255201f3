/** Counters that only grow; the gauges are read when asked for. */
export interface Counters {
  promptTokens: number;
  generatedTokens: number;
  succeeded: number;
  rejected: number;
  capturesWritten: number;
  capturesFailed: number;
}

export function createCounters(): Counters {
  return { promptTokens: 0, generatedTokens: 0, succeeded: 0, rejected: 0, capturesWritten: 0, capturesFailed: 0 };
}

/** Prometheus text with vLLM's names and labels. The prefix cache does not exist here, so its counters stay 0. */
export function renderMetrics(
  modelName: string,
  counters: Counters,
  gauges: { readonly running: number; readonly waiting: number },
): string {
  const rows: readonly (readonly [name: string, type: 'gauge' | 'counter', value: number, help: string])[] = [
    ['vllm:num_requests_running', 'gauge', gauges.running, 'Requests that run.'],
    ['vllm:num_requests_waiting', 'gauge', gauges.waiting, 'Requests that wait.'],
    ['vllm:prompt_tokens_total', 'counter', counters.promptTokens, 'Prompt tokens computed.'],
    ['vllm:generation_tokens_total', 'counter', counters.generatedTokens, 'Tokens generated.'],
    ['vllm:request_success_total', 'counter', counters.succeeded, 'Requests answered.'],
    ['vllm:admission_rejections_total', 'counter', counters.rejected, 'Requests refused because the queue was full.'],
    ['vllm:prefix_cache_queries', 'counter', 0, 'Prefix cache queries, in tokens.'],
    ['vllm:prefix_cache_hits', 'counter', 0, 'Prefix cache hits, in tokens.'],
    ['tidemark:captures_written_total', 'counter', counters.capturesWritten, 'Hidden-state files written.'],
    ['tidemark:captures_failed_total', 'counter', counters.capturesFailed, 'Hidden-state files that could not be written.'],
  ];
  const labels = `{engine="0",model_name="${modelName.replace(/["\\\n]/g, '_')}"}`;
  return rows.map(([name, type, value, help]) => `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${name}${labels} ${value}\n`).join('');
}
