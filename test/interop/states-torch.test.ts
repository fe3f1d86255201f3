import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { STATES_DTYPES, type StatesDtype } from '../../src/core/run-layout.ts';
import { applyFinalNorm, type FinalNorm } from '../../src/format/norm.ts';
import { type StateRows, stateSlots } from '../../src/format/states.ts';
import { seeded } from '../support/scenes/emit.ts';

const PYTHON = '/usr/bin/python3';
/** Rounds a file of float32 to all dtypes, by torch's own casts. */
const ROUND = `
import ctypes, sys, torch
values = torch.frombuffer(bytearray(open(sys.argv[1], "rb").read()), dtype=torch.float32)
for name, dtype in (("BF16", torch.bfloat16), ("F16", torch.float16), ("F32", torch.float32)):
    out = values.to(dtype).contiguous()
    open(sys.argv[1] + "." + name, "wb").write(ctypes.string_at(out.data_ptr(), out.numel() * out.element_size()))
`;

const TOKENS = 900;
const LAYERS = 4;
const WIDTH = 64;

let folder: string;
let values: Float32Array;

/** Every exponent that both 16-bit formats have, ties and near-ties of both, subnormals, and the largest that float16 holds. */
function awkward(): Float32Array {
  const next = seeded(11);
  const out = new Float32Array(TOKENS * LAYERS * WIDTH);
  const edges = [65504, -65504, 65519.99, 2 ** -24, 2 ** -25, -(2 ** -25) * 1.000001, 6.1e-5, 5.9e-8, 2049, 2051, 256.5, 257.5, -0, 1];
  for (let at = 0; at < out.length; at += 1) {
    const scale = 2 ** (next(40) - 25);
    const tie = next(4) === 0 ? Math.fround((1024 + next(1024)) * scale * (1 + 2 ** -11)) : (next(2 ** 24) / 2 ** 23 - 1) * scale;
    out[at] = next(50) === 0 ? (edges[next(edges.length)] ?? 1) : Math.max(-65504, Math.min(65504, tie));
  }
  return out;
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tidemark-states-'));
  values = awkward();
  writeFileSync(join(folder, 'values'), values);
  const done = spawnSync(PYTHON, ['-c', ROUND, join(folder, 'values')], { encoding: 'utf8' });
  if (done.status !== 0) throw new Error(`torch for ${PYTHON} (apt-get install python3-torch): ${done.stderr}`);
});
afterAll(() => rmSync(folder, { recursive: true }));

function rowsOf(all: Float32Array, layers: number, width: number): StateRows {
  const row = layers * width;
  return {
    ...{ tokens: all.length / row, layers, width, dtype: 'F32' as const },
    readRows: async (from, to) => new Uint8Array(all.buffer, all.byteOffset + from * row * 4, (to - from) * row * 4),
  };
}

async function taken(states: StateRows, first: number, end: number, dtype: StatesDtype, norm: FinalNorm | null = null): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const piece of stateSlots(states, { first, end, dtype, norm })) parts.push(Uint8Array.from(piece));
  return Buffer.concat(parts);
}

/** Slots `[first, end)` of every token of a row-major tensor. */
function cut(bytes: Buffer, first: number, end: number): Buffer {
  const size = bytes.length / (TOKENS * LAYERS * WIDTH);
  const token = LAYERS * WIDTH * size;
  return Buffer.concat(
    Array.from({ length: TOKENS }, (_, at) => bytes.subarray(at * token + first * WIDTH * size, at * token + end * WIDTH * size)),
  );
}

describe('states', () => {
  for (const dtype of STATES_DTYPES) {
    it(`are rounded to ${dtype} as torch rounds them, whatever slots are taken`, async () => {
      const torch = readFileSync(join(folder, `values.${dtype}`));
      const states = rowsOf(values, LAYERS, WIDTH);
      for (const [first, end] of [
        [0, LAYERS],
        [0, 3],
        [1, 2],
        [3, 4],
      ] as const) {
        expect((await taken(states, first, end, dtype)).equals(cut(torch, first, end)), `${first} to ${end}`).toBe(true);
      }
    });
  }

  it('have their last slot normed and no other', async () => {
    const norm: FinalNorm = {
      kind: 'rms',
      epsilon: 1e-6,
      weight: Float32Array.from({ length: WIDTH }, (_, at) => 0.5 + at / WIDTH),
      bias: null,
    };
    const states = rowsOf(values, LAYERS, WIDTH);
    const last = Float32Array.from(new Float32Array(new Uint8Array(await taken(states, 3, 4, 'F32')).buffer));
    applyFinalNorm(norm, last, WIDTH);
    const all = new Float32Array(new Uint8Array(await taken(states, 0, LAYERS, 'F32', norm)).buffer);
    const at = (token: number, slot: number): number[] => [
      ...all.subarray((token * LAYERS + slot) * WIDTH, (token * LAYERS + slot + 1) * WIDTH),
    ];
    for (const token of [0, 1, 511, TOKENS - 1]) {
      expect(at(token, 3)).toEqual([...last.subarray(token * WIDTH, (token + 1) * WIDTH)]);
      expect(at(token, 2)).toEqual([...values.subarray((token * LAYERS + 2) * WIDTH, (token * LAYERS + 3) * WIDTH)]);
    }
    expect((await taken(states, 0, 3, 'F32', norm)).equals(await taken(states, 0, 3, 'F32'))).toBe(true);
  });
});

describe('bad values are refused by name', () => {
  const refused = async (value: number, dtype: StatesDtype): Promise<unknown> => {
    const all = Float32Array.from({ length: 6 * 2 * 8 }, (_, at) => 1 + at);
    // Token 4, slot 1.
    all[(4 * 2 + 1) * 8 + 3] = value;
    return taken(rowsOf(all, 2, 8), 0, 2, dtype).then(
      () => 'kept',
      (error: unknown) => (error instanceof Error ? error.message : error),
    );
  };

  it.each([
    [65519.99, 'F16', 'kept'],
    [65520, 'F16', 'layer slot 1 has a value beyond float16 (its largest is 65504) in row 4'],
    [-1e30, 'F16', 'layer slot 1 has a value beyond float16 (its largest is 65504) in row 4'],
    [65520, 'BF16', 'kept'],
    [3.4e38, 'BF16', 'layer slot 1 has a value beyond bfloat16 in row 4'],
    [3.4e38, 'F32', 'kept'],
    [Number.POSITIVE_INFINITY, 'F32', 'layer slot 1 has a value that is infinite in row 4'],
    [Number.NEGATIVE_INFINITY, 'F16', 'layer slot 1 has a value that is infinite in row 4'],
    [Number.NaN, 'BF16', 'layer slot 1 has a value that is not a number in row 4'],
  ] as const)('%d as %s', async (value, dtype, message) => {
    expect(await refused(value, dtype)).toBe(message);
  });

  it.each([
    [0, 'F32', true],
    [-0, 'BF16', true],
    [1e-40, 'F32', false],
    [1e-9, 'F16', true],
    [2 ** -25, 'F16', true],
    [2 ** -24, 'F16', false],
    [1e-9, 'BF16', false],
  ] as const)('a row of %d as %s: all zero is %s', async (value, dtype, zero) => {
    const all = new Float32Array(16).fill(value);
    const kept = taken(rowsOf(all, 1, 8), 0, 1, dtype);
    if (zero) await expect(kept).rejects.toThrow('layer slot 0 has nothing but zeros in row 0');
    else expect(new Set(await kept).size).toBeGreaterThan(0);
  });
});
