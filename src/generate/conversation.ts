import type { Message, Prompt } from '../dataset/dataset.ts';
import type { Sampling } from './sampling.ts';

/** One answer of the server, with the ids that it really read and wrote. */
export interface Answer {
  readonly content: string;
  readonly reasoning: string | null;
  readonly promptIds: readonly number[];
  readonly tokenIds: readonly number[];
  readonly finishReason: string;
}

export type Ask = (messages: readonly Message[], turn: number) => Promise<Answer>;

/** One line of the output: the conversation as answered, and its tokens as the server counted them. */
export interface GeneratedRow {
  readonly id: string;
  readonly messages: readonly Message[];
  readonly input_ids: readonly number[];
  /** 1 where the target itself wrote the token. */
  readonly loss_mask: readonly number[];
  /** Of the last answer. `length` means that it was cut. */
  readonly finish_reason: string;
  readonly turns: readonly GeneratedTurn[];
  readonly sampling: Readonly<Record<string, unknown>>;
}

interface GeneratedTurn {
  readonly finish_reason: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  /** The template wrote this answer otherwise into the next prompt, so its tokens are not the target's own: mask 0. */
  readonly retokenised?: true;
}

/**
 * Answers every user turn in order, each on top of the answers before it. What the target thought is kept in its message
 * and left out of the history, as chat templates do.
 */
export async function answerConversation(prompt: Prompt, model: string, sampling: Sampling, ask: Ask): Promise<GeneratedRow> {
  const history: Message[] = [];
  const messages: Message[] = [];
  const answers: Answer[] = [];
  for (const message of prompt.messages) {
    history.push(message);
    messages.push(message);
    if (message.role !== 'user') continue;
    const answer = await ask(history, answers.length);
    answers.push(answer);
    history.push({ role: 'assistant', content: answer.content });
    messages.push({
      role: 'assistant',
      content: answer.content,
      ...(answer.reasoning === null ? {} : { reasoning_content: answer.reasoning }),
    });
  }
  const last = answers.at(-1);
  if (last === undefined) throw new RangeError(`prompt ${prompt.id} has no user turn`);
  const lossMask = new Array<number>(last.promptIds.length).fill(0).concat(new Array<number>(last.tokenIds.length).fill(1));
  const turns = answers.map((answer, turn): GeneratedTurn => {
    const counted = {
      finish_reason: answer.finishReason,
      prompt_tokens: answer.promptIds.length,
      completion_tokens: answer.tokenIds.length,
    };
    if (turn === answers.length - 1) return counted;
    if (!standsIn(last.promptIds, answer)) return { ...counted, retokenised: true };
    lossMask.fill(1, answer.promptIds.length, answer.promptIds.length + answer.tokenIds.length);
    return counted;
  });
  const { temperature, topP, maxTokens, seed, extra } = sampling;
  return {
    id: prompt.id,
    messages,
    input_ids: [...last.promptIds, ...last.tokenIds],
    loss_mask: lossMask,
    finish_reason: last.finishReason,
    turns,
    sampling: { ...extra, model, temperature, top_p: topP, max_tokens: maxTokens, seed },
  };
}

/** Whether the later prompt begins with what was read and written then, token by token. */
function standsIn(later: readonly number[], { promptIds, tokenIds }: Answer): boolean {
  if (later.length < promptIds.length + tokenIds.length) return false;
  return promptIds.every((id, at) => later[at] === id) && tokenIds.every((id, at) => later[promptIds.length + at] === id);
}
