import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeSafetensors } from '../../src/format/safetensors-writer.ts';
import { DTYPE_BYTES, type Dtype, elementCount, type TensorSource } from '../../src/format/tensors.ts';
import { writeTorchZip } from '../../src/format/torch-zip-writer.ts';
import { seededRandom } from '../support/seeded-random.ts';

const golden = join(import.meta.dirname, '../interop/golden');

/** Good files to begin with; the same in every process. */
export interface Seeds {
  readonly torch: readonly Uint8Array[];
  readonly safetensors: readonly Uint8Array[];
}

function tensor(name: string, dtype: Dtype, shape: readonly number[], seed: number): TensorSource {
  const bytes = seededRandom(seed).bytes(elementCount(shape) * DTYPE_BYTES[dtype]);
  return { name, dtype, shape, pieces: () => [bytes] };
}

async function whole(pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces) parts.push(Uint8Array.from(piece));
  return Buffer.concat(parts);
}

function sample(tokens: number, width: number, seed: number): TensorSource[] {
  return [
    tensor('input_ids', 'I64', [tokens], seed),
    tensor('loss_mask', 'I64', [tokens], seed + 1),
    tensor('hidden_state', 'BF16', [1, tokens, width], seed + 2),
    tensor('aux_hidden_state', 'BF16', [1, tokens, 3 * width], seed + 3),
  ];
}

export async function loadSeeds(): Promise<Seeds> {
  const files = readdirSync(golden).sort();
  const named = (extension: string): Uint8Array[] =>
    files.filter((name) => name.endsWith(extension)).map((name) => readFileSync(join(golden, name)));
  const torch: Uint8Array[] = [];
  for (const layout of ['1.13', '2.1', '2.7'] as const) {
    torch.push(await whole(writeTorchZip(sample(6, 8, 1), { stem: 'data_7', layout })));
    // The same size again with other values: a splice of the two looks whole until its sums are compared.
    torch.push(await whole(writeTorchZip(sample(6, 8, 100), { stem: 'data_7', layout })));
  }
  torch.push(await whole(writeTorchZip(sample(300, 64, 9), { stem: 'data_8' })));
  torch.push(await whole(writeTorchZip([tensor('empty', 'F32', [0, 4], 3), tensor('one', 'U8', [], 4)], { stem: 'odd' })));
  const safetensors = [
    await whole(writeSafetensors([tensor('hidden_states', 'BF16', [6, 4, 8], 5), tensor('token_ids', 'I64', [6], 6)])),
    await whole(writeSafetensors([tensor('hidden_states', 'BF16', [6, 4, 8], 50), tensor('token_ids', 'I64', [6], 60)])),
    await whole(writeSafetensors([tensor('a', 'F8_E4M3', [3], 7), tensor('b', 'F64', [2, 0], 8)], new Map([['format', 'pt']]))),
  ];
  return { torch: [...torch, ...named('.pt')], safetensors: [...safetensors, ...named('.safetensors')] };
}
