import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LEVELS, levelAtLeast } from '../core/verdict.ts';
import type { FileProbe, SampleProbe } from './gather-probe.ts';
import { PROBE_BYTES, readProbe, WordTable, writeProbe } from './probe-bytes.ts';
import { type ProofOrigin, ProofTable, sameFile } from './proof-table.ts';

const ORIGIN: ProofOrigin = { folder: '/data', layout: 'specforge', form: '[]', codec: 'torch-zip', bootId: 'b', version: '0' };

const uint32 = fc.integer({ min: 0, max: 0xffffffff });
const hex = fc.uint8Array({ minLength: 16, maxLength: 16 }).map((bytes) => Buffer.from(bytes).toString('hex'));
const count = fc.double({ min: 0, max: 2 ** 53, noNaN: true });
const idsProbe = fc.record({ tokens: uint32, identity: hex, strippedTokens: uint32, stripped: hex }).map((ids) =>
  // Equal lengths are the same ids.
  ids.strippedTokens === ids.tokens ? { ...ids, stripped: ids.identity } : ids,
);
const sample: fc.Arbitrary<SampleProbe> = fc.record({
  provable: fc.boolean(),
  misfit: fc.constant(null),
  tokensWithoutIds: fc.constant(null),
  shape: fc.string(),
  recordCount: fc.integer({ min: 0, max: 255 }),
  recordsCrc32: uint32,
  ids: fc.option(idsProbe),
  bytes: fc.option(fc.record({ crc32: uint32 })),
  values: fc.option(fc.constant({ kind: 'good' } as const)),
});
const plain: fc.Arbitrary<FileProbe> = fc.record({
  stat: fc.record({
    kind: fc.constant('file' as const),
    bytes: count,
    allocatedBytes: count,
    modifiedMs: count,
    changedMs: count,
    device: fc.string(),
    inode: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
  }),
  refusal: fc.constant(null),
  damage: fc.constant(null),
  sample,
});

describe('a probe as bytes', () => {
  it('comes back as it was', () => {
    fc.assert(
      fc.property(plain, (probe) => {
        const view = new DataView(new ArrayBuffer(PROBE_BYTES + 3));
        const words = new WordTable();
        expect(writeProbe(view, 3, probe, words)).toBe(true);
        expect(readProbe(view, 3, words.words)).toEqual(probe);
      }),
    );
  });

  it('is not made of anything that is not plain and sound', () => {
    const [good] = fc.sample(plain, { numRuns: 1, seed: 7 });
    if (good === undefined || good.sample === null) throw new Error('a sample was asked for');
    const torn = { kind: 'torn', reason: 'structure', detail: 'x' } as const;
    const others: FileProbe[] = [
      { ...good, stat: null },
      { ...good, refusal: { reason: 'timeout', detail: 'x' } },
      { ...good, damage: torn },
      { ...good, sample: null },
      { ...good, sample: { ...good.sample, misfit: 'x' } },
      { ...good, sample: { ...good.sample, ids: { damage: torn } } },
      { ...good, sample: { ...good.sample, bytes: { damage: torn } } },
      { ...good, sample: { ...good.sample, values: { kind: 'bad', reason: 'nan', detail: 'x' } } },
      { ...good, sample: { ...good.sample, values: { kind: 'unknown', detail: 'x' } } },
      { ...good, sample: { ...good.sample, recordCount: 256 } },
    ];
    const view = new DataView(new ArrayBuffer(PROBE_BYTES));
    for (const probe of others) expect(writeProbe(view, 0, probe, new WordTable())).toBe(false);
    expect(new Uint8Array(view.buffer).every((byte) => byte === 0)).toBe(true);
  });
});

describe('a table of proofs', () => {
  const [probe] = fc.sample(plain, { numRuns: 1, seed: 11 });
  if (probe === undefined) throw new Error('a probe was asked for');

  it('answers for a level that was reached, for that path, and for nothing older than is asked', () => {
    const table = new ProofTable(ORIGIN);
    for (const [file, level] of LEVELS.entries()) table.put(file * 1000, `f${file}`, probe, { level, atMs: 500 });
    for (const asked of LEVELS) {
      for (const [file, level] of LEVELS.entries()) {
        expect(table.find(file * 1000, `f${file}`, asked) !== null).toBe(levelAtLeast(level, asked));
        expect(table.find(file * 1000, 'another', asked)).toBeNull();
        expect(table.find(file * 1000, `f${file}`, asked, 501)).toBeNull();
        expect(table.find(file * 1000 + 1, `f${file}`, asked)).toBeNull();
      }
    }
    expect(table.find(1e7, 'f', 'names')).toBeNull();
  });

  it('forgets a file that is sound no more', () => {
    const table = new ProofTable(ORIGIN);
    table.put(3, 'f', probe, { level: 'content', atMs: 1 });
    table.put(3, 'f', { ...probe, damage: { kind: 'torn', reason: 'structure', detail: '' } }, { level: 'names', atMs: 2 });
    expect(table.find(3, 'f', 'names')).toBeNull();
  });

  it('is read back whole or not at all', () => {
    const table = new ProofTable(ORIGIN);
    for (let file = 0; file < 50; file += 1) table.put(file, `f${file}`, probe, { level: 'identity', atMs: file });
    table.scrub = { level: 'content', beganMs: 5 };
    const bytes = table.encode();
    const back = ProofTable.decode(bytes, ORIGIN);
    expect(back?.scrub).toEqual({ level: 'content', beganMs: 5 });
    expect(back?.find(49, 'f49', 'identity')).toEqual({ probe, madeMs: 49 });
    for (const other of [{ bootId: 'c' }, { folder: '/other' }, { form: '' }, { version: '1' }, { codec: 'x' }, { layout: 'x' }])
      expect(ProofTable.decode(bytes, { ...ORIGIN, ...other })).toBeNull();
    fc.assert(
      fc.property(fc.integer({ min: 0, max: bytes.length - 1 }), fc.integer({ min: 1, max: 255 }), (at, by) => {
        const damaged = bytes.slice();
        damaged[at] = (damaged[at] ?? 0) ^ by;
        // Eight spare bytes of the header are nobody's.
        expect(ProofTable.decode(damaged, ORIGIN) === null || (at >= 16 && at < 24)).toBe(true);
        expect(ProofTable.decode(bytes.slice(0, at), ORIGIN)).toBeNull();
      }),
    );
  });

  it('tells a file from one that changed in any way that its inode shows', () => {
    const { stat } = probe;
    if (stat === null) throw new Error('a stat was asked for');
    expect(sameFile(stat, { ...stat })).toBe(true);
    for (const other of [
      { bytes: stat.bytes + 1 },
      { modifiedMs: stat.modifiedMs + 1 },
      { changedMs: stat.changedMs + 1 },
      { inode: 'x' },
      { device: 'x' },
    ])
      expect(sameFile(stat, { ...stat, ...other })).toBe(false);
  });
});
