import type { RandomAccess } from '../core/random-access.ts';
import { levelAtLeast } from '../core/verdict.ts';
import { parsed } from '../format/damage.ts';
import { GzipStream } from '../format/gzip-stream.ts';
import type { TensorInfo } from '../format/tensors.ts';
import { TorchStream } from '../format/torch-stream.ts';
import { type Findings, hex32, type InspectLevel, NOTHING_FOUND } from './inspect-document.ts';
import { inspectIds, inspectTensors } from './inspect-parts.ts';
import { judgeValues } from './inspect-values.ts';

/** A torch zip inside gzip: it can only be read forwards, and only reading all of it proves its end. */
export async function inspectGzip(source: RandomAccess, level: InspectLevel): Promise<Findings> {
  const whole = levelAtLeast(level, 'identity');
  const read = await parsed(() => passed(source, whole));
  if (!read.ok) return { ...NOTHING_FOUND, verdict: read.damage };
  const { tensors, sum, trailer } = read.value;
  const proved = [`the gzip header, and a pickle of ${tensors.size} tensors at its beginning`];
  const notProved: string[] = [];
  if (whole) proved.push('every byte: the CRC-32 of each record, and the length and CRC-32 that the gzip trailer says');
  else notProved.push('everything behind the pickle: gzip can only be read forwards; --level checksum inflates all of it');
  const inflated = new InflatedFile(source, trailer.length);
  try {
    const ids = whole ? await inspectIds(inflated, tensors) : null;
    if (typeof ids === 'string') notProved.push(`which row it holds: ${ids}`);
    const content = level === 'content';
    // In the order of their places, so that the stream is inflated once.
    const ordered = new Map([...tensors].sort(([, a], [, b]) => a.fileOffset - b.fileOffset));
    const inspected = await inspectTensors(inflated, ordered, content);
    const bad = content ? judgeValues(inspected) : null;
    if (content && bad === null) proved.push('values: no NaN, infinity, zero row or zero page in a tensor of states');
    return {
      ...NOTHING_FOUND,
      writer: { guess: 'torch.save into gzip', source: 'the gzip header and the record behind it' },
      verdict: bad ?? { kind: 'sound', reason: 'checked', detail: null },
      proved,
      notProved,
      tensors: inspected,
      records: [
        {
          name: '(gzip stream)',
          offset: 0,
          bytes: trailer.length,
          stored: hex32(trailer.crc32),
          computed: whole ? hex32(trailer.crc32) : null,
        },
      ],
      identity: typeof ids === 'string' ? null : ids,
      crc32: sum === null ? null : hex32(sum),
    };
  } finally {
    inflated.close();
  }
}

interface Passed {
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /** CRC-32 of the file as stored, where all of it was read. */
  readonly sum: number | null;
  readonly trailer: { readonly crc32: number; readonly length: number };
}

async function passed(source: RandomAccess, whole: boolean): Promise<Passed> {
  const stream = await GzipStream.open(source);
  try {
    const torch = await TorchStream.open(stream);
    if (whole) await torch.finish();
    const { crc32, length32 } = stream.trailer;
    // Beyond 4 GiB the trailer's length has wrapped; the stream knows better.
    return { tensors: torch.tensors, sum: whole ? stream.fileCrc32 : null, trailer: { crc32, length: whole ? stream.offset : length32 } };
  } finally {
    stream.close();
  }
}

/** What a gzip file inflates to, as a file. Reading backwards begins anew. */
class InflatedFile implements RandomAccess {
  readonly size: number;
  readonly #source: RandomAccess;
  #stream: GzipStream | null = null;

  constructor(source: RandomAccess, size: number) {
    this.#source = source;
    this.size = size;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    if (this.#stream === null || this.#stream.offset > offset) {
      this.close();
      this.#stream = await GzipStream.open(this.#source);
    }
    await this.#stream.pass(offset - this.#stream.offset, 'the file');
    return this.#stream.take(length, 'the file');
  }

  close(): void {
    this.#stream?.close();
    this.#stream = null;
  }
}
