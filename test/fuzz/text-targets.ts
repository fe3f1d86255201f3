import { loadConfig } from '../../src/app/config.ts';
import { isTidemarkError, messageOf } from '../../src/core/errors.ts';
import { rowIdentity } from '../../src/core/identity.ts';
import { jsonlPieces, parseJsonLine } from '../../src/dataset/jsonl.ts';
import { parseRow } from '../../src/dataset/row.ts';
import { parseModelConfig } from '../../src/engine/model-config.ts';
import { encodeLine, parseLines } from '../../src/format/checked-lines.ts';
import { RowTable, RowTableBuilder } from '../../src/format/row-table.ts';
import { createMemoryFiles } from '../support/memory-files.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { damaged, oneOf } from './mutate.ts';
import { boundedFile, type FuzzTarget, input, keep, sameBytes } from './target.ts';

/** Damaged forms of good texts, and now and then one that was made on purpose. */
function damagedText(seeds: readonly Uint8Array[], strange: readonly string[]): FuzzTarget['make'] {
  return (random) => {
    if (random.chance(0.1)) return input(Buffer.from(oneOf(random, strange)), 'made on purpose');
    const { bytes, made } = damaged(random, oneOf(random, seeds), oneOf(random, seeds));
    return input(bytes, made, { sealed: true });
  };
}

export function keepMessage(error: unknown, ...codes: Parameters<typeof isTidemarkError>[1][]): void {
  if (!isTidemarkError(error, ...codes)) throw error;
  keep(messageOf(error).length < 20_000, `its message has ${messageOf(error).length} characters`);
}

const DEEP = '['.repeat(100_000);

export function checkedLinesTarget(): FuzzTarget {
  const values = [{ kind: 'commit', row: 7, at: 1 }, { kind: 'close', at: 2 }, ['é\u0000', -1.5, null], '', { a: { b: [] } }];
  const written = new Set(values.map((value) => JSON.stringify(value)));
  const seeds = [values, values.slice(1), [values[0], values[0], values[0]]].map((lines) => Buffer.concat(lines.map(encodeLine)));
  return {
    name: 'checked-lines',
    make: damagedText(seeds, [
      '999999 00000000 x\n',
      '99999999999 00000000 \n',
      '000000 00000000 \n',
      '000001 00000000',
      ' \n',
      '-00001 00000000 1\n',
    ]),
    async check({ bytes, sealed }) {
      const lines = parseLines(bytes);
      keep(lines.validBytes >= 0 && lines.validBytes <= bytes.length, 'it counts bytes that are not there');
      keep((lines.tail === 'clean') === (lines.validBytes === bytes.length), 'tail and count disagree');
      // What is believed is what a writer wrote. (A length may have more zeros in front than a writer gives it.)
      if (sealed)
        keep(
          lines.values.every((value) => written.has(JSON.stringify(value))),
          'it believes a damaged line',
        );
    },
  };
}

export function rowTableTarget(): FuzzTarget {
  const random = seededRandom(11);
  const tableOf = (rows: number): Uint8Array => {
    const builder = new RowTableBuilder();
    for (let row = 0; row < rows; row += 1) {
      const ids = Uint32Array.from({ length: 1 + random.below(6) }, () => random.below(9));
      builder.add(
        random.chance(0.1)
          ? null
          : rowIdentity(
              ids,
              Uint8Array.from(ids, () => random.below(2)),
            ),
      );
    }
    return builder.build().encode();
  };
  const seeds = [0, 1, 5, 5, 1025, 2048].map(tableOf);
  return {
    name: 'row-table',
    make: damagedText(seeds, ['', 'TMROWS01', 'TMROWS02'.padEnd(64, '\0')]),
    async check({ bytes }) {
      try {
        const table = RowTable.decode(bytes, 'rows.bin');
        for (let row = 0; row < table.rows; row += 1) table.at(row);
        const encoded = Buffer.from(table.encode());
        // Four bytes of the header that nothing reads.
        bytes.subarray(60, 64).forEach((byte, at) => {
          encoded[60 + at] = byte;
        });
        keep(sameBytes(encoded, bytes), 'it believes a damaged table');
      } catch (error) {
        keepMessage(error, 'format-refused');
      }
    },
  };
}

export function jsonlTarget(): FuzzTarget {
  const rows = [
    '{"input_ids":[1,2,3],"loss_mask":[0,1,1],"id":"a"}',
    '{"id":7,"messages":[{"role":"user","content":"hé"},{"role":"assistant","content":"x","reasoning_content":"y"}]}',
    '{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":[{"type":"text","text":"z"}]}],"input_ids":null}',
    '',
    '{"input_ids":[4294967295]}\r',
    '\uFEFF{"input_ids":[0],"uuid":"\\u0000"}',
  ];
  const seeds = [rows.join('\n'), `${rows.slice(0, 2).join('\n')}\n`, `${rows.join('\n')}\n`.repeat(20)].map((text) => Buffer.from(text));
  const strange = [
    DEEP,
    `{"input_ids":${DEEP}`,
    '{"a":'.repeat(50_000),
    `{"input_ids":[${'1,'.repeat(200_000)}1]}`,
    '{"input_ids":[1e999,-0,0.5]}',
    '{"__proto__":{"input_ids":[1]}}',
    '\n'.repeat(100_000),
    `{"input_ids":{"length":4294967295}}`,
  ];
  return {
    name: 'jsonl',
    make: damagedText(seeds, strange),
    async check(fuzz) {
      const whole = await linesOf(fuzz, 1 << 22);
      // The pieces that a file is read in are nobody's business.
      const pieceBytes = 1 + (fuzz.bytes.length % 37);
      if (fuzz.bytes.length < 20_000)
        keep(JSON.stringify(await linesOf(fuzz, pieceBytes)) === JSON.stringify(whole), `pieces of ${pieceBytes} bytes give other lines`);
    },
  };
}

async function linesOf(fuzz: Parameters<FuzzTarget['check']>[0], pieceBytes: number): Promise<unknown[]> {
  const file = boundedFile(fuzz, { largest: pieceBytes, total: fuzz.bytes.length });
  const seen: unknown[] = [];
  let end = 0;
  for await (const piece of jsonlPieces(file, { pieceBytes, lineBytesMost: 100_000 })) {
    for (const { line, start, bytes, text } of piece) {
      keep(start >= end && start + bytes <= file.size, `line ${line} lies at ${start}-${start + bytes}`);
      end = start + bytes;
      keep(
        text === null ? bytes > 100_000 - 4 : sameBytes(text, fuzz.bytes.subarray(start, end)),
        `line ${line} has another text than its place`,
      );
      const parsed = text === null ? null : parseJsonLine(text);
      const row = parsed?.ok ? parseRow(parsed.value, { encoder: null, maxTokens: 100_000 }) : null;
      if (row?.kind === 'row') {
        keep(row.inputIds.length > 0 && row.inputIds.length === row.lossMask.length, 'ids and mask have other lengths');
        keep(
          row.lossMask.every((bit) => bit <= 1),
          'a mask bit that is none',
        );
      }
      const message = parsed?.ok === false ? parsed.message : row?.kind === 'problem' ? row.message : '';
      keep(
        message.length < 1000 && ![...message].some((character) => character < ' '),
        `a message of ${message.length} characters, or not of one line`,
      );
      seen.push([line, start, bytes, row?.kind ?? message]);
    }
  }
  return seen;
}

const CONFIG = `# tidemark
output: ./hidden_states
dataset: ./merged.jsonl
target:
  model: /models/tide
  revision: null
engine:
  kind: vllm
  urls: [http://127.0.0.1:8000, "http://127.0.0.1:8001"]
  staging: /dev/shm/tidemark
  inFlight: 8
  timeout: 120s
states:
  auxiliaryLayers: [2, 4, 5]
  dtype: bfloat16
  maxTokens: 2048
layout:
  name: specforge
  extension: ckpt
  groupSize: 2000
limits:
  attempts: 3
  failureSamples: 10
  failureShare: 0.001
  consecutiveFailures: 16
  reserve: 1GiB
fileMode: "0644"
`;

export function configTarget(): FuzzTarget {
  const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghij'
    .split('')
    .map((name, at) => `${name}: &${name} [${new Array(9).fill(`*${'abcdefghij'.charAt(at)}`).join(',')}]`)
    .join('\n')}\n`;
  const strange = [
    '',
    '---\n---\n',
    bomb,
    '['.repeat(5_000),
    'a: '.repeat(3_000),
    '- '.repeat(5_000),
    '!!js/function x',
    '? {}\n: 1',
    '&a [*a]',
    'output: !!binary AAAA',
    '\t',
    '%YAML 9.9\n---\n',
    `${CONFIG}engine: {}\n`,
    '<<: *x',
    '__proto__: {output: x}',
  ];
  return {
    name: 'config',
    make: damagedText([Buffer.from(CONFIG), Buffer.from('output: a\ndataset: b\n')], strange),
    async check({ bytes }) {
      const files = createMemoryFiles({ folders: ['/x'] });
      files.plant('/x/tidemark.yaml', bytes);
      try {
        await loadConfig(files, null, {}, '/x');
        keep(Object.getOwnPropertyNames(Object.prototype).length === PROTOTYPE_NAMES, 'the prototype of objects was changed');
      } catch (error) {
        keepMessage(error, 'config', 'usage');
      }
    },
  };
}

const PROTOTYPE_NAMES = Object.getOwnPropertyNames(Object.prototype).length;

export function modelConfigTarget(): FuzzTarget {
  const flat = '{"architectures":["LlamaForCausalLM"],"hidden_size":256,"num_hidden_layers":8,"rms_norm_eps":1e-5,"vocab_size":1344}';
  const nested =
    '{"architectures":["KimiK25ForConditionalGeneration"],"text_config":{"architectures":["DeepseekV3ForCausalLM"],"hidden_size":7168,"num_hidden_layers":61,"rms_norm_eps":1e-6}}';
  return {
    name: 'model-config',
    make: damagedText(
      [Buffer.from(flat), Buffer.from(nested)],
      [DEEP, 'null', '[]', '{"architectures":[{"toString":1}]}', '{"architectures":["__proto__"]}', '{"text_config":{"text_config":{}}}'],
    ),
    async check({ bytes }) {
      try {
        const config = parseModelConfig(bytes, 'config.json');
        keep(Number.isSafeInteger(config.hiddenSize) && config.hiddenSize > 0 && config.norm.epsilon > 0, 'a shape that is none');
      } catch (error) {
        keepMessage(error, 'model');
      }
    },
  };
}
