import type { RandomAccess } from '../core/random-access.ts';
import { bf16ToFloat32, f16ToFloat32 } from '../format/bf16.ts';
import type { Dtype, TensorInfo } from '../format/tensors.ts';
import { floatScanner, isScannable, zeroPageScanner } from '../format/values.ts';
import type { InspectedTensor, InspectedValues, InspectVerdict } from './inspect-document.ts';

/** Read at a time: a multiple of every element's width, so that none is cut. */
const PIECE_BYTES = 4 * 1024 * 1024;
const PAGE_RUNS_MAX = 32;

/** Only of states is it known that no row of them may be zero; weights have padding rows. */
export function isState(tensor: Pick<TensorInfo, 'name' | 'dtype' | 'shape'>): boolean {
  return /hidden/i.test(tensor.name) && tensor.shape.length >= 2 && isScannable(tensor.dtype);
}

/** Elements of one layer's state of one token: a row of a tensor holds one of these, or several side by side. */
export function stateWidth(tensors: Iterable<TensorInfo>): number {
  return Math.min(...[...tensors].filter(isState).map((tensor) => tensor.shape.at(-1) ?? 1));
}

type Numbers = Float32Array | Float64Array | Int32Array | Int16Array | Uint16Array | Uint8Array | Int8Array | Uint32Array | BigInt64Array;

/** Bytes as numbers; null for a dtype that is not decoded. The bytes begin at a multiple of eight. */
function decoder(dtype: Dtype): ((bytes: Uint8Array) => Numbers) | null {
  const view = (bytes: Uint8Array): [ArrayBufferLike, number, number] => {
    const own = bytes.byteOffset % 8 === 0 ? bytes : Uint8Array.from(bytes);
    return [own.buffer, own.byteOffset, own.byteLength];
  };
  const of =
    <T>(make: new (buffer: ArrayBufferLike, offset: number, length: number) => T, width: number) =>
    (bytes: Uint8Array): T => {
      const [buffer, offset, length] = view(bytes);
      return new make(buffer, offset, length / width);
    };
  const halves = of(Uint16Array, 2);
  switch (dtype) {
    case 'BF16':
    case 'F16':
      return (bytes) => {
        const out = new Float32Array(bytes.length / 2);
        (dtype === 'BF16' ? bf16ToFloat32 : f16ToFloat32)(halves(bytes), out);
        return out;
      };
    case 'F32':
      return of(Float32Array, 4);
    case 'F64':
      return of(Float64Array, 8);
    case 'I64':
      return of(BigInt64Array, 8);
    case 'I32':
      return of(Int32Array, 4);
    case 'U32':
      return of(Uint32Array, 4);
    case 'I16':
      return of(Int16Array, 2);
    case 'U16':
      return of(Uint16Array, 2);
    case 'I8':
      return of(Int8Array, 1);
    case 'U8':
    case 'BOOL':
      return of(Uint8Array, 1);
    default:
      return null;
  }
}

/** Reads one tensor piece by piece. A text instead of values says why it was not read. */
export async function summarize(source: RandomAccess, tensor: TensorInfo, width: number): Promise<InspectedValues | string> {
  if (!tensor.contiguous) return 'not stored in one piece';
  const decode = decoder(tensor.dtype);
  if (decode === null) return `${tensor.dtype} is not decoded`;
  const integers = /^[IUB]/.test(tensor.dtype) && tensor.dtype !== 'BF16';
  const last = tensor.shape.at(-1) ?? 1;
  const rows =
    isState(tensor) && isScannable(tensor.dtype) && tensor.bytes > 0 ? floatScanner(tensor.dtype, last % width === 0 ? width : last) : null;
  const pages = zeroPageScanner(tensor.fileOffset);
  const seen = {
    elements: 0,
    finite: 0,
    zeros: 0,
    nan: 0,
    inf: 0,
    min: Number.POSITIVE_INFINITY,
    max: Number.NEGATIVE_INFINITY,
    squares: 0,
  };
  for (let at = 0; at < tensor.bytes; at += PIECE_BYTES) {
    const bytes = await source.read(tensor.fileOffset + at, Math.min(PIECE_BYTES, tensor.bytes - at));
    tally(decode(bytes), seen);
    rows?.push(bytes);
    if (rows !== null) pages.push(bytes);
  }
  const report = rows?.report() ?? null;
  const { elements, finite, zeros, nan, inf, min, max, squares } = seen;
  return {
    elements,
    min: finite > 0 ? min : null,
    max: finite > 0 ? max : null,
    rms: integers || finite === 0 ? null : Math.sqrt(squares / finite),
    zeros,
    nan,
    inf,
    rows: report?.rows ?? null,
    zeroRows: report?.zeroRows ?? null,
    firstZeroRow: report?.firstZeroRow ?? null,
    zeroRowsAtEnd: report?.zeroRowsAtEnd ?? null,
    zeroPages: pages
      .runs()
      .slice(0, PAGE_RUNS_MAX)
      .map(({ from, to }) => [from, to] as const),
  };
}

interface Seen {
  elements: number;
  finite: number;
  zeros: number;
  nan: number;
  inf: number;
  min: number;
  max: number;
  squares: number;
}

function tally(numbers: Numbers, seen: Seen): void {
  let { finite, zeros, nan, inf, min, max, squares } = seen;
  for (let i = 0; i < numbers.length; i += 1) {
    const value = Number(numbers[i]);
    if (!Number.isFinite(value)) {
      if (Number.isNaN(value)) nan += 1;
      else inf += 1;
      continue;
    }
    finite += 1;
    if (value === 0) zeros += 1;
    if (value < min) min = value;
    if (value > max) max = value;
    squares += value * value;
  }
  Object.assign(seen, { finite, zeros, nan, inf, min, max, squares, elements: seen.elements + numbers.length });
}

/** What the values of the states say of the file; null when they are good. The first bad tensor decides, as in an assessment. */
export function judgeValues(tensors: readonly InspectedTensor[]): InspectVerdict | null {
  for (const { name, values } of tensors) {
    if (values?.rows === null || values === null) continue;
    const bad = (kind: 'poisoned' | 'torn', reason: string, detail: string): InspectVerdict => ({ kind, reason, detail });
    if (values.nan > 0) return bad('poisoned', 'nan', `${name} holds ${values.nan} NaN`);
    if (values.inf > 0) return bad('poisoned', 'inf', `${name} holds ${values.inf} infinities`);
    if (values.rows > 0 && values.zeroRows === values.rows) return bad('poisoned', 'zero', `${name} is all zero`);
    const page = values.zeroPages[0];
    if (page !== undefined) return bad('torn', 'zero-filled', `${name} has zero pages, first at bytes ${page[0]}-${page[1]} of the file`);
    if ((values.zeroRows ?? 0) > 0) {
      return bad('poisoned', 'zero', `${name} has ${values.zeroRows} rows of zeros, first at row ${values.firstZeroRow} of ${values.rows}`);
    }
  }
  return null;
}
