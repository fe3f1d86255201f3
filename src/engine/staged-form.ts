import { TidemarkError } from '../core/errors.ts';
import type { RandomAccess } from '../core/random-access.ts';
import { readSafetensors } from '../format/safetensors.ts';
import { DTYPE_BYTES, type Parsed, type TensorInfo } from '../format/tensors.ts';
import { LAUNCH_HINT, shown } from './vllm-protocol.ts';

/** What the states of this run look like, whatever the row. */
export interface StatesForm {
  /** Auxiliary layers and the last state. */
  readonly layers: number;
  /** The model's hidden size, or null when unknown. */
  readonly width: number | null;
}

type Tensors = ReadonlyMap<string, TensorInfo>;

const pieceBytes = 1 << 20;
/** Enough that a state with so many zero bytes at its end is no state. */
const tailBytesMost = 4096;

/** The tensors of a file whose structure is whole, or what is wrong with it. */
export async function readForm(file: RandomAccess): Promise<Parsed<Tensors>> {
  const read = await readSafetensors(file);
  return read.ok ? { ok: true, value: read.value.tensors } : read;
}

/** Rejects a whole file that is not the connector's for our layers: no waiting makes it right. */
export function expectForm(
  tensors: Tensors,
  form: StatesForm,
  tokens: number,
  where: string,
): { states: TensorInfo; tokenIds: TensorInfo } {
  const states = tensors.get('hidden_states');
  const tokenIds = tensors.get('token_ids');
  const protocol = (message: string, hint = LAUNCH_HINT): TidemarkError => new TidemarkError('engine-protocol', message, { where, hint });
  if (states === undefined || tokenIds === undefined) {
    const names = [...tensors.keys()].slice(0, 12).map((name) => shown(name.slice(0, 60)));
    throw protocol(`the staged file must hold hidden_states and token_ids; it holds ${names.length === 0 ? 'nothing' : names.join(', ')}`);
  }
  if (tokenIds.dtype !== 'I64' || tokenIds.shape.length !== 1) throw protocol(`token_ids must be I64 [tokens], and is ${formOf(tokenIds)}`);
  const [rows, layers, width] = states.shape;
  if (states.shape.length !== 3 || rows === undefined || layers === undefined || width === undefined) {
    throw protocol(`hidden_states must be [tokens, layers, width], and is ${formOf(states)}`);
  }
  if (states.dtype !== 'BF16' && states.dtype !== 'F16' && states.dtype !== 'F32') {
    throw protocol(`hidden_states must be BF16, F16 or F32, and is ${formOf(states)}`, 'start the server with --dtype bfloat16');
  }
  if (layers !== form.layers) throw protocol(layersMessage(layers, form.layers), layersHint(layers, form.layers));
  if (form.width !== null && width !== form.width) {
    throw protocol(
      `the states are ${width} wide, and the target's hidden size is ${form.width}`,
      'look which model the server serves: it is not the target',
    );
  }
  if (tokenIds.shape[0] !== tokens) {
    throw new TidemarkError('capture-bad', `the file holds ${tokenIds.shape[0]} token ids, and ${tokens} were sent`, {
      where,
      hint: 'look for a truncation setting of the server',
      retry: 'later',
    });
  }
  if (rows !== tokens) throw shortStates(rows, tokens, where);
  return { states, tokenIds };
}

function layersMessage(found: number, wanted: number): string {
  const dropped =
    found === wanted - 1 ? '; the final layer was dropped, as DeepSeek, Kimi and GLM models do before the fix of vllm pull 46973' : '';
  return `the states have ${found} layers, and ${wanted} were asked for (auxiliary and last)${dropped}`;
}

function layersHint(found: number, wanted: number): string {
  return found === wanted - 1
    ? 'update vLLM to a version with pull 46973; another layer id in place of the last one gives another tensor'
    : 'start the server with eagle_aux_hidden_state_layer_ids equal to the auxiliary layers of this run and the layer count';
}

function shortStates(rows: number, tokens: number, where: string): TidemarkError {
  const missing = tokens - rows;
  const cached = missing > 0 && missing % 16 === 0;
  return new TidemarkError(
    'capture-bad',
    `the states have ${rows} rows for ${tokens} tokens${cached ? `: short by ${missing}, a multiple of 16, as when the server's prefix cache is on` : ''}`,
    {
      where,
      hint: cached
        ? 'start the server with --no-enable-prefix-caching (vllm issue 44485)'
        : 'start the server with --no-enable-prefix-caching --no-enable-chunked-prefill',
      retry: 'later',
    },
  );
}

/** The first position at which the stored ids are not those sent. */
export async function firstOtherId(
  file: RandomAccess,
  tokenIds: TensorInfo,
  sent: Uint32Array,
): Promise<{ at: number; found: string; zeroFromThere: boolean } | null> {
  const idsAPiece = pieceBytes / 8;
  let other: { at: number; found: string; zeroFromThere: boolean } | null = null;
  for (let from = 0; from < sent.length; from += idsAPiece) {
    const count = Math.min(idsAPiece, sent.length - from);
    const bytes = await file.read(tokenIds.fileOffset + from * 8, count * 8);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let i = 0; i < count; i++) {
      const low = view.getUint32(i * 8, true);
      const high = view.getUint32(i * 8 + 4, true);
      if (other === null) {
        if (low === sent[from + i] && high === 0) continue;
        other = { at: from + i, found: String(view.getBigInt64(i * 8, true)), zeroFromThere: low === 0 && high === 0 };
      } else if (low !== 0 || high !== 0) return { ...other, zeroFromThere: false };
    }
    if (other !== null && !other.zeroFromThere) return other;
  }
  return other;
}

/** Whether the end of the last row is zero: the sign of a file that got its length before its bytes. */
export async function tailIsZero(file: RandomAccess, states: TensorInfo): Promise<boolean> {
  // Within the last slice of the last row, so that a small model's check does not reach into other rows.
  const slice = (states.shape[2] ?? 1) * DTYPE_BYTES[states.dtype];
  const length = Math.min(tailBytesMost, slice, states.bytes);
  if (length === 0) return false;
  return isZero(await file.read(states.fileOffset + states.bytes - length, length));
}

/** The first of the rows that are zero up to the end; the last row when only its own end is. */
export async function firstUnwrittenRow(file: RandomAccess, states: TensorInfo): Promise<number> {
  const rows = states.shape[0] ?? 0;
  const rowBytes = rows === 0 ? 0 : states.bytes / rows;
  if (rowBytes === 0) return 0;
  const rowsAPiece = Math.max(1, Math.floor(pieceBytes / rowBytes));
  let row = rows;
  while (row > 0) {
    const from = Math.max(0, row - rowsAPiece);
    const bytes = await file.read(states.fileOffset + from * rowBytes, (row - from) * rowBytes);
    for (; row > from; row--) {
      const start = (row - 1 - from) * rowBytes;
      if (!isZero(bytes.subarray(start, start + rowBytes))) return Math.min(row, rows - 1);
    }
  }
  return 0;
}

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}

function formOf(tensor: TensorInfo): string {
  return `${tensor.dtype} [${tensor.shape.join(', ')}]`;
}
